/* nvrtc.c: compiles kernels for several architectures in parallel, each in its
 * own process, which returns the result through a pipe.
 *
 * It uses processes, because NVRTC serializes compilations within a process,
 * and because a crash of the compiler ends only that process. ptxas reports on
 * each kernel (-v); the rest of the log must be empty.
 */
#include "codegen/cuda/nvrtc.h"

#include "base/bug.h"
#include "base/clock.h"
#include "base/file.h"
#include "codegen/cuda/nvrtc_library.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* One compilation: to machine code, PTX or both. */
typedef struct Job {
    const char *arch; /* "sm_80"; "compute_90": only PTX */
    const char *ptx;  /* the name of the PTX, "compute_80"; NULL: not wanted */
    pid_t pid;
    int from; /* the pipe from the process */
} Job;

/* The header that a process sends before the log, the machine code and the
 * PTX. */
typedef struct Answer {
    int result;
    double seconds;
    size_t log, cubin, ptx; /* bytes */
} Answer;

/* ---- the child process --------------------------------------------------- */

static void send(int to, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(to, data, size);
        if (n < 0 && errno != EINTR)
            _exit(1);
        data += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
}

/* Data that the library returns by a size function and a get function; NULL:
 * none. */
static char *fetch_text(Arena *a, NvrtcProgram p,
                        int (*measure)(NvrtcProgram, size_t *),
                        int (*get)(NvrtcProgram, char *), size_t *size)
{
    *size = 0;
    if (measure(p, size) != 0 || *size == 0)
        return NULL;
    char *data = arena_alloc(a, *size + 1);
    if (get(p, data) != 0)
        *size = 0;
    return data;
}

static _Noreturn void compile_job(Arena *a, const NvrtcLibrary *lib,
                                  const NvrtcText *source,
                                  const NvrtcText *header, int nheaders,
                                  const Job *job, int to)
{
    const char *option[] = {arena_printf(a, "-arch=%s", job->arch),
                            "-std=c++17", "-lineinfo", "--ptxas-options=-v"};
    const char **text = NEW_ARRAY(a, const char *, nheaders);
    const char **name = NEW_ARRAY(a, const char *, nheaders);
    for (int i = 0; i < nheaders; i++) {
        text[i] = header[i].text;
        name[i] = header[i].name;
    }
    double begin = seconds_now();
    Answer r = {0};
    if (chdir("/") != 0) /* line tables contain the current directory */
        _exit(1);
    NvrtcProgram p;
    char *log = NULL, *cubin = NULL, *ptx = NULL;
    r.result = lib->create(&p, source->text, source->name, nheaders, text, name);
    if (r.result == 0) {
        r.result = lib->compile(p, sizeof option / sizeof *option, option);
        log = fetch_text(a, p, lib->log_size, lib->log, &r.log);
    }
    if (r.result == 0 && job->arch[0] == 's')
        cubin = fetch_text(a, p, lib->cubin_size, lib->cubin, &r.cubin);
    if (r.result == 0 && job->ptx)
        ptx = fetch_text(a, p, lib->ptx_size, lib->ptx, &r.ptx);
    r.seconds = seconds_now() - begin;
    send(to, (const char *)&r, sizeof r);
    send(to, log, r.log);
    send(to, cubin, r.cubin);
    send(to, ptx, r.ptx);
    _exit(0);
}

/* ---- the parent process -------------------------------------------------- */

static const char *start_job(Arena *a, const NvrtcLibrary *lib,
                             const NvrtcText *source, const NvrtcText *header,
                             int nheaders, Job *job)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return arena_printf(a, "cannot start a compilation for %s: %s",
                            job->arch, strerror(errno));
    job->from = ends[0];
    job->pid = fork();
    if (job->pid == 0) {
        close(ends[0]);
        compile_job(a, lib, source, header, nheaders, job, ends[1]);
    }
    int error = errno;
    close(ends[1]);
    if (job->pid > 0)
        return NULL;
    close(ends[0]);
    return arena_printf(a, "cannot start a compilation for %s: %s", job->arch,
                        strerror(error));
}

/* Reads size bytes; NULL if the process ended early, or a signal asks parc to stop. */
static char *receive(Arena *a, int from, size_t size)
{
    char *data = arena_alloc(a, size + 1);
    size_t n = 0;
    while (n < size) {
        if (wait_readable(from))
            return NULL;
        ssize_t got = read(from, data + n, size - n);
        if (got == 0 || (got < 0 && errno != EINTR))
            return NULL;
        n += got > 0 ? (size_t)got : 0;
    }
    data[size] = 0;
    return data;
}

static void add_image(Arena *a, NvrtcResult *r, const char *arch,
                      const char *data, size_t size)
{
    NvrtcImage image = {arch, data, size};
    if (size > 0)
        vec_push(a, &r->image, image);
}

/* Reads the result of one process; PTX is returned separately, to be put
 * last. */
