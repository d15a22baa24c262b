/* partition_errors.c: tests plans that the sizes of a model do not allow.
 *
 * Each row is a model with its plan, a mesh, and the error of the passes pad,
 * plan and propagate: line and column, then the text. The file also checks
 * which units parameters belong to.
 */
#include "check.h"
#include "frontend/frontend.h"
#include "ir/units.h"
#include "passes/pass.h"

#include <stdlib.h>

static const struct {
    const char *mesh, *expected, *text;
} rows[] = {
    {"1x4",
     "test.pdl:7:38: error: axis 'tp' of size 4 cannot split dim 2 of the "
     "output of 'q': it is reshaped into 2 x 8, and 4 does not divide 2",
     "model M() {\n"
     "  q: Linear(16, 16)\n"
     "  forward(x: [batch, seq, 16]) {\n"
     "    return sum(heads(q(x), 2))\n"
     "  }\n"
     "}\n"
     "plan p(dp, tp) { parallelize tp { q: ColwiseParallel } }\n"
     "train {\n batch = 4\n seq = 4\n}\n"},
    {"1x4",
     "test.pdl:5:38: error: axis 'tp' of size 4 does not divide dim 0 of "
     "'q.weight' (18)",
     "model M() {\n"
     "  q: Linear(16, 18)\n"
     "  forward(x: [batch, 16]) { return sum(slice(q(x), 0, 3)) }\n"
     "}\n"
     "plan p(dp, tp) { parallelize tp { q: ColwiseParallel } }\n"
     "train {\n batch = 4\n}\n"},
    {"1x4",
     "test.pdl:5:38: error: axis 'tp' of size 4 does not divide dim 1 (6) "
     "that ColwiseParallel on q splits",
     "model M() {\n"
     "  q: Linear(16, 16)\n"
     "  forward(x: [batch, seq, 16]) { return sum(q(x)) }\n"
     "}\n"
     "plan p(dp, tp) { parallelize tp { q: ColwiseParallel(input=Shard(1)) } }"
     "\n"
     "train {\n batch = 4\n seq = 6\n}\n"},
    {"3x1",
     "test.pdl:6:1: error: a batch of 4 cannot be split over 3 data-parallel "
     "ranks",
     "model M() {\n"
     "  q: Linear(16, 16)\n"
     "  forward(x: [batch, 16]) { return sum(q(x)) }\n"
     "}\n"
     "plan p(dp, tp) { parallelize tp { q: ColwiseParallel } }\n"
     "train {\n batch = 4\n}\n"},
    {"2x4",
     "test.pdl:5:38: error: axis 'tp' of size 4 does not divide the rest of "
     "dim 0 of f32[4/dp, 16]",
     "model M() {\n"
     "  q: Linear(16, 16)\n"
     "  forward(x: [batch, 16]) { return sum(q(x)) }\n"
     "}\n"
     "plan p(dp, tp) { parallelize tp { q: ColwiseParallel(output=Shard(0)) } }"
     "\n"
     "train {\n batch = 4\n precision = f32\n}\n"},
    {"1x2",
     "test.pdl:9:8: error: 'tok.weight' is split along dim 0 by this style "
     "and along dim 1 by another",
     "model M() {\n"
     "  tok: Embedding(16, 16)\n  out: Linear(16, 16, bias=false)\n"
     "  tie out.weight = tok.weight\n"
     "  forward(ids: int(16)[batch]) { return sum(out(tok(ids))) }\n"
     "}\n"
     "plan p(dp, tp) { parallelize tp {\n"
     "  tok: ColwiseParallel\n"
     "  out: ColwiseParallel } }\n"
     "train {\n batch = 4\n}\n"},
};

static Program *check_and_lower(Arena *a, Diag *d, const char *text,
                                const char *mesh)
{
    const File *prelude = pdl_parse(
        a, d, diag_source(d, "<prelude>", prelude_text, prelude_size));
    const File *file =
        pdl_parse(a, d, diag_source(d, "test.pdl", text, strlen(text)));
    FrontendOptions options = {.mesh = mesh};
    if (!prelude || !file)
        return NULL;
    pdl_check(a, d, prelude, file);
    return diag_error_count(d) ? NULL
                               : lower(a, d, prelude, file, &options);
}

/* The first line that diag_flush prints. */
static const char *first_line(Arena *a, Diag *d)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    diag_flush(d, f);
    fclose(f);
    const char *line = arena_strndup(a, text, strcspn(text, "\n"));
    free(text);
    return line;
}

