/* diag.h: diagnostics: errors, warnings, notes and helps for the user.
 *
 *   toy.pdl:4:11: error: unknown name 'dimm'
 *       4 |     net1: Linear(dimm, 12)
 *         |                  ^~~~
 *   toy.pdl:1:12: note: did you mean 'dim'?
 *         = help: …
 *
 * Errors in the input are collected (all semantic errors of a file are reported
 * in one run) and printed by diag_flush in the order in which they were raised.
 * parc's own errors go through bug() instead.
 */
#ifndef PARC_BASE_DIAG_H
#define PARC_BASE_DIAG_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"

/* A range within one line of a source. `file` indexes Diag.sources; 0 means no
 * location (a Loc of zeros prints no position). Lines and columns count from 1;
 * columns count bytes; `len` is at least 1. */
typedef struct Loc {
    uint16_t file, len;
    uint32_t line, col;
} Loc;

/* Whether two ranges begin at the same place. */
static inline bool loc_equal(Loc a, Loc b)
{
    return a.file == b.file && a.line == b.line && a.col == b.col;
}

/* A text that locations refer to: a PDL file, the prelude, or the command
 * line (the arguments joined by blanks), of which messages show one option. */
typedef struct Source {
    const char *name; /* as printed: the path that the user gave */
    const char *text; /* terminated */
    size_t size;
    bool command; /* it is the command line */
} Source;

typedef struct Diag Diag;

typedef enum ColorWhen { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } ColorWhen;

Diag *diag_new(Arena *arena, ColorWhen color);

/* Registers a source; the result is Loc.file (from 1). */
uint16_t diag_source(Diag *d, const char *name, const char *text, size_t size);
const Source *diag_source_at(const Diag *d, uint16_t file);
/* Sets name and text of a source that was registered before it was read. */
void diag_set_source(Diag *d, uint16_t file, const char *name, const char *text,
                     size_t size);
/* Registers the command line, then each of its options: columns from … to - 1
 * are one option with its value, which messages show alone:
 *
 *   command line: error: '0' is not the size of a mesh axis
 *         | --mesh 2x0
 *         |          ^
 */
uint16_t diag_command_line(Diag *d, const char *text);
void diag_option(Diag *d, uint32_t from, uint32_t to);
void diag_set_color(Diag *d, ColorWhen color);

typedef enum Severity { SEV_ERROR, SEV_WARNING, SEV_NOTE, SEV_HELP } Severity;

/* diag_error(d, loc, …) raises an error; notes and helps that follow belong to
 * it. After 20 errors further ones are only counted. An error with the same
 * location and text as an earlier one is dropped with its notes: a text that the
 * model uses several times is lowered several times. A help has no location. The
 * results are false. */
#define diag_error(d, ...) diag_raise((d), SEV_ERROR, __VA_ARGS__)
#define diag_warning(d, ...) diag_raise((d), SEV_WARNING, __VA_ARGS__)
#define diag_note(d, ...) diag_raise((d), SEV_NOTE, __VA_ARGS__)
#define diag_help(d, ...) diag_raise((d), SEV_HELP, (Loc){0}, __VA_ARGS__)
bool diag_raise(Diag *d, Severity severity, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Raises an error at `loc` that repeats what is at `first`. */
bool diag_twice(Diag *d, Loc loc, Loc first, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Raises errors as warnings from now on (on), or as errors (off): for text that
 * does not affect the result. */
void diag_demote(Diag *d, bool on);

int diag_error_count(const Diag *d);
/* The text of the first error; NULL: there is none. */
const char *diag_first_error(const Diag *d);
/* A Diag with the same sources under the same numbers, for a compilation whose
 * messages are not printed. */
Diag *diag_quiet(Arena *arena, const Diag *like);
/* Warnings raised so far. */
int diag_warning_count(const Diag *d);

/* diag_stop ends the compilation after an error that it cannot continue from:
 * it jumps to the buffer that diag_set_stop has set. If that is NULL, it prints
 * the messages and exits with status 1. diag_set_stop returns the previous
 * buffer. */
_Noreturn void diag_stop(Diag *d);
jmp_buf *diag_set_stop(Diag *d, jmp_buf *stop);

/* Prints what was collected since the last flush, with source lines and caret
 * ranges (tabs and wide characters aligned), then "N errors." if there are
 * any. */
void diag_flush(Diag *d, FILE *to);

/* "file:line:col" with the base name only, for dumps and emitted comments. */
const char *diag_where(const Diag *d, Arena *a, Loc loc);

/* The candidate with the smallest edit distance to `name`, or NULL if none is
 * close enough to suggest. */
const char *diag_near_miss(const char *name, const char *const *candidates,
                           int n);

#endif
