/* lex.c: splits the printed IR into tokens. */
#include <stdarg.h>
#include <string.h>

#include "ir/text/parse.h"

void parse_fail(Parser *s, Loc loc, const char *fmt, ...)
{
    if (!s->failed) {
        va_list ap;
        va_start(ap, fmt);
        diag_error(s->diag, loc, "%s", arena_vprintf(s->arena, fmt, ap));
        va_end(ap);
    }
    s->failed = true;
    s->tok = (Token){.kind = TK_END, .text = "", .loc = loc};
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

static void skip_space(Parser *s)
{
    for (; s->at < s->end; s->at++)
        if (*s->at == '\n') {
            s->line++;
            s->line_start = s->at + 1;
            s->line_begun = false;
        } else if (*s->at == '#') {
            while (s->at + 1 < s->end && s->at[1] != '\n')
                s->at++;
        } else if (*s->at != ' ' && *s->at != '\t' && *s->at != '\r') {
            return;
        }
}

enum { MAX_SPAN = 60000 }; /* of a Loc, which has 16 bits for it */

static Loc here(const Parser *s, const char *from, const char *to)
{
    ptrdiff_t len = to - from, col = from - s->line_start + 1;
    Loc loc = {s->file,
               (uint16_t)(len < 1          ? 1
                          : len > MAX_SPAN ? MAX_SPAN
                                           : len),
               s->line, (uint32_t)col};
    return loc;
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

static void lex_string(Parser *s, const char *start)
{
    const char *close = closing_quote(start, s->end);
    if (!close) {
        parse_fail(s, here(s, start, start + 1), "this string has no end");
        return;
    }
    char *text = arena_alloc(s->arena, (size_t)(close - start));
    size_t n = 0;
    for (const char *c = start + 1; c < close;) {
        int x = (unsigned char)*c++;
        if (x == '\\' && (x = escape(&c, close)) < 0) {
            parse_fail(s, here(s, start, close), "a bad escape in a string");
            return;
        }
        text[n++] = (char)x;
    }
    s->at = close + 1;
    s->tok.kind = TK_STRING;
    s->tok.text = text;
}

/* Makes a run of characters the token's text. */
static void lex_run(Parser *s, TokenKind kind, const char *from, const char *to)
{
    s->tok.kind = kind;
    s->tok.text = arena_strndup(s->arena, from, (size_t)(to - from));
    s->at = to;
}

static void lex_number(Parser *s, const char *c)
{
    const char *from = c;
    c += *c == '-';
    while (c < s->end &&
           (is_word_char(*c) || *c == '.' ||
            ((*c == '-' || *c == '+') && (c[-1] == 'e' || c[-1] == 'E'))))
        c++;
    lex_run(s, TK_NUMBER, from, c);
}

static void lex_token(Parser *s, const char *c)
{
    const char *d = c;
    if (*c == '"') {
        lex_string(s, c);
    } else if (*c == '%') {
        for (d = c + 1; d < s->end && (is_word_char(*d) || *d == '.');)
            d++;
        lex_run(s, TK_VALUE, c + 1, d);
    } else if (is_digit(*c) || (*c == '-' && c + 1 < s->end && c[1] != '>')) {
        lex_number(s, c);
    } else if (is_word_char(*c)) {
        /* "tp.kv": a part of an axis */
        while (d < s->end &&
               (is_word_char(*d) ||
                (*d == '.' && d + 1 < s->end && is_word_char(d[1]))))
            d++;
        lex_run(s, TK_WORD, c, d);
    } else if (s->end - c >= 2 && memcmp(c, "->", 2) == 0) {
        lex_run(s, TK_ARROW, c, c + 2);
    } else if (s->end - c >= 2 && memcmp(c, "·", 2) == 0) {
        lex_run(s, TK_DOT, c, c + 2);
    } else if (*c && strchr("{}()[]=:,/+^~|@", *c)) {
        lex_run(s, TK_CHAR, c, c + 1);
        s->tok.c = *c;
    } else {
        parse_fail(s, here(s, c, c + 1), "unexpected character");
    }
}

void parse_next(Parser *s)
{
    if (s->failed)
        return;
    skip_space(s);
    const char *c = s->at;
    s->tok = (Token){.kind = TK_END,
                     .text = "",
                     .first = !s->line_begun,
                     .loc = here(s, c, c + 1)};
    s->line_begun = true;
    if (c >= s->end)
        return;
    lex_token(s, c);
    if (!s->failed)
        s->tok.loc = here(s, c, s->at);
}