static const char *read_answer(Arena *a, const NvrtcLibrary *lib,
                               const NvrtcText *source, const Job *job,
                               NvrtcResult *r, NvrtcImage *ptx)
{
    Answer *answer = (Answer *)(void *)receive(a, job->from, sizeof *answer);
    char *log = answer ? receive(a, job->from, answer->log) : NULL;
    char *cubin = log ? receive(a, job->from, answer->cubin) : NULL;
    char *text = cubin ? receive(a, job->from, answer->ptx) : NULL;
    if (!text)
        return arena_printf(a, "NVRTC ('%s') has ended while it compiled for "
                               "%s",
                            lib->path, job->arch);
    if (answer->result != 0 && answer->result != NVRTC_ERROR_COMPILATION)
        return arena_printf(a, "NVRTC ('%s') cannot compile for %s: %s%s%s",
                            lib->path, job->arch,
                            lib->error_string(answer->result),
                            *log ? ": " : "", log);
    const char *complaint =
        nvrtc_read_log(a, source, log, job->arch, &r->kernel);
    if (complaint || answer->result != 0)
        bug("the CUDA compiler (NVRTC %d.%d, %s) says of the kernels:\n%s",
            lib->major, lib->minor, job->arch, complaint ? complaint : log);
    add_image(a, r, job->arch, cubin, answer->cubin);
    if (job->ptx)
        *ptx = (NvrtcImage){job->ptx, text, strlen(text)};
    NvrtcTime time = {job->arch, answer->seconds};
    vec_push(a, &r->time, time);
    return NULL;
}

static void end_job(const Job *job, bool kills)
{
    if (kills)
        kill(job->pid, SIGKILL);
    close(job->from);
    while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

struct NvrtcJobs {
    Arena *arena;
    NvrtcLibrary library;
    const NvrtcText *source;
    VEC(Job) job;
    int started;
};

/* A job for each architecture. PTX is a by-product of the oldest architecture
 * without 'a', whose PTX newer devices can run; if there is none, a separate
 * job makes it. */
static void plan_jobs(NvrtcJobs *jobs, const char *const *arch)
{
    Arena *a = jobs->arena;
    const char *first = arch[0];
    bool has_ptx = false;
    for (; *arch; arch++) {
        Job job = {.arch = *arch};
        if (!has_ptx && (*arch)[strlen(*arch) - 1] != 'a') {
            job.ptx = arena_printf(a, "compute_%s", *arch + strlen("sm_"));
            has_ptx = true;
        }
        vec_push(a, &jobs->job, job);
    }
    if (!has_ptx) {
        Job job = {.arch = arena_printf(a, "compute_%d",
                                        atoi(first + strlen("sm_")))};
        job.ptx = job.arch;
        vec_push(a, &jobs->job, job);
    }
}

NvrtcJobs *nvrtc_start(Arena *a, const NvrtcText *source,
                       const NvrtcText *header, int nheaders,
                       const char *const *arch, const char **failure)
{
    NvrtcJobs *jobs = NEW(a, NvrtcJobs);
    jobs->arena = a;
    jobs->source = source;
    *failure = nvrtc_open(a, arch, &jobs->library);
    if (*failure)
        return NULL;
    plan_jobs(jobs, arch);
    while (jobs->started < jobs->job.n) {
        *failure = start_job(a, &jobs->library, source, header, nheaders,
                             &jobs->job.at[jobs->started]);
        if (*failure) {
            nvrtc_cancel(jobs);
            return NULL;
        }
        jobs->started++;
    }
    return jobs;
}

const char *const *nvrtc_image_names(const NvrtcJobs *jobs)
{
    const char **name = NEW_ARRAY(jobs->arena, const char *, jobs->job.n + 2);
    const char *ptx = NULL;
    int n = 0;
    for (int i = 0; i < jobs->job.n; i++) {
        const Job *job = &jobs->job.at[i];
        if (job->arch[0] == 's')
            name[n++] = job->arch;
        ptx = job->ptx ? job->ptx : ptx;
    }
    name[n] = ptx;
    return name;
}

const char *nvrtc_finish(NvrtcJobs *jobs, NvrtcResult *result)
{
    NvrtcImage ptx = {0};
    const char *failure = NULL;
    *result = (NvrtcResult){0};
    for (int i = 0; i < jobs->started; i++) {
        if (!failure)
            failure = read_answer(jobs->arena, &jobs->library, jobs->source,
                                  &jobs->job.at[i], result, &ptx);
        end_job(&jobs->job.at[i], failure != NULL);
    }
    if (!failure)
        add_image(jobs->arena, result, ptx.arch, ptx.data, ptx.size);
    return failure;
}

void nvrtc_cancel(NvrtcJobs *jobs)
{
    for (int i = 0; i < jobs->started; i++)
        end_job(&jobs->job.at[i], true);
}