static void check_row(Check *c, const char *text, const char *mesh,
                      const char *expected)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    TargetInfo t = {.target = TARGET_CPU, .threads = 1};
    Program *p = check_and_lower(a, d, text, mesh);
    if (p) {
        pass_autodiff(p, &t);
        pass_pad(p, &t);
        if (!diag_error_count(d))
            pass_plan(p, &t);
        if (!diag_error_count(d))
            pass_propagate(p, &t);
    }
    CHECK_TEXT(c, first_line(a, d), expected);
    arena_free(a);
}

/* ---- units --------------------------------------------------------------- */

static void check_paths(Check *c)
{
    CHECK(c, path_matches("layers.*.wq", "layers.*.wq"));
    CHECK(c, path_matches("layers.*", "layers.wq"));
    CHECK(c, path_matches("", ""));
    CHECK(c, !path_matches("layers.*", "layers"));
    CHECK(c, !path_matches("layers", "layers.*"));
    CHECK(c, !path_matches("layers.*", "layers.*.wq"));
    CHECK(c, !path_matches("layer", "layers"));
    CHECK(c, !path_matches("", "layers"));
    CHECK(c, path_overlaps("s.0.b.1", "s.*.b.1-2"));
    CHECK(c, path_overlaps("s.*.b.1-2", "s.0.b.1"));
    CHECK(c, !path_matches("s.0.b.1", "s.*.b.1-2"));
    CHECK(c, !path_overlaps("s.0.b.3", "s.*.b.1-2"));
    CHECK(c, path_matches("a.w*", "a.wq"));
    CHECK(c, path_matches("a.*w*q", "a.wq"));
    CHECK(c, !path_matches("a.w*", "a.x"));
    CHECK(c, !path_matches("a.w*", "a.wq.b"));
    CHECK(c, !path_matches("a*", "a.wq"));
    CHECK(c, !path_matches("a.*1", "a.1"));
    CHECK(c, !path_matches("a.x*", "a.*"));
    CHECK(c, path_matches("a.0-3", "a.1-2"));
    CHECK(c, path_matches("a.0-6:2", "a.4-8"));
    CHECK(c, path_matches("a.4-8", "a.0-6:2"));
    CHECK(c, !path_matches("a.0-6:2", "a.1-7:2"));
    CHECK(c, !path_matches("a.0-6:2", "a.1-7:6"));
    CHECK(c, path_matches("a.0-60:7", "a.1-99:4"));
    CHECK(c, !path_matches("a.0-3", "a.4"));
    CHECK(c, !path_matches("a.0-3", "a.*"));
    CHECK(c, path_matches_first("a.0-3", "a.1-5"));
    CHECK(c, !path_matches_first("a.2-3", "a.1-5"));
    CHECK(c, path_specificity("a.0.b") > path_specificity("a.0-3.b"));
    CHECK(c, path_specificity("a.0-3.*") > path_specificity("a.*.b"));
    CHECK(c, path_specificity("a.*.b") > path_specificity("a.*.b*"));
    CHECK(c, path_specificity("a.*.b*") > path_specificity("a.*.*"));
}

static const char *unit_of(Program *p, const char *param)
{
    return unit_name_of_param(p, ir_param_index(p, param));
}

static void check_units(Check *c)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    Program *p = check_and_lower(
        a, d,
        "module B(n) {\n  u: Linear(n, n)\n  v: Linear(n, n)\n"
        "  forward(x) { return v(u(x)) }\n}\n"
        "model M() {\n  first: Linear(4, 4)\n  layers: [2] B(4)\n"
        "  last: Linear(4, 4)\n  rest: Linear(4, 4)\n"
        "  forward(x: [batch, 4]) {\n    h = first(x)\n"
        "    for l in layers { h = l(h) }\n"
        "    return sum(rest(last(h))) }\n}\n"
        "plan p(dp) { fully_shard dp {\n"
        "  layers.*, layers.*.v, [first, last] } }\n"
        "train {\n  batch = 2\n}\n",
        "2");
    CHECK(c, p != NULL);
    if (p) {
        CHECK_TEXT(c, unit_of(p, "layers.*.u.weight"), "layers.*");
        CHECK_TEXT(c, unit_of(p, "layers.*.v.bias"), "layers.*.v");
        CHECK_TEXT(c, unit_of(p, "first.weight"), "first+last");
        CHECK_TEXT(c, unit_of(p, "last.bias"), "first+last");
        CHECK_TEXT(c, unit_of(p, "rest.weight"), NULL);
    } else {
        diag_flush(d, stdout);
    }
    arena_free(a);
}

int main(void)
{
    Check c = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&c, rows[i].text, rows[i].mesh, rows[i].expected);
    check_paths(&c);
    check_units(&c);
    return check_end(&c);
}
