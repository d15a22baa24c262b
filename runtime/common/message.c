/* message.c: prints messages. It also has the runtime's helpers for sizes as text,
 * zeroed memory and the clock.
 *
 * A message is composed first and written in one call, which keeps the lines
 * of several ranks apart.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/message.h"

/* Errors are ignored: if standard error is closed, no message can be
 * printed. */
static void put(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t did = write(STDERR_FILENO, text, n);
        if (did <= 0)
            return;
        text += did;
        n -= (size_t)did;
    }
}

void rt_message_text(char text[RT_MESSAGE], const char *program,
                     const char *kind, const char *fmt, va_list ap)
{
    int n = 0;
    if (program)
        n = snprintf(text, RT_MESSAGE, "%.255s: %s: ", program, kind);
    n += vsnprintf(text + n, (size_t)(RT_MESSAGE - n), fmt, ap);
    if (n > RT_MESSAGE - 2)
        n = RT_MESSAGE - 2;
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
    char text[RT_MESSAGE];
    rt_message_text(text, program, kind, fmt, ap);
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
    if (n < *capacity)
        return array;
    *capacity = *capacity ? 2 * *capacity : 64;
    char *more = rt_allocate((size_t)*capacity * size);
    if (n > 0)
        memcpy(more, array, (size_t)n * size);
    free(array);
    return more;
}

double rt_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
