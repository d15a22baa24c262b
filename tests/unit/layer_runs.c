/* layer_runs.c: compares random plans that treat the elements of arrays
 * differently with the model without a plan.
 *
 *   layer_runs [--count N] [--seed S]
 *
 * Plans name elements by index or take every n-th element. However an array is
 * split, each layer's parameters must keep their names, and loss, gradient norm
 * and every updated parameter must equal those of the unsplit array: in the
 * global program, and in the partitioned program after all passes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "codegen/target/target.h"
#include "frontend/frontend.h"
#include "ir/path.h"
#include "passes/pass.h"
#include "tests/unit/random.h"
#include "tests/unit/random_seeds.h"

static const char model[] =
    "module Cell(dim) {\n"
    "  lin: Linear(dim, dim)\n"
    "  drop: Dropout(0.25)\n"
    "  forward(x) { return x + tanh(drop(lin(x))) }\n"
    "}\n"
    "module Block(dim, n) {\n"
    "  norm: RMSNorm(dim)\n"
    "  cells: [n] Cell(dim)\n"
    "  out: Linear(dim, dim, bias=false)\n"
    "  forward(x, memory) {\n"
    "    h = norm(x) * memory\n"
    "    for cell in cells { h = cell(h) }\n"
    "    return x + out(h)\n"
    "  }\n"
    "}\n"
    "model M(n=5, cells=2) {\n"
    "  first: Linear(8, 8)\n"
    "  layers: [n] Block(8, cells)\n"
    "  forward(x: [batch, 4, 8]) {\n"
    "    h = first(x)\n"
    "    memory = h\n"
    "    for layer in layers { h = layer(h, memory) }\n"
    "    return mean(h * h)\n"
    "  }\n"
    "}\n"
    "train {\n batch = 8\n precision = f32\n optimizer = AdamW(lr=0.1)\n}\n";

/* Lines of a plan; '#' becomes the number of a layer, '@' of a cell. */
static const char *const styles[] = {
    "layers.#.out: ColwiseParallel(output=Replicate)",
    "layers.*.out: RowwiseParallel(input=Replicate)",
    "layers.#.out: RowwiseParallel(input=Replicate)",
    "layers.#.cells.*.lin: ColwiseParallel(output=Replicate)",
    "layers.*.cells.@.lin: RowwiseParallel(input=Replicate)",
    "layers.#.cells.@.lin: ColwiseParallel(output=Replicate)",
    "layers.#: PrepareModuleInput(Replicate -> Shard(1), none)",
    "[layers.#.out, layers.#.out]: ColwiseParallel(output=Replicate)",
};
static const char *const units[] = {
    "layers.#",          "layers.*", "every Cell",
    "layers.#.cells.@",  "model",    "layers.#: prefetch=1",
    "[layers.#, first]", "layers.*.cells.@: prefetch=#",
    "layers.#: reshard=false", "layers.*: strategy=shard_grad_op",
    "every Block: strategy=no_shard",
};
static const char *const checkpoints[] = {
    "layers.#",
    "layers.#: keep=matmul",
    "layers.*: every=2",
    "every Block: every=3, keep=matmul",
    "every Cell: every=2",
    "layers.*.cells.*: every=2",
    "layers.#.cells.*",
    "layers.*.norm: every=2",
    "layers.*.out",
    "[layers.#.norm, layers.#.out]",
};

static void lines(Out *o, Rng *r, const char *clause, const char *const *line,
                  int64_t nlines, int64_t n)
{
    int64_t begin = rng_below(r, nlines), count = rng_below(r, 4);
    if (count == 0)
        return;
    out(o, "  %s {\n", clause);
    for (int64_t i = 0; i < count; i++) {
        out(o, "    ");
        for (const char *s = line[(begin + i) % nlines]; *s; s++) {
            if (*s == '#' || *s == '@')
                out(o, "%lld", (long long)rng_below(
                                   r, *s == '@' && n > 2 ? 2 : n));
            else
                out(o, "%c", *s);
        }
        out(o, "\n");
    }
    out(o, "  }\n");
}

#define LINES(o, r, clause, table, n) \
    lines(o, r, clause, table, sizeof(table) / sizeof *(table), n)

