/* nvrtc.c: compiles kernels for several architectures in child processes, which
 * return the results through pipes.
 *
 *   with ptxas      a process for each source: NVRTC makes PTX, and a ptxas for
 *                   each architecture, all in parallel, assembles it
 *   without         a process for each source and architecture, in which NVRTC
 *                   makes machine code; the oldest one's also returns its PTX
 *
 * It uses processes, because NVRTC serializes compilations within a process,
 * and because a crash of the compiler ends only that process. They end with parc,
 * however it ends. ptxas reports on each kernel (-v); the rest of the log must be
 * empty.
 */
#include "codegen/cuda/nvrtc.h"

#include "base/bug.h"
#include "base/clock.h"
#include "base/file.h"
#include "codegen/cuda/nvrtc_library.h"
#include "codegen/cuda/ptxas.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* One compilation: to machine code, PTX or both. */
typedef struct Job {
    const NvrtcText *source;
    const char *arch; /* "sm_80"; "compute_90": only PTX */
    const char *ptx;  /* the name of the PTX, "compute_80"; NULL: not wanted */
    const char *const *assemble; /* the architectures for which ptxas assembles
                                    the PTX, NULL-terminated; NULL: none */
    pid_t pid;
    int from; /* the pipe from the process */
} Job;

/* The header that a process sends before the log, the machine code and the
 * PTX: once for NVRTC, then for each ptxas. */
typedef struct Answer {
    int result; /* of NVRTC; of ptxas 0, NVRTC_ERROR_COMPILATION or
                   NOT_ASSEMBLED */
    double seconds;
    size_t log, cubin, ptx; /* bytes */
} Answer;

enum { NOT_ASSEMBLED = -1 }; /* ptxas did not run to its end */

struct NvrtcJobs {
    Arena *arena;
    NvrtcLibrary library;
    const char *ptxas; /* its path; NULL: NVRTC assembles */
    pid_t parent;
    const NvrtcText *header;
    int nheaders;
    VEC(Job) job;
    int started;
};

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

/* The result of nvrtcCompileProgram, or of nvrtcCreateProgram if it fails. */
static int compile(Arena *a, const NvrtcJobs *jobs, const Job *job,
                   NvrtcProgram *p)
{
    const char *const option[] = {arena_printf(a, "-arch=%s", job->arch),
                                  "-std=c++17", "-lineinfo",
                                  "--ptxas-options=-v"};
    const NvrtcLibrary *lib = &jobs->library;
    const char **text = NEW_ARRAY(a, const char *, jobs->nheaders);
    const char **name = NEW_ARRAY(a, const char *, jobs->nheaders);
    for (int i = 0; i < jobs->nheaders; i++) {
        text[i] = jobs->header[i].text;
        name[i] = jobs->header[i].name;
    }
    int result = lib->create(p, job->source->text, job->source->name,
                             jobs->nheaders, text, name);
    return result ? result
                  : lib->compile(*p, sizeof option / sizeof *option, option);
}

static void answer(int to, const Answer *r, const char *log, const char *cubin,
                   const char *ptx)
{
    send(to, (const char *)r, sizeof *r);
    send(to, log, r->log);
    send(to, cubin, r->cubin);
    send(to, ptx, r->ptx);
}

/* The ptxas of a job, and for each an errno if it could not be started. */
typedef struct Assembly {
    int n, *error;
    PtxasRun *run;
} Assembly;

/* Starts a ptxas for each architecture of the job. */
static Assembly start_assembly(Arena *a, const NvrtcJobs *jobs, const Job *job,
                               const char *ptx)
{
    Assembly m = {0};
    while (ptx && job->assemble && job->assemble[m.n])
        m.n++;
    m.run = NEW_ARRAY(a, PtxasRun, m.n);
    m.error = NEW_ARRAY(a, int, m.n);
    int text = m.n ? memory_file(ptx, strlen(ptx)) : -1;
    for (int i = 0; i < m.n; i++)
        m.error[i] = text < 0 ? errno
                              : ptxas_start(a, jobs->ptxas, job->assemble[i],
                                            text, &m.run[i]);
    return m;
}

