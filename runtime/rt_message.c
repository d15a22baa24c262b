/* rt_message.c: prints messages and ends the run on an error. It also has the
 * runtime's helpers for sizes as text, zeroed memory and the clock.
 *
 * A message is composed first and written in one call, which keeps the lines
 * of several ranks apart. Many ranks usually fail for the same reason (all
 * ranks of a tensor-parallel group read the same invalid token): only the
 * first one prints.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rt_job.h"

enum { TEXT = 2048 };

/* Errors are ignored: if standard error is closed, no message can be
 * printed. */
static void put(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t did = write(STDERR_FILENO, text, n);
        if (did <= 0) {
            return;
        }
        text += did;
        n -= (size_t)did;
    }
}

/* Composes the line with its newline; longer text is truncated. */
__attribute__((format(printf, 4, 0))) static void
compose(char text[TEXT], const char *program, const char *kind,
        const char *fmt, va_list ap)
{
    int n = 0;
    if (program) {
        n = snprintf(text, TEXT, "%.255s: %s: ", program, kind);
    }
    n += vsnprintf(text + n, (size_t)(TEXT - n), fmt, ap);
    if (n > TEXT - 2) {
        n = TEXT - 2;
    }
    text[n] = '\n';
    text[n + 1] = 0;
}

void rt_put(const char *text)
{
    fflush(stdout);
    put(text, strlen(text));
}

__attribute__((format(printf, 3, 0))) static void
say(const char *program, const char *kind, const char *fmt, va_list ap)
{
    char text[TEXT];
    compose(text, program, kind, fmt, ap);
    rt_put(text);
}

void rt_error(const char *program, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(program, "error", fmt, ap);
    va_end(ap);
}

void rt_note(const char *program, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(program, "note", fmt, ap);
    va_end(ap);
}

void rt_say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(NULL, NULL, fmt, ap);
    va_end(ap);
}

/* Exits without atexit handlers: a rank must not flush buffers that it
 * inherited from its parent, nor wait for oneDNN's threads. */
_Noreturn static void leave(void)
{
    fflush(stdout);
    _exit(1);
}

/* Clears the progress line, which has no newline yet. */
static void clear_line(void)
{
    if (isatty(STDERR_FILENO)) {
        put("\r\033[K", 4);
    }
}

__attribute__((format(printf, 3, 0))) _Noreturn static void
fail(ParcRt *rt, const char *program, const char *fmt, va_list ap)
{
    char text[TEXT];
    compose(text, program, "error", fmt, ap);
    if (rt->world->store) {
        rt_job_fail(rt->world->store, text);
    }
    if (atomic_exchange(&rt->world->control->failed, 1) == 0) {
        clear_line();
        rt_put(text);
    }
    leave();
}

void rt_fail(ParcRt *rt, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail(rt, rt->world->program, fmt, ap);
}

void rt_fail_at(ParcRt *rt, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail(rt, NULL, fmt, ap);
}

const char *rt_size_text(double bytes, char text[32])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    while (bytes >= 1024 && u < 4) {
        bytes /= 1024;
        u++;
    }
    snprintf(text, 32, u == 0 ? "%.0f %s" : "%.1f %s", bytes, unit[u]);
    return text;
}

void *rt_allocate(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) {
        static const char text[] = "error: out of memory\n";
        put(text, sizeof text - 1);
        _exit(1);
    }
    return p;
}

void *rt_grow(void *array, int64_t n, int64_t *capacity, size_t size)
{
    if (n < *capacity) {
        return array;
    }
    *capacity = *capacity ? 2 * *capacity : 64;
    char *more = rt_allocate((size_t)*capacity * size);
    if (n > 0) {
        memcpy(more, array, (size_t)n * size);
    }
    free(array);
    return more;
}

double rt_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
