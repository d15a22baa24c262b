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

static const char *program = "train";

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

void rt_message_program(const char *name)
{
    program = name;
}

void rt_message_text(char text[RT_MESSAGE], const char *kind, const char *fmt,
                     va_list ap)
{
    int n = 0;
    if (kind)
        n = snprintf(text, RT_MESSAGE, "%.255s: %s: ", program, kind);
    n += vsnprintf(text + n, (size_t)(RT_MESSAGE - n), fmt, ap);
    if (n > RT_MESSAGE - 2)
        n = RT_MESSAGE - 2;
    text[n] = '\n';
    text[n + 1] = 0;
}

void rt_error_text(char text[RT_MESSAGE], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    rt_message_text(text, "error", fmt, ap);
    va_end(ap);
}

void rt_put(const char *text)
{
    fflush(stdout);
    put(text, strlen(text));
}

__attribute__((format(printf, 2, 0))) static void
say(const char *kind, const char *fmt, va_list ap)
{
    char text[RT_MESSAGE];
    rt_message_text(text, kind, fmt, ap);
    rt_put(text);
}

bool rt_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("error", fmt, ap);
    va_end(ap);
    return false;
}

void rt_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("note", fmt, ap);
    va_end(ap);
}

bool rt_say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(NULL, fmt, ap);
    va_end(ap);
    return false;
}

bool rt_fault(const char *path, int64_t at, const char *fmt, ...)
{
    char text[RT_MESSAGE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return rt_say("%s: byte %lld: error: %s", path, (long long)at, text);
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