static void finish_assembly(Arena *a, const Assembly *m, int to)
{
    for (int i = 0; i < m->n; i++) {
        PtxasCode code = {.failure = strerror(m->error[i])};
        if (!m->error[i])
            code = ptxas_finish(a, &m->run[i]);
        const char *log = code.failure ? code.failure : code.log;
        Answer r = {.result = code.failure  ? NOT_ASSEMBLED
                              : !code.data ? NVRTC_ERROR_COMPILATION
                                           : 0,
                    .seconds = code.seconds, .log = strlen(log),
                    .cubin = code.size};
        answer(to, &r, log, code.data, NULL);
    }
}

static _Noreturn void compile_job(Arena *a, const NvrtcJobs *jobs,
                                  const Job *job, int to)
{
    const NvrtcLibrary *lib = &jobs->library;
    double begin = seconds_now();
    Answer r = {0};
    /* Line tables contain the current directory. */
    if (chdir("/") != 0 || getppid() != jobs->parent)
        _exit(1);
    NvrtcProgram p = NULL;
    char *log = NULL, *cubin = NULL, *ptx = NULL;
    r.result = compile(a, jobs, job, &p);
    if (p)
        log = fetch_text(a, p, lib->log_size, lib->log, &r.log);
    if (r.result == 0 && job->arch[0] == 's')
        cubin = fetch_text(a, p, lib->cubin_size, lib->cubin, &r.cubin);
    if (r.result == 0 && job->ptx)
        ptx = fetch_text(a, p, lib->ptx_size, lib->ptx, &r.ptx);
    r.seconds = seconds_now() - begin;
    /* The pipe holds less than an answer, and parc may read it later. */
    Assembly assembly = start_assembly(a, jobs, job, ptx);
    answer(to, &r, log, cubin, ptx);
    finish_assembly(a, &assembly, to);
    _exit(0);
}

/* ---- the parent process -------------------------------------------------- */

