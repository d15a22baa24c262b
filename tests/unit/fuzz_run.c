/* fuzz_run.c: implements fuzz_run.h: a child process with limits of CPU time
 * and memory. */
#include "tests/unit/fuzz_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SANITIZER_STATUS = 99, MOST_ERRORS = 1 << 16 };

#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static void limit(int what, rlim_t most)
{
    struct rlimit r = {most, most};
    setrlimit(what, &r);
}

static void prepare_child(int errors)
{
    int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, 0);
    dup2(nowhere, 1);
    dup2(errors, 2);
    limit(RLIMIT_CPU, (SANITIZED ? 5 : 1) * FUZZ_CPU_SECONDS);
    limit(RLIMIT_CORE, 0);
    if (!SANITIZED) /* the sanitizer maps terabytes */
        limit(RLIMIT_AS, (rlim_t)FUZZ_MEMORY_GIB << 30);
}

/* The child's output; bytes that exceed the buffer are read and dropped. */
static char *collect(Arena *a, int from)
{
    char *text = arena_alloc(a, MOST_ERRORS + 1), rest[4096];
    size_t n = 0;
    for (;;) {
        bool fits = n < MOST_ERRORS;
        ssize_t got = fits ? read(from, text + n, MOST_ERRORS - n)
                           : read(from, rest, sizeof rest);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += fits ? (size_t)got : 0;
    }
    text[n] = 0;
    return text;
}

static const char *fault_of(Arena *a, int status, const char *errors)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return arena_printf(a, "it runs for more than %d s of CPU time",
                            FUZZ_CPU_SECONDS);
    if (WIFSIGNALED(status))
        return arena_printf(a, "it is killed by signal %d (%s)",
                            WTERMSIG(status), strsignal(WTERMSIG(status)));
    int code = WEXITSTATUS(status);
    if (code == SANITIZER_STATUS || strstr(errors, "runtime error: ") ||
        strstr(errors, "Sanitizer"))
        return "the sanitizers report an error";
    if (strstr(errors, "out of memory"))
        return "it runs out of memory";
    if (strstr(errors, "internal error"))
        return "it has an internal error";
    if (code > 2)
        return arena_printf(a, "its exit status is %d", code);
    return code == 0 || strstr(errors, "error") || code == 2
               ? NULL
               : "it fails without a message";
}

static const char *run(Arena *a, const char *const *argv, int (*call)(void *),
                       void *context, char **errors)
{
    int ends[2], status = 0;
    *errors = "";
    if (pipe(ends) != 0)
        return "no pipe";
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        prepare_child(ends[1]);
        close(ends[1]);
        if (call)
            exit(call(context));
        execv(argv[0], (char *const *)(uintptr_t)argv);
        perror(argv[0]);
        _exit(98);
    }
    close(ends[1]);
    if (pid > 0)
        *errors = collect(a, ends[0]);
    close(ends[0]);
    if (pid < 0)
        return "no process";
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return fault_of(a, status, *errors);
}

const char *fuzz_run_program(Arena *a, const char *const *argv, char **errors)
{
    return run(a, argv, NULL, NULL, errors);
}

const char *fuzz_run_call(Arena *a, int (*call)(void *), void *context,
                          char **errors)
{
    return run(a, NULL, call, context, errors);
}
