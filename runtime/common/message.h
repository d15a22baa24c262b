/* message.h: declares messages on standard error, and helpers for parts
 * of messages, allocated memory and the clock. */
#ifndef PARC_RT_MESSAGE_H
#define PARC_RT_MESSAGE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "parc_rt.h"

/* Sets the name of the program in messages, "train" before. */
void rt_message_program(const char *name);
/* Composes "train: error: TEXT" with its newline; longer text is truncated.
 * `kind`: NULL: only the text. */
enum { RT_MESSAGE = 2048 };
void rt_message_text(char text[RT_MESSAGE], const char *kind, const char *fmt,
                     va_list ap) __attribute__((format(printf, 3, 0)));
void rt_error_text(char text[RT_MESSAGE], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* "train: error: …", "train: note: …" on standard error. rt_error and rt_say
 * return false, for `return rt_error(…)`. */
bool rt_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void rt_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints the text without a prefix, for "FILE: byte N: error: …". */
bool rt_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "PATH: byte N: error: …"; returns false. */
bool rt_fault(const char *path, int64_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Prints `text` as it is; it ends with a newline. */
void rt_put(const char *text);
/* Clears the progress line, which has no newline yet. */
void rt_clear_line(void);
/* Prints why the run ends, unless another process that shares `failure`
 * (RtControl) has printed a reason. If another process is about to print, waits
 * for it, because the parent kills all ranks when the first one exits. If that
 * process does not print within some seconds (it was killed), one of the
 * waiting processes prints its `text`. */
void rt_put_failure(_Atomic int32_t *failure, const char *text);
/* "12.5 GiB" */
enum { RT_SIZE_TEXT = 32 };
const char *rt_size_text(double bytes, char text[RT_SIZE_TEXT]);
/* "[60000, 28, 28]" */
enum { RT_SHAPE_TEXT = 192 };
const char *rt_shape_text(int ndim, const int64_t *dim,
                          char text[RT_SHAPE_TEXT]);
bool rt_same_shape(int ndim, const int64_t *dim, int other_ndim,
                   const int64_t *other_dim);
void *rt_allocate(size_t bytes); /* zeroed; ends the process if it fails */
/* Formats into memory that it allocates; the caller frees it. */
char *rt_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A local variable with it frees the memory that it points to at the end of its
 * scope. */
#define RT_OWNED __attribute__((cleanup(rt_free_owned)))
static inline void rt_free_owned(void *variable)
{
    void *at;
    memcpy(&at, variable, sizeof at);
    free(at);
}
/* The array of `n` elements of `size` bytes, moved if it has no space for one
 * more; *capacity is the number of elements that it has space for. */
void *rt_grow(void *array, int64_t n, int64_t *capacity, size_t size);
/* The time of CLOCK_MONOTONIC, in ns and in seconds. Signal handlers may call
 * them. */
int64_t rt_now_ns(void);
double rt_now(void);
/* The CPU time of the calling thread, in ns. */
int64_t rt_cpu_ns(void);

/* A text that is being composed. What does not fit is left out. */
typedef struct RtText {
    char *at;
    size_t n, capacity; /* characters; bytes of the buffer */
} RtText;
void rt_add(RtText *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The value of an environment variable; NULL if it is not set or empty, or if
 * `name` is NULL. */
const char *rt_variable(const char *name);
/* Reads a whole number from the environment; *to stays as it is if the variable
 * is not set. False, after a message, if it is not from `least` to `most`. */
bool rt_variable_number(const char *name, int64_t least, int64_t most, int *to);

/* The candidate most similar to `name`; NULL if none is similar. */
const char *rt_near_miss(const char *name, const char *const *candidate, int n);

/* Splits the joint iteration index `iteration` of a statement into the indices
 * of its loops. */
void rt_work_iterations(const ParcWork *w, int64_t iteration,
                        int64_t at[PARC_MAX_LOOPS]);
/* Adds ", layer 3" for each loop around a statement. */
void rt_add_loops(RtText *t, const ParcWork *w, int64_t iteration);
/* " in 'k07_norm' (llama.pdl:28:5, layer 3)" */
enum { RT_WHERE = 512 };
const char *rt_work_where(const ParcWork *w, int64_t iteration,
                          char text[RT_WHERE]);

#endif
