/* out.h: a text buffer for output.
 *
 * Every dump, report and emitted file is built in an Out and written in one
 * call, so that output is complete or absent. `indent` is applied at the start
 * of each line that out_line() begins.
 */
#ifndef PARC_BASE_OUT_H
#define PARC_BASE_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* The width of printed code and its step of indentation, in columns. */
enum { OUT_WIDTH = 80, OUT_INDENT = 4 };

typedef struct Out {
    Arena *arena;
    char *text;   /* always terminated */
    size_t size;  /* bytes, without the terminator */
    size_t capacity;
    int indent;   /* in columns */
} Out;

void out_init(Out *o, Arena *arena);

/* Appends formatted text; appends bytes. */
void out(Out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void out_bytes(Out *o, const char *s, size_t n);

/* Appends a line: indentation, text, newline. An empty text gives an empty line
 * without indentation. */
void out_line(Out *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends the line that opens a block, "for (…) {", and indents the lines after
 * it; appends the "}" that closes it. */
void out_open(Out *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void out_close(Out *o);

/* Appends a C statement: one line or, if wider than OUT_WIDTH, several, broken
 * after ", ", " =" or, if necessary, " +", and indented by OUT_INDENT more. Short
 * groups in parentheses or braces are not broken: "{0, 1, 64}". */
void out_code(Out *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A JSON string with quotes and escapes; a number that reads back exactly (the
 * shortest of %.15g, %.16g, %.17g); the text of such a number. */
void out_json_string(Out *o, const char *s);
void out_double(Out *o, double x);
const char *double_text(Arena *a, double x);
/* The same with a dot or an exponent: the text reads back as no integer. */
void out_float(Out *o, double x);

/* A quantity for people, with a binary prefix: "512 B", "64.00 KiB"; with a
 * decimal prefix: "12", "1.50 G". */
const char *bytes_text(Arena *a, int64_t bytes);
const char *count_text(Arena *a, double x);

#endif