static const char *random_text(Arena *a, Rng *r, int64_t n)
{
    Out o;
    out_init(&o, a);
    out(&o, "%splan p(dp, tp) {\n", model);
    LINES(&o, r, "parallelize tp", styles, n);
    LINES(&o, r, "fully_shard dp", units, n);
    LINES(&o, r, "checkpoint", checkpoints, n);
    out(&o, "}\n");
    return o.text;
}

enum { DEFINES = 3 };

static Program *make(Arena *a, Diag *d, const char *text, const char *mesh,
                     int64_t n, int64_t accumulate)
{
    const char *define[DEFINES] = {
        arena_printf(a, "n=%lld", (long long)n),
        arena_printf(a, "cells=%lld", (long long)(n > 2 ? 2 : n)),
        arena_printf(a, "accumulate=%lld", (long long)accumulate)};
    const File *prelude = pdl_parse(
        a, d, diag_source(d, "<prelude>", prelude_text, prelude_size));
    const File *file =
        pdl_parse(a, d, diag_source(d, "test.pdl", text, strlen(text)));
    Setting *setting[DEFINES];
    for (int i = 0; i < DEFINES; i++)
        setting[i] = pdl_parse_define(
            a, d, diag_source(d, "-D", define[i], strlen(define[i])));
    FrontendOptions options = {.mesh = mesh, .define = setting,
                               .ndefines = DEFINES};
    if (!prelude || !file)
        return NULL;
    pdl_check(a, d, prelude, file);
    Program *p = lower(a, d, prelude, file, &options);
    return diag_error_count(d) ? NULL : p;
}

/* ---- layers by name ---- */

/* The name of one layer's tensor in a stack. */
static const char *layer_name(Arena *a, const Param *p, int64_t layer)
{
    int64_t index[MAX_STACK];
    int stack = 0;
    const char *text = "";
    for (int i = p->type.nstack - 1; i >= 0; i--) {
        index[i] = layer % p->type.stack[i];
        layer /= p->type.stack[i];
    }
    for (int i = 0; i < path_depth(p->name); i++) {
        PathRange r = {0, 0, 1};
        size_t size;
        const char *s = path_segment(p->name, i, &size);
        bool number = path_range(s, size, &r) || *s == '*';
        text = arena_printf(a, "%s%s", text, i ? "." : "");
        if (number)
            text = arena_printf(a, "%s%lld", text,
                                (long long)(r.first + index[stack++] * r.step));
        else
            text = arena_printf(a, "%s%.*s", text, (int)size, s);
    }
    return text;
}

static int64_t layers_of(const Param *p, int64_t *elements)
{
    int64_t n = 1;
    for (int i = 0; i < p->type.nstack; i++)
        n *= p->type.stack[i];
    *elements = type_elements(&p->type) / n;
    return n;
}

static double number(const char *name, int64_t i)
{
    Rng r = {(uint64_t)i * 977 + 5};
    for (const char *s = name; *s; s++)
        r.state = (r.state ^ (uint64_t)(unsigned char)*s) * 0x100000001b3u;
    return strstr(name, ".v") ? 0.5 + 0.1 * fabs(rng_normal(&r))
                              : 0.3 * rng_normal(&r);
}

static void set_values(Arena *a, Interp *in, const Program *p)
{
    random_values(in, p, 1); /* inputs and scalars */
    for (int i = 0; i < p->param.n; i++) {
        const Param *param = &p->param.at[i];
        int64_t elements, n = layers_of(param, &elements);
        double *x = NEW_ARRAY(a, double, n * elements + 1);
        for (int64_t l = 0; l < n; l++)
            for (int64_t k = 0; k < elements; k++)
                x[l * elements + k] = number(layer_name(a, param, l), k);
        interp_set_param(in, i, x);
    }
}

/* The layer's values after the step; NULL: the program lacks the layer. */
static const double *find_layer(Arena *a, const Program *p, Interp *in,
                                const char *name)
{
    for (int i = 0; i < p->param.n; i++) {
        int64_t elements, n = layers_of(&p->param.at[i], &elements);
        for (int64_t l = 0; l < n; l++)
            if (strcmp(layer_name(a, &p->param.at[i], l), name) == 0)
                return interp_param(in, i) + l * elements;
    }
    return NULL;
}

