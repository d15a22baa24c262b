/* diag.h: what parc says to its user.
 *
 *   toy.pdl:4:11: error: unknown name 'dimm'
 *       4 |     net1: Linear(dimm, 12)
 *         |                  ^~~~
 *   toy.pdl:1:12: note: did you mean 'dim'?
 *         = help: …
 *
 * Errors of the input are collected (all semantic errors of a file are
 * reported in one run) and printed by diag_flush in the order in which they
 * were raised. parc's own faults go through bug(), never through here.
 */
#ifndef PARC_BASE_DIAG_H
#define PARC_BASE_DIAG_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"

/* A range within one line of a source. `file` indexes Diag.sources; 0 is
 * "nowhere" (a Loc of zeros prints no position). Lines and columns count from
 * 1; columns count bytes; `len` is at least 1. */
typedef struct Loc {
    uint16_t file, len;
    uint32_t line, col;
} Loc;

/* A text that locations point into: a PDL file, the prelude, the command
 * line ("<command line>", its text the arguments joined by blanks). */
typedef struct Source {
    const char *name; /* as printed: the path that the user gave */
    const char *text; /* terminated */
    size_t size;
} Source;

typedef struct Diag Diag;

typedef enum ColorWhen { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } ColorWhen;

Diag *diag_new(Arena *arena, ColorWhen color);

/* Registers a source; the result is Loc.file (from 1). */
uint16_t diag_source(Diag *d, const char *name, const char *text, size_t size);
const Source *diag_source_at(const Diag *d, uint16_t file);
/* Gives a source that was registered early its name and text. */
void diag_set_source(Diag *d, uint16_t file, const char *name, const char *text,
                     size_t size);
void diag_set_color(Diag *d, ColorWhen color);

/* An error; notes and helps that follow belong to it. After `error_limit`
 * (20) errors further ones are only counted. An error at the same place with
 * the same text as an earlier one is dropped with its notes. */
void diag_error(Diag *d, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void diag_warning(Diag *d, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void diag_note(Diag *d, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void diag_help(Diag *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* From now on errors are raised as warnings (on), or as errors again: for text
 * that the result does not depend on. */
void diag_demote(Diag *d, bool on);

int diag_error_count(const Diag *d);
/* Warnings raised so far. */
int diag_warning_count(const Diag *d);

/* After an error that leaves nothing to go on with: jumps to the place that
 * diag_set_stop named last, or prints the messages and exits with status 1
 * where none is named (NULL). Returns the place named before. */
_Noreturn void diag_stop(Diag *d);
jmp_buf *diag_set_stop(Diag *d, jmp_buf *stop);

/* Prints what was collected since the last flush, with source lines and caret
 * ranges (tabs and wide characters aligned), then "N errors." if any. */
void diag_flush(Diag *d, FILE *to);

/* "file:line:col", for dumps and emitted comments: base name only. */
const char *diag_where(const Diag *d, Arena *a, Loc loc);

/* The candidate nearest to `name` by edit distance, or NULL when none is
 * near enough to suggest. */
const char *diag_near_miss(const char *name, const char *const *candidates,
                           int n);

#endif
