/* fuzz_mutate.c: implements fuzz_mutate.h: random damage to bytes, numbers,
 * names and lines. */
#include "tests/unit/fuzz_mutate.h"

#include <ctype.h>
#include <glob.h>
#include <string.h>

#include "base/file.h"

uint64_t fuzz_next(Corpus *c, uint64_t below)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return below ? c->random % below : 0;
}

void fuzz_add(Corpus *c, const char *name, const char *text, size_t size)
{
    if (c->n < FUZZ_TEXTS && size > 0)
        c->text[c->n++] = (FuzzText){text, name, size};
}

void fuzz_load(Arena *a, Corpus *c, const char *pattern, size_t most)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        size_t size = 0;
        char *text = file_read(a, found.gl_pathv[i], &size);
        if (text && size <= most)
            fuzz_add(c, arena_strdup(a, found.gl_pathv[i]), text, size);
    }
    globfree(&found);
}

/* Replaces `out` bytes at `at` by n others, which may be part of the text. */
static size_t splice(char *text, size_t size, size_t at, size_t out,
                     const char *in, size_t n)
{
    static char copy[FUZZ_SIZE];
    if (out > size - at)
        out = size - at;
    if (size - out + n > FUZZ_SIZE)
        return size;
    memcpy(copy, in, n);
    memmove(text + at + n, text + at + out, size - at - out);
    memcpy(text + at, copy, n);
    return size - out + n;
}

/* ---- bytes --------------------------------------------------------------- */

static const char *const tokens[] = {
    "(",     ")",    "[",        "]",           "{",          "}",
    "\n",    ",",    ":",        "=",           "->",         "*",
    "**",    ".",    "...",      "-",           "0",          "1e9",
    "0.5",   "if",   "else ",    "not ",        "and ",       "for ",
    "return ", "model", "plan",  "every ",      "\"",         "\"x\"",
    "#",     "\r\n", "\t",       ";",           "\xff",       "\xc3\xa9",
    "x",     "none", "int(",     "99999999",    "99999999999", "((((((((((",
    "----------", "{{{{{{{{",    "%",           "+=",         "true",
};
enum { TOKENS = sizeof tokens / sizeof *tokens };

size_t fuzz_bytes(Corpus *c, char *text, size_t size)
{
    size_t at = fuzz_next(c, size + 1);
    char byte = (char)fuzz_next(c, 256);
    const FuzzText *other = &c->text[fuzz_next(c, (uint64_t)c->n)];
    size_t from = fuzz_next(c, other->size), n = fuzz_next(c, 200);
    if (n > other->size - from)
        n = other->size - from;
    const char *token = tokens[fuzz_next(c, TOKENS)];
    switch (fuzz_next(c, 6)) {
    case 0:
        return splice(text, size, at, 1, &byte, 1);
    case 1:
        return splice(text, size, at, n, "", 0);
    case 2:
        return splice(text, size, at, fuzz_next(c, 2) * n, other->at + from, n);
    case 3:
        return fuzz_next(c, 4) ? size : at; /* truncates the text */
    default:
        return splice(text, size, at, fuzz_next(c, 3), token, strlen(token));
    }
}

/* ---- structure ----------------------------------------------------------- */

static const char *const numbers[] = {
    "0",     "1",       "2",          "3",         "5",          "7",
    "8",     "16",      "17",         "64",        "100",        "128",
    "1000",  "4096",    "65536",      "1048576",   "1048577",    "2147483647",
    "2147483648",       "4294967296", "1099511627776",           "-1",
    "0.0",   "1e-5",    "0.5",        "1.0",       "1e30",       "1e39",
    "1e300", "1e-50",   "3.4e38",     "9223372036854775807",     "-0.25",
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

typedef struct Range {
    size_t from, n;
} Range;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The next number or name at or after a random position; n is 0 if there is
 * none. */
static Range find_word(Corpus *c, const char *text, size_t size, bool number)
{
    for (size_t at = fuzz_next(c, size); at < size; at++) {
        bool starts = is_word(text[at]) && (at == 0 || !is_word(text[at - 1]));
        if (!starts || number != (isdigit((unsigned char)text[at]) != 0))
            continue;
        size_t end = at;
        while (end < size && (is_word(text[end]) ||
                              (number && text[end] == '.')))
            end++;
        return (Range){at, end - at};
    }
    return (Range){0, 0};
}

/* One to four lines. */
static Range find_lines(Corpus *c, const char *text, size_t size)
{
    size_t from = fuzz_next(c, size), end = from;
    while (from > 0 && text[from - 1] != '\n')
        from--;
    for (uint64_t n = 1 + fuzz_next(c, 4); n > 0 && end < size; n--) {
        while (end < size && text[end] != '\n')
            end++;
        end += end < size;
    }
    return (Range){from, end - from};
}

/* The next number of the line that begins with `head`, after a random position
 * of it; n is 0 if there is none. */
static Range find_in_line(Corpus *c, const char *text, size_t size,
                          const char *head)
{
    const char *line = memmem(text, size, head, strlen(head));
    const char *end = line ? memchr(line + 1, '\n', text + size - line - 1)
                           : NULL;
    if (!end)
        return (Range){0, 0};
    Range r = find_word(c, line, (size_t)(end - line), true);
    r.from += (size_t)(line - text);
    return r;
}

size_t fuzz_tokens(Corpus *c, char *text, size_t size)
{
    if (size == 0)
        return 0;
    const FuzzText *any = &c->text[fuzz_next(c, (uint64_t)c->n)];
    bool same = fuzz_next(c, 4) != 0;
    const char *from = same ? text : any->at;
    size_t from_size = same ? size : any->size;
    uint64_t what = fuzz_next(c, 8);
    const char *number = numbers[fuzz_next(c, NUMBERS)];
    if (what < 3) {
        Range r = {0, 0};
        if (what == 0) /* the mesh of a dump */
            r = find_in_line(c, text, size, "\nmesh ");
        if (r.n == 0)
            r = find_word(c, text, size, true);
        return r.n ? splice(text, size, r.from, r.n, number, strlen(number))
                   : size;
    }
    Range to, with;
    if (what < 6) {
        to = find_word(c, text, size, false);
        with = find_word(c, from, from_size, what == 3);
        return to.n && with.n ? splice(text, size, to.from, to.n,
                                       from + with.from, with.n)
                              : size;
    }
    to = find_lines(c, text, size);
    with = find_lines(c, from, from_size);
    if (what == 6)
        return splice(text, size, to.from, to.n, "", 0);
    return splice(text, size, to.from, fuzz_next(c, 2) * to.n,
                  from + with.from, with.n);
}