static bool near(double x, double y)
{
    return fabs(x - y) <= 1e-9 * (1 + fabs(x));
}

static const char *compare_layers(Arena *a, const Program *p, Interp *x,
                                  const Program *q, Interp *y)
{
    static const char *const output[] = {"loss", "grad_norm"};
    for (int i = 0; i < 2; i++) {
        double v, w;
        if (!interp_output(x, output[i], &v) ||
            !interp_output(y, output[i], &w) || !near(v, w))
            return arena_printf(a, "%s differs", output[i]);
    }
    for (int i = 0; i < p->param.n; i++) {
        int64_t elements, n = layers_of(&p->param.at[i], &elements);
        for (int64_t l = 0; l < n; l++) {
            const char *name = layer_name(a, &p->param.at[i], l);
            const double *is = find_layer(a, q, y, name);
            for (int64_t k = 0; k < elements; k++)
                if (!is || !near(interp_param(x, i)[l * elements + k], is[k]))
                    return arena_printf(a, "%s is %s", name,
                                        is ? "different" : "not there");
        }
    }
    return NULL;
}

/* ---- one seed ---- */

typedef struct Case {
    uint64_t seed;
    const char *text, *mesh;
    int64_t n, accumulate;
} Case;

static void show(const Case *c, const char *what)
{
    fprintf(stderr, "seed %llu, n=%lld, accumulate=%lld on %s: %s\n%s",
            (unsigned long long)c->seed, (long long)c->n,
            (long long)c->accumulate, c->mesh, what,
            c->text + strlen(model));
}

static void on_bug(void *context)
{
    show(context, "internal error");
}

static const char *run(Arena *a, const Program *p, Interp **in)
{
    *in = interp_new(p);
    set_values(a, *in, p);
    return interp_run(*in);
}

static const char *run_all(Arena *a, Program *p, Program *whole)
{
    TargetInfo t = target_info(TARGET_CPU, 1);
    t.default_prefetch = p->param.n % 2;
    Interp *x, *y, *z;
    int next = 0;
    for (bool global = true; global; next++) {
        pass_table[next].run(whole, &t);
        pass_table[next].run(p, &t);
        global = strcmp(pass_table[next].name, "autodiff") != 0;
    }
    const char *fault = run(a, whole, &x);
    fault = fault ? fault : run(a, p, &y);
    fault = fault ? fault : compare_layers(a, whole, x, p, y);
    for (int i = next; i < pass_count && !fault; i++) {
        pass_table[i].run(p, &t);
        fault = diag_error_count(p->diag) ? "a pass reported errors"
                                          : ir_verify(p);
    }
    fault = fault ? fault : run(a, p, &z);
    return fault ? fault : compare_layers(a, whole, x, p, z);
}

static SeedResult run_seed(void *context, uint64_t seed)
{
    static const char *const mesh[] = {"1x1", "2x1", "1x2", "2x2"};
    bool alone = *(const int64_t *)context == 1;
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    Rng r = {seed * 7919 + 3};
    Case c = {.seed = seed, .n = 1 + rng_below(&r, 7),
              .mesh = mesh[rng_below(&r, 4)],
              .accumulate = rng_chance(&r, 25) ? 2 : 1};
    c.text = random_text(a, &r, c.n);
    bug_set_hook(on_bug, &c);
    Program *whole = make(a, d, model, "1", c.n, 1);
    Program *p = make(a, d, c.text, c.mesh, c.n, c.accumulate);
    const char *fault = p && whole ? run_all(a, p, whole) : NULL;
    if (fault)
        show(&c, fault);
    if (fault || !whole || (!p && alone))
        diag_flush(d, stderr);
    bug_set_hook(NULL, NULL);
    arena_free(a);
    return fault || !whole ? SEED_FAILED : p ? SEED_PASSED : SEED_REFUSED;
}

int main(int argc, char **argv)
{
    SeedRuns runs = {.count = 60, .seed = 1, .refused_percent = 40,
                     .run = run_seed, .context = &runs.count};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0)
            runs.count = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--seed") == 0)
            runs.seed = atoll(argv[i + 1]);
    }
    return run_seeds(&runs);
}
