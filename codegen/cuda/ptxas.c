/* ptxas.c: finds ptxas and runs it on files in memory. */
#include "codegen/cuda/ptxas.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- search -------------------------------------------------------------- */

/* The version in the output of `ptxas --version`:
 * "Cuda compilation tools, release 13.0, V13.0.88". */
static bool has_version(Arena *a, const char *path, int major, int minor)
{
    char *text;
    const char *const argv[] = {path, "--version", NULL};
    const char *wanted = arena_printf(a, " release %d.%d,", major, minor);
    return process_run(a, argv, NULL, &text) == 0 && strstr(text, wanted);
}

/* The ptxas of the toolkit with the library <toolkit>/lib/…, <toolkit>/lib/<system>/…
 * or <toolkit>/targets/<system>/lib/…; NULL if it is missing. */
static const char *beside_library(Arena *a, const char *library)
{
    static const char *const up[] = {"..", "../..", "../../.."};
    const char *end = strrchr(library, '/');
    for (size_t i = 0; end && i < sizeof up / sizeof *up; i++) {
        const char *path = arena_printf(a, "%.*s/%s/bin/ptxas",
                                        (int)(end - library), library, up[i]);
        if (access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}

/* A path that holds in other directories too; a name without '/' is found on the
 * PATH. */
static const char *absolute(Arena *a, const char *path)
{
    char *real = strchr(path, '/') ? realpath(path, NULL) : NULL;
    const char *text = arena_strdup(a, real ? real : path);
    free(real);
    return text;
}

const char *ptxas_find(Arena *a, const char *library, int major, int minor,
                       const char **path)
{
    const char *given = getenv("PARC_PTXAS");
    *path = given && *given ? absolute(a, given)
            : given         ? NULL
                            : beside_library(a, library);
    if (!*path || has_version(a, *path, major, minor))
        return NULL;
    *path = NULL;
    if (!given)
        return NULL;
    return arena_printf(a,
                        "PARC_PTXAS, '%s', is not a ptxas of CUDA %d.%d, the "
                        "version of NVRTC ('%s'): name another or unset it",
                        given, major, minor, library);
}

/* ---- files in memory ----------------------------------------------------- */

int memory_file(const char *data, size_t size)
{
    int fd = memfd_create("parc", 0);
    while (fd >= 0 && size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno != EINTR) {
            int error = errno;
            close(fd);
            errno = error;
            return -1;
        }
        data += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return fd;
}

/* The whole file, terminated; NULL on failure. Closes it. */
static char *take_file(Arena *a, int fd, size_t *size)
{
    struct stat s;
    char *data = NULL;
    *size = 0;
    if (fstat(fd, &s) == 0 && s.st_size >= 0) {
        data = arena_alloc(a, (size_t)s.st_size + 1);
        ssize_t n = 1;
        while (*size < (size_t)s.st_size && n > 0) {
            n = pread(fd, data + *size, (size_t)s.st_size - *size,
                      (off_t)*size);
            *size += n > 0 ? (size_t)n : 0;
        }
        data[*size] = 0;
    }
    close(fd);
    return data;
}

/* ---- runs ---------------------------------------------------------------- */

/* The child process. It ends with its parent. */
static _Noreturn void execute(const PtxasRun *run, const char *const *argv,
                              pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nothing = open("/dev/null", O_RDONLY);
    if (getppid() != parent || nothing < 0 || dup2(nothing, 0) < 0 ||
        dup2(run->log, 1) < 0 || dup2(run->log, 2) < 0)
        _exit(1);
    /* execvp takes char *const *, but does not write to the strings. */
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    perror("it cannot be started");
    _exit(1);
}

int ptxas_start(Arena *a, const char *path, const char *arch, int ptx,
                PtxasRun *run)
{
    *run = (PtxasRun){.path = path, .arch = arch, .begin = seconds_now()};
    run->code = memory_file("", 0);
    run->log = memory_file("", 0);
    if (run->code < 0 || run->log < 0)
        return errno;
    const char *const argv[] = {
        path, arena_printf(a, "-arch=%s", arch), "-lineinfo", "-v",
        arena_printf(a, "/proc/self/fd/%d", ptx), "-o",
        arena_printf(a, "/proc/self/fd/%d", run->code), NULL};
    pid_t parent = getpid();
    run->pid = fork();
    if (run->pid == 0)
        execute(run, argv, parent);
    return run->pid < 0 ? errno : 0;
}

PtxasCode ptxas_finish(Arena *a, const PtxasRun *run)
{
    PtxasCode r = {0};
    size_t log;
    int status = 0;
    while (waitpid(run->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    r.seconds = seconds_now() - run->begin;
    r.data = take_file(a, run->code, &r.size);
    r.log = take_file(a, run->log, &log);
    if (WIFSIGNALED(status))
        r.failure = arena_printf(a, "it was killed by signal %d (%s)",
                                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (!r.log || !r.data)
        r.failure = "its output cannot be read";
    else if (WEXITSTATUS(status) != 0 && !strstr(r.log, "error"))
        r.failure = arena_printf(a, "exit status %d: %s", WEXITSTATUS(status),
                                 r.log);
    else if (WEXITSTATUS(status) == 0 && r.size == 0)
        r.failure = "it has written nothing";
    if (r.failure || WEXITSTATUS(status) != 0) {
        r.data = NULL;
        r.size = 0;
    }
    return r;
}
