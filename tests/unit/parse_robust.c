/* parse_robust.c: checks that no text crashes the parser.
 *
 * Valid files are damaged a few thousand times (bytes flipped, pieces removed,
 * repeated, moved between files, tokens inserted) and parsed. Text that is
 * still PDL must print as a text that parses to the same tree. The random
 * numbers are the same in every run.
 */
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "frontend/ast.h"

enum { TURNS = 4000, MAX_TEXTS = 64, MAX_SIZE = 1 << 16 };

typedef struct Text {
    const char *at;
    size_t size;
} Text;

typedef struct Corpus {
    Text text[MAX_TEXTS];
    int n;
    uint64_t random;
} Corpus;

static uint64_t next(Corpus *c, uint64_t below)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return below ? c->random % below : 0;
}

static void load(Arena *a, Corpus *c, const char *pattern)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc && c->n < MAX_TEXTS; i++) {
        Text t;
        t.at = file_read(a, found.gl_pathv[i], &t.size);
        if (t.at && t.size > 0 && t.size < MAX_SIZE / 4)
            c->text[c->n++] = t;
    }
    globfree(&found);
}

/* Replaces `out` bytes at `at` by `in` others. */
static size_t splice(char *text, size_t size, size_t at, size_t out,
                     const char *in, size_t n)
{
    if (out > size - at)
        out = size - at;
    if (size - out + n > MAX_SIZE)
        return size;
    memmove(text + at + n, text + at + out, size - at - out);
    memcpy(text + at, in, n);
    return size - out + n;
}

static size_t damage(Corpus *c, char *text, size_t size)
{
    static const char *const tokens[] = {
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "\n",
        ",",
        ":",
        "=",
        "->",
        "*",
        "**",
        ".",
        "...",
        "-",
        "0",
        "1e9",
        "0.5",
        "if",
        "else ",
        "not ",
        "and ",
        "for ",
        "return ",
        "model",
        "plan",
        "every ",
        "\"",
        "\"x\"",
        "#",
        "\r\n",
        "\t",
        ";",
        "\xff",
        "\xc3\xa9",
        "x",
        "none",
        "int(",
        "99999999"
        "99999999999",
        "((((((((((",
        "----------",
        "{{{{{{{{",
    };
    static const size_t ntokens = sizeof tokens / sizeof *tokens;
    size_t at = next(c, size + 1);
    char byte = (char)next(c, 256);
    const Text *other = &c->text[next(c, (uint64_t)c->n)];
    size_t from = next(c, other->size), n = next(c, 200);
    if (n > other->size - from)
        n = other->size - from;
    const char *token = tokens[next(c, ntokens)];
    switch (next(c, 6)) {
    case 0:
        return splice(text, size, at, 1, &byte, 1);
    case 1:
        return splice(text, size, at, n, "", 0);
    case 2:
        return splice(text, size, at, next(c, 2) * n, other->at + from, n);
    case 3:
        return at; /* the rest is cut off */
    default:
        return splice(text, size, at, next(c, 3), token, strlen(token));
    }
}

static char *print(Arena *a, const File *f, size_t *size)
{
    Out o;
    out_init(&o, a);
    ast_print(&o, f);
    *size = o.size;
    return o.text;
}

/* True unless a tree prints as a text with another tree. */
static bool try_text(const char *text, size_t size, int *parsed)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    char *copy = arena_strndup(a, text, size);
    bool good = true;
    File *f = pdl_parse(a, d, diag_source(d, "damaged", copy, size));
    if (f) {
        size_t n, m;
        const char *once = print(a, f, &n);
        File *again = pdl_parse(a, d, diag_source(d, "printed", once, n));
        good = again && strcmp(once, print(a, again, &m)) == 0;
        ++*parsed;
    } else if (diag_error_count(d) == 0) {
        good = false; /* refused without a word */
    }
    pdl_parse_define(a, d, diag_source(d, "defined", copy, size));
    FILE *nowhere = fopen("/dev/null", "w");
    if (nowhere) {
        diag_flush(d, nowhere);
        fclose(nowhere);
    }
    arena_free(a);
    return good;
}

int main(void)
{
    Arena *a = arena_new();
    Corpus c = {.random = 0x9e3779b97f4a7c15};
    load(a, &c, "examples/*.pdl");
    load(a, &c, "frontend/prelude.pdl");
    load(a, &c, "tests/golden/parse/*.pdl");
    if (c.n == 0) {
        fputs("parse_robust: no files; run it from the repository\n", stderr);
        return 1;
    }
    static char text[MAX_SIZE];
    int parsed = 0, failed = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        const Text *t = &c.text[next(&c, (uint64_t)c.n)];
        size_t size = t->size;
        memcpy(text, t->at, size);
        for (uint64_t k = next(&c, 4); k > 0 && turn >= c.n; k--)
            size = damage(&c, text, size);
        if (try_text(text, size, &parsed))
            continue;
        printf("parse_robust: turn %d does not come back the same:\n%.*s\n",
               turn, (int)size, text);
        failed++;
    }
    printf("%d of the texts are PDL\n%d passed, %d failed\n", parsed,
           TURNS - failed, failed);
    arena_free(a);
    return failed != 0;
}
