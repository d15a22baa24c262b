/* message.c: prints messages, and composes their parts: sizes, shapes,
 * the place of a statement, the name that a user may have meant. It also has
 * the runtime's helpers for allocated memory and the clock.
 *
 * A message is composed first and written in one call, which keeps the lines
 * of several ranks apart.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/message.h"
#include "rt.h"

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

/* Seconds to wait until another process has printed its message, after which it
 * counts as killed; nanoseconds between two polls. */
static const double PATIENCE = 5;
enum { POLL_NS = 1000 * 1000 };

void rt_clear_line(void)
{
    if (isatty(STDERR_FILENO))
        rt_put("\r\033[K");
}

void rt_put_failure(_Atomic int32_t *failure, const char *text)
{
    int32_t own = (int32_t)getpid(), by = RT_NO_FAILURE;
    while (!atomic_compare_exchange_strong(failure, &by, own)) {
        if (by == RT_FAILURE_PRINTED)
            return;
        double end = rt_now() + PATIENCE;
        while (atomic_load(failure) == by && rt_now() < end)
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    rt_clear_line();
    rt_put(text);
    atomic_store(failure, RT_FAILURE_PRINTED);
}

const char *rt_size_text(double bytes, char text[RT_SIZE_TEXT])
{
    static const char *const suffix[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    while (bytes >= 1024 && u < 4) {
        bytes /= 1024;
        u++;
    }
    snprintf(text, RT_SIZE_TEXT, u == 0 ? "%.0f %s" : "%.1f %s", bytes,
             suffix[u]);
    return text;
}

void rt_add(RtText *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->at + t->n, t->capacity - t->n, fmt, ap);
    va_end(ap);
    t->n += n > 0 ? (size_t)n : 0;
    t->n = t->n < t->capacity ? t->n : t->capacity - 1;
}

const char *rt_shape_text(int ndim, const int64_t *dim,
                          char text[RT_SHAPE_TEXT])
{
    RtText t = {.at = text, .capacity = RT_SHAPE_TEXT};
    rt_add(&t, "[");
    for (int d = 0; d < ndim; d++)
        rt_add(&t, "%s%lld", d ? ", " : "", (long long)dim[d]);
    rt_add(&t, "]");
    return text;
}

bool rt_same_shape(int ndim, const int64_t *dim, int other_ndim,
                   const int64_t *other_dim)
{
    return ndim == other_ndim &&
           memcmp(dim, other_dim, (size_t)ndim * sizeof *dim) == 0;
}

_Noreturn static void end_without_memory(void)
{
    static const char text[] = "error: out of memory\n";
    put(text, sizeof text - 1);
    _exit(1);
}

void *rt_allocate(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        end_without_memory();
    return p;
}

char *rt_format(const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        end_without_memory();
    va_end(ap);
    return text;
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

const char *rt_variable(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

bool rt_variable_number(const char *name, int64_t least, int64_t most, int *to)
{
    char *end;
    const char *text = rt_variable(name);
    if (!text)
        return true;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < least || n > most)
        return rt_error(
            "%s is '%s' in the environment; it takes %s%lld %s %lld", name,
            text, most > least + 1 ? "a whole number from " : "",
            (long long)least, most > least + 1 ? "to" : "or", (long long)most);
    *to = (int)n;
    return true;
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t rt_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

double rt_now(void)
{
    return 1e-9 * (double)rt_now_ns();
}

int64_t rt_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void rt_work_iterations(const ParcWork *w, int64_t iteration,
                        int64_t at[PARC_MAX_LOOPS])
{
    for (int i = w->nloops - 1; i >= 0; i--) {
        at[i] = iteration % w->loop[i].trips;
        iteration /= w->loop[i].trips;
    }
}

void rt_add_loops(RtText *t, const ParcWork *w, int64_t iteration)
{
    int64_t at[PARC_MAX_LOOPS];
    rt_work_iterations(w, iteration, at);
    for (int i = 0; i < w->nloops; i++)
        rt_add(t, ", %s %lld", w->loop[i].name, (long long)at[i]);
}

const char *rt_work_where(const ParcWork *w, int64_t iteration,
                          char text[RT_WHERE])
{
    RtText t = {.at = text, .capacity = RT_WHERE};
    rt_add(&t, " in '%s' (%s", w->id, w->source);
    rt_add_loops(&t, w, iteration);
    rt_add(&t, ")");
    return text;
}

/* ---- similar names ----
 *
 * Messages about unknown options, parameters and tensors show the candidate
 * with the smallest edit distance.
 *
 * example: --step -> --steps */

enum { LONGEST = 255 };

static int smallest(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* The Levenshtein distance. */
static int distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b), row[LONGEST + 1];
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int cost = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = smallest(cost, row[j] + 1, row[j - 1] + 1);
        }
    }
    return row[m];
}

const char *rt_near_miss(const char *name, const char *const *candidate, int n)
{
    int best = 2 * ((int)strlen(name) / 3 + 2) - 1;
    const char *found = NULL;
    for (int i = 0; i < n; i++) {
        int d = 2 * distance(name, candidate[i]);
        d -= name[0] == candidate[i][0]; /* of equals, the same first letter */
        if (d < best) {
            best = d;
            found = candidate[i];
        }
    }
    return found;
}
