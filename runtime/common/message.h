/* message.h: declares messages on standard error, and helpers for sizes as text,
 * zeroed memory, the clock and similar names. */
#ifndef PARC_RT_MESSAGE_H
#define PARC_RT_MESSAGE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* "12.5 GiB" */
const char *rt_size_text(double bytes, char text[32]);
void *rt_allocate(size_t bytes); /* zeroed; ends the process if it fails */
/* The array of `n` elements of `size` bytes, moved if it has no space for one
 * more; *capacity is the number of elements that it has space for. */
void *rt_grow(void *array, int64_t n, int64_t *capacity, size_t size);
double rt_now(void);             /* seconds */

/* The candidate most similar to `name`; NULL if none is similar (common/near.c). */
const char *rt_near_miss(const char *name, const char *const *candidate, int n);

#endif