static const char *start_job(const NvrtcJobs *jobs, Job *job)
{
    int ends[2];
    Arena *a = jobs->arena;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return arena_printf(a, "cannot start a compilation for %s: %s",
                            job->arch, strerror(errno));
    job->from = ends[0];
    job->pid = fork();
    if (job->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        compile_job(a, jobs, job, ends[1]);
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

/* Reads one result of a process, of NVRTC or ptxas (`tool`, in file `path`); PTX
 * is returned separately, to be put last. */
static const char *read_answer(const NvrtcJobs *jobs, const Job *job,
                               const char *tool, const char *path,
                               const char *arch, NvrtcResult *r,
                               NvrtcImage *ptx)
{
    Arena *a = jobs->arena;
    const NvrtcLibrary *lib = &jobs->library;
    Answer *answer = (Answer *)(void *)receive(a, job->from, sizeof *answer);
    char *log = answer ? receive(a, job->from, answer->log) : NULL;
    char *cubin = log ? receive(a, job->from, answer->cubin) : NULL;
    char *text = cubin ? receive(a, job->from, answer->ptx) : NULL;
    if (!text)
        return arena_printf(a, "%s ('%s') has ended while it compiled for %s",
                            tool, path, arch);
    if (answer->result == NOT_ASSEMBLED)
        return arena_printf(a, "%s ('%s') cannot compile for %s: %s", tool,
                            path, arch, log);
    if (answer->result != 0 && answer->result != NVRTC_ERROR_COMPILATION)
        return arena_printf(a, "%s ('%s') cannot compile for %s: %s%s%s", tool,
                            path, arch, lib->error_string(answer->result),
                            *log ? ": " : "", log);
    const char *complaint =
        nvrtc_read_log(a, job->source, log, arch, &r->kernel);
    if (complaint || answer->result != 0)
        bug("the CUDA compiler (%s %d.%d, %s) says of the kernels:\n%s", tool,
            lib->major, lib->minor, arch, complaint ? complaint : log);
    const char *source = job->source->name;
    NvrtcImage image = {source, arch, cubin, answer->cubin};
    if (image.size > 0)
        vec_push(a, &r->image, image);
    if (answer->ptx)
        *ptx = (NvrtcImage){source, job->ptx, text, strlen(text)};
    NvrtcTime time = {source, arch, answer->seconds};
    vec_push(a, &r->time, time);
    return NULL;
}

/* Reads all results of a process. */
static const char *read_job(const NvrtcJobs *jobs, const Job *job,
                            NvrtcResult *r, NvrtcImage *ptx)
{
    const char *failure = read_answer(jobs, job, "NVRTC", jobs->library.path,
                                      job->arch, r, ptx);
    for (int i = 0; !failure && job->assemble && job->assemble[i]; i++)
        failure = read_answer(jobs, job, "ptxas", jobs->ptxas,
                              job->assemble[i], r, ptx);
    return failure;
}

static void end_job(const Job *job, bool kills)
{
    if (kills)
        kill(job->pid, SIGKILL);
    close(job->from);
    while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* The oldest architecture, whose PTX all devices can run that are as new. */
static int oldest(const char *const *arch)
{
    int least = atoi(*arch + strlen("sm_"));
    for (; *arch; arch++) {
        int number = atoi(*arch + strlen("sm_"));
        least = number < least ? number : least;
    }
    return least;
}

/* Without ptxas, the PTX is a by-product of the oldest architecture; the PTX of
 * one with an 'a' runs on no newer device, so a separate job makes it. */
static void plan_jobs(NvrtcJobs *jobs, const NvrtcText *source,
                      const char *const *arch)
{
    Arena *a = jobs->arena;
    int first = oldest(arch);
    const char *plain = arena_printf(a, "sm_%d", first);
    const char *ptx = arena_printf(a, "compute_%d", first);
    bool has_ptx = false;
    for (int i = 0; arch[i] && !jobs->ptxas; i++) {
        bool both = !strcmp(arch[i], plain);
        Job job = {.source = source, .arch = arch[i], .ptx = both ? ptx : NULL};
        has_ptx |= both;
        vec_push(a, &jobs->job, job);
    }
    if (!has_ptx) {
        Job job = {.source = source, .arch = ptx, .ptx = ptx,
                   .assemble = jobs->ptxas ? arch : NULL};
        vec_push(a, &jobs->job, job);
    }
}

/* Whether the next job, or none, has another source. */
static bool is_last(const NvrtcJobs *jobs, int i)
{
    return i + 1 == jobs->job.n ||
           jobs->job.at[i + 1].source != jobs->job.at[i].source;
}

NvrtcJobs *nvrtc_start(Arena *a, const NvrtcText *source, int nsources,
                       const NvrtcText *header, int nheaders,
                       const char *const *arch, const char **failure)
{
    NvrtcJobs *jobs = NEW(a, NvrtcJobs);
    *jobs = (NvrtcJobs){.arena = a, .parent = getpid(), .header = header,
                        .nheaders = nheaders};
    NvrtcLibrary *lib = &jobs->library;
    *failure = nvrtc_open(a, arch, lib);
    if (!*failure)
        *failure = ptxas_find(a, lib->file, lib->major, lib->minor,
                              &jobs->ptxas);
    if (*failure)
        return NULL;
    for (int i = 0; i < nsources; i++)
        plan_jobs(jobs, &source[i], arch);
    while (jobs->started < jobs->job.n) {
        *failure = start_job(jobs, &jobs->job.at[jobs->started]);
        if (*failure) {
            nvrtc_cancel(jobs);
            return NULL;
        }
        jobs->started++;
    }
    return jobs;
}

const NvrtcImage *nvrtc_images(const NvrtcJobs *jobs)
{
    VEC(NvrtcImage) image = {0};
    const char *ptx = NULL;
    for (int i = 0; i < jobs->job.n; i++) {
        const Job *job = &jobs->job.at[i];
        NvrtcImage next = {job->source->name, job->arch, NULL, 0};
        if (job->arch[0] == 's')
            vec_push(jobs->arena, &image, next);
        for (int k = 0; job->assemble && job->assemble[k]; k++) {
            next.arch = job->assemble[k];
            vec_push(jobs->arena, &image, next);
        }
        ptx = job->ptx ? job->ptx : ptx;
        next.arch = ptx;
        if (is_last(jobs, i))
            vec_push(jobs->arena, &image, next);
    }
    vec_push(jobs->arena, &image, (NvrtcImage){0});
    return image.at;
}

const char *nvrtc_finish(NvrtcJobs *jobs, NvrtcResult *result)
{
    NvrtcImage ptx = {0};
    const char *failure = NULL;
    *result = (NvrtcResult){0};
    for (int i = 0; i < jobs->started; i++) {
        if (!failure)
            failure = read_job(jobs, &jobs->job.at[i], result, &ptx);
        if (!failure && is_last(jobs, i))
            vec_push(jobs->arena, &result->image, ptx);
        end_job(&jobs->job.at[i], failure != NULL);
    }
    return failure;
}

void nvrtc_cancel(NvrtcJobs *jobs)
{
    for (int i = 0; i < jobs->started; i++)
        end_job(&jobs->job.at[i], true);
}
