/* lex.c: splits the printed IR into tokens. */
#include <stdarg.h>
#include <string.h>

#include "ir/text/text.h"

void parse_fail(Text *t, Loc loc, const char *fmt, ...)
{
    if (t->out)
        return;
    if (!t->failed) {
        va_list ap;
        va_start(ap, fmt);
        diag_error(t->diag, loc, "%s", arena_vprintf(t->arena, fmt, ap));
        va_end(ap);
    }
    t->failed = true;
    t->tok = (Token){.kind = TK_END, .text = "", .loc = loc};
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (c >= '0' && c <= '9');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_space(Text *t)
{
    for (; t->at < t->end; t->at++)
        if (*t->at == '\n') {
            t->line++;
            t->line_start = t->at + 1;
            t->line_begun = false;
        } else if (*t->at == '#') {
            while (t->at + 1 < t->end && t->at[1] != '\n')
                t->at++;
        } else if (*t->at != ' ' && *t->at != '\t' && *t->at != '\r') {
            return;
        }
}

enum { MAX_SPAN = 60000 }; /* of a Loc, which has 16 bits for it */

static Loc here(const Text *t, const char *from, const char *to)
{
    ptrdiff_t len = to - from, col = from - t->line_start + 1;
    len = len < 1 ? 1 : len > MAX_SPAN ? MAX_SPAN : len;
    return (Loc){t->source, (uint16_t)len, t->line, (uint32_t)col};
}

static int hex_digit(char c)
{
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes the escape after a backslash and advances past it; -1: invalid. */
static int escape(const char **at, const char *end)
{
    const char *c = *at;
    if (c >= end)
        return -1;
    *at = c + 1;
    if (*c == 'n')
        return '\n';
    if (*c == 't')
        return '\t';
    if (*c == '"' || *c == '\\')
        return *c;
    if (*c != 'u' || end - c < 5)
        return -1;
    int value = 0;
    for (int i = 1; i <= 4; i++) {
        if (hex_digit(c[i]) < 0)
            return -1;
        value = 16 * value + hex_digit(c[i]);
    }
    *at = c + 5;
    return value > 0 && value < 128 ? value : -1;
}

/* The closing quote of the string that opens at `start`; NULL: there is none on
 * the line. */
static const char *closing_quote(const char *start, const char *end)
{
    for (const char *c = start + 1; c < end && *c != '\n'; c++) {
        if (*c == '"')
            return c;
        if (*c == '\\')
            c++;
    }
    return NULL;
}

static void lex_string(Text *t, const char *start)
{
    const char *close = closing_quote(start, t->end);
    if (!close) {
        parse_fail(t, here(t, start, start + 1), "this string has no end");
        return;
    }
    char *text = arena_alloc(t->arena, (size_t)(close - start));
    size_t n = 0;
    for (const char *c = start + 1; c < close;) {
        int x = (unsigned char)*c++;
        if (x == '\\' && (x = escape(&c, close)) < 0) {
            parse_fail(t, here(t, start, close), "a bad escape in a string");
            return;
        }
        text[n++] = (char)x;
    }
    t->at = close + 1;
    t->tok.kind = TK_STRING;
    t->tok.text = text;
}

/* Makes a run of characters the token's text. */
static void lex_run(Text *t, TokenKind kind, const char *from, const char *to)
{
    t->tok.kind = kind;
    t->tok.text = arena_strndup(t->arena, from, (size_t)(to - from));
    t->at = to;
}

static void lex_number(Text *t, const char *c)
{
    const char *from = c;
    c += *c == '-';
    while (c < t->end &&
           (is_word_char(*c) || *c == '.' ||
            ((*c == '-' || *c == '+') && (c[-1] == 'e' || c[-1] == 'E'))))
        c++;
    lex_run(t, TK_NUMBER, from, c);
}

static void lex_token(Text *t, const char *c)
{
    const char *d = c;
    if (*c == '"') {
        lex_string(t, c);
    } else if (*c == '%') {
        for (d = c + 1; d < t->end && (is_word_char(*d) || *d == '.');)
            d++;
        lex_run(t, TK_VALUE, c + 1, d);
    } else if (is_digit(*c) || (*c == '-' && c + 1 < t->end && c[1] != '>')) {
        lex_number(t, c);
    } else if (is_word_char(*c)) {
        /* "tp.kv": a part of an axis */
        while (d < t->end &&
               (is_word_char(*d) ||
                (*d == '.' && d + 1 < t->end && is_word_char(d[1]))))
            d++;
        lex_run(t, TK_WORD, c, d);
    } else if (t->end - c >= 2 && memcmp(c, "->", 2) == 0) {
        lex_run(t, TK_ARROW, c, c + 2);
    } else if (t->end - c >= 2 && memcmp(c, "·", 2) == 0) {
        lex_run(t, TK_DOT, c, c + 2);
    } else if (*c && strchr("{}()[]=:,/+^~|@", *c)) {
        lex_run(t, TK_CHAR, c, c + 1);
    } else {
        parse_fail(t, here(t, c, c + 1), "unexpected character");
    }
}

void parse_next(Text *t)
{
    if (t->failed)
        return;
    skip_space(t);
    const char *c = t->at;
    t->tok = (Token){.kind = TK_END,
                     .text = "",
                     .first = !t->line_begun,
                     .loc = here(t, c, c + 1)};
    t->line_begun = true;
    if (c >= t->end)
        return;
    lex_token(t, c);
    if (!t->failed)
        t->tok.loc = here(t, c, t->at);
}
