/* hazards.c: no event too few, none too many.
 *
 *   hazards [--count N] [--seed S]
 *
 * Examples under many plans, meshes and settings, and random programs, are
 * planned for CUDA. The schedule must pass the hazard checker as it is, and
 * fail it when any one of its waits is left out.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/file.h"
#include "codegen/target.h"
#include "passes/streams.h"
#include "tests/unit/check.h"
#include "tests/unit/pdl_program.h"
#include "tests/unit/random.h"
#include "tests/unit/random_seeds.h"

/* ---- one schedule ------------------------------------------------------ */

typedef struct Waits {
    const Program *p;
    int n;             /* of them */
    const char *fault; /* the first */
} Waits;

static void try_without(Waits *w, const Issue *issue)
{
    for (int i = 0; i < issue->wait.n && !w->fault; i++) {
        const Wait *wait = &issue->wait.at[i];
        w->n++;
        if (!hazards_check(w->p, w->p->streams, wait))
            w->fault = arena_printf(
                w->p->arena, "%s %%%s need not wait until %s",
                issue->op ? op_info(issue->op->kind)->name : "the end",
                issue->op && issue->op->nouts ? issue->op->out[0]->name : "",
                wait->why);
    }
}

static void try_list(Waits *w, const IssueList *list)
{
    for (int i = 0; i < list->n; i++) {
        try_without(w, &list->at[i]);
        if (list->at[i].op->kind == OP_loop)
            try_list(w, &w->p->streams->body[list->at[i].op->id]);
    }
}

/* NULL, or what is wrong; adds the waits to *waits. */
static const char *check_schedule(const Program *p, int *waits)
{
    Waits w = {.p = p};
    const char *fault = hazards_check(p, p->streams, NULL);
    if (fault)
        return fault;
    try_without(&w, &p->streams->begin);
    try_list(&w, &p->streams->step);
    try_without(&w, &p->streams->end);
    *waits += w.n;
    return w.fault;
}

/* ---- llama ------------------------------------------------------------- */

static const char own_plan[] =
    "fully_shard dp { tok_embeddings, layers.*, [norm, output] }";

/* What stands in its place. */
static const char *const plans[] = {
    own_plan,
    "fully_shard dp { tok_embeddings, layers.*, [norm, output] }"
    "\n checkpoint { layers.* }",
    "fully_shard dp { layers.*: prefetch=0 }",
    "fully_shard dp { layers.*: prefetch=2 }",
    "fully_shard dp { layers.*: prefetch=5 }",
    "fully_shard dp { layers.*.attention, layers.*.feed_forward }",
    "fully_shard dp { layers.*.attention: prefetch=3,"
    " layers.*.feed_forward: prefetch=2 }",
    "fully_shard dp { every Linear: prefetch=2 }",
    "fully_shard dp { layers.*: reshard=false, [norm, output] }",
    "fully_shard dp { layers.*: strategy=shard_grad_op }",
    "fully_shard dp { layers.*: strategy=no_shard }",
    "fully_shard dp { layers.0, layers.*: prefetch=2 }",
    "fully_shard dp { layers.3: reshard=false, layers.* }"
    "\n checkpoint { layers.4 }",
    "",
};
enum { PLANS = sizeof plans / sizeof *plans };

static const char *const meshes[] = {"2x1", "1x2", "2x2"};
static const char *const settings[] = {
    "precision=f32", "precision=bf16", "accumulate=3", "head_chunk=4",
};

static const char *replaced(Arena *a, const char *text, const char *what,
                            const char *with)
{
    const char *at = strstr(text, what);
    if (!at)
        bug("hazards: the example has no '%s'", what);
    return arena_printf(a, "%.*s%s%s", (int)(at - text), text, with,
                        at + strlen(what));
}

static void check_program(Check *c, Arena *a, const char *text,
                          const char *mesh, const char *const *define,
                          const char *name, int *waits)
{
    Diag *d = diag_new(a, COLOR_NEVER);
    Program *p = pdl_program(a, d, text, mesh, NULL, define);
    TargetInfo t = target_info(TARGET_CUDA, 1);
    const char *fault = p ? run_all_passes(p, &t) : "it cannot be read";
    if (!fault)
        fault = check_schedule(p, waits);
    diag_flush(d, stdout);
    if (fault)
        printf("%s on %s: %s\n", name, mesh, fault);
    CHECK(c, !fault);
}

static void check_llama(Check *c, int plan, const char *mesh,
                        const char *setting, int *waits)
{
    const char *const define[] = {
        "vocab=48",   "dim=16",   "n_layers=9", "n_heads=4", "n_kv_heads=2",
        "hidden=40",  "batch=12", "seq=8",      setting,     NULL};
    Arena *a = arena_new();
    size_t size;
    const char *text = file_read(a, "examples/llama.pdl", &size);
    if (text)
        check_program(c, a, replaced(a, text, own_plan, plans[plan]), mesh,
                      define,
                      arena_printf(a, "%s, %s", plans[plan], setting), waits);
    CHECK(c, text);
    arena_free(a);
}

static void check_hybrid(Check *c, int *waits)
{
    static const char *const define[] = {"vocab=48",  "dim=16",   "n_heads=4",
                                         "batch=16",  "seq=8",    "n_layers=5",
                                         NULL};
    Arena *a = arena_new();
    size_t size;
    const char *text = file_read(a, "examples/hsdp.pdl", &size);
    if (text)
        check_program(c, a, text, "2x2x2", define, "hsdp", waits);
    CHECK(c, text);
    arena_free(a);
}

static void check_examples(Check *c)
{
    int waits = 0;
    for (int plan = 0; plan < PLANS; plan++)
        for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
            check_llama(c, plan, meshes[m],
                        settings[((size_t)plan + m) % 4], &waits);
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)
        check_llama(c, 0, "2x2", settings[s], &waits);
    check_hybrid(c, &waits);
    CHECK(c, waits > 1000);
}

/* ---- random programs --------------------------------------------------- */

static SeedResult run_seed(void *context, uint64_t seed)
{
    int *waits = context;
    Arena *a = arena_new();
    Program *p = ir_program(a, diag_new(a, COLOR_NEVER));
    Rng r = {seed};
    uint32_t data_axes = random_mesh(p, &r, NULL);
    random_model(p, &r, data_axes);
    random_plan(p, &r, data_axes);
    TargetInfo t = target_info(TARGET_CUDA, 1);
    t.default_prefetch = (int)rng_below(&r, 4);
    bool refused = run_all_passes(p, &t);
    const char *fault = refused ? NULL : check_schedule(p, waits);
    if (fault)
        printf("seed %llu: %s\n", (unsigned long long)seed, fault);
    arena_free(a);
    return refused ? SEED_REFUSED : fault ? SEED_FAILED : SEED_PASSED;
}

int main(int argc, char **argv)
{
    Check c = {0};
    int waits = 0;
    SeedRuns runs = {.count = 60,
                     .seed = 1,
                     .refused_percent = 10,
                     .run = run_seed,
                     .context = &waits};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            runs.seed = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--count") == 0)
            runs.count = atoll(argv[i + 1]);
    }
    if (runs.count > 1)
        check_examples(&c);
    runs.passed = c.passed;
    runs.failed = c.failed;
    return run_seeds(&runs);
}
