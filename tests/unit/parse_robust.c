/* parse_robust.c: checks that no text crashes the parser.
 *
 * Valid files are damaged a few thousand times (bytes flipped, pieces removed,
 * repeated, moved between files, tokens inserted) and parsed. Text that is
 * still PDL must print as a text that parses to the same tree. The random
 * numbers are the same in every run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "frontend/syntax/ast.h"
#include "tests/unit/fuzz_mutate.h"

enum { TEXTS = 4000, MAX_SIZE = 1 << 14 };

static char *print(Arena *a, const File *f, size_t *size)
{
    Out o;
    out_init(&o, a);
    ast_print(&o, f);
    *size = o.size;
    return o.text;
}

/* True unless the tree without the broken plans, where no plan is selected, is
 * refused without a message, prints as another tree, or differs from `whole`,
 * the tree of a text without errors. */
static bool try_other_plans(Arena *a, const char *text, size_t size,
                            const File *whole)
{
    Diag *d = diag_new(a, COLOR_NEVER);
    size_t n;
    File *f = pdl_parse_plan(a, d, diag_source(d, "damaged", text, size),
                             "no plan has this name");
    if (!f)
        return !whole && diag_error_count(d) > 0;
    const char *once = print(a, f, &n);
    File *again = pdl_parse(a, d, diag_source(d, "printed", once, n));
    return again && strcmp(once, print(a, again, &n)) == 0 &&
           (!whole || strcmp(once, print(a, whole, &n)) == 0);
}

/* True unless a tree prints as a text that parses to another tree. */
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
        good = false; /* refused without a message */
    }
    good = good && try_other_plans(a, copy, size, f);
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
    static Corpus c = {.random = 0x9e3779b97f4a7c15};
    fuzz_load(a, &c, "examples/*.pdl", MAX_SIZE);
    fuzz_load(a, &c, "frontend/prelude.pdl", MAX_SIZE);
    fuzz_load(a, &c, "tests/golden/parse/*.pdl", MAX_SIZE);
    if (c.n == 0) {
        fputs("parse_robust: no files; run it from the repository\n", stderr);
        return 1;
    }
    static char text[FUZZ_SIZE];
    int parsed = 0, failed = 0;
    for (int n = 0; n < TEXTS; n++) {
        const FuzzText *t = &c.text[fuzz_next(&c, (uint64_t)c.n)];
        size_t size = t->size;
        memcpy(text, t->at, size);
        for (uint64_t k = fuzz_next(&c, 4); k > 0 && n >= c.n; k--)
            size = (fuzz_next(&c, 3) ? fuzz_bytes : fuzz_tokens)(&c, text,
                                                                 size);
        if (try_text(text, size, &parsed))
            continue;
        printf("parse_robust: text %d does not parse back to the same tree:\n%.*s\n",
               n, (int)size, text);
        failed++;
    }
    printf("%d of the texts are PDL\n%d passed, %d failed\n", parsed,
           TEXTS - failed, failed);
    arena_free(a);
    return failed != 0;
}
