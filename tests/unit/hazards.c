/* hazards.c: checks that no event and no barrier is missing or redundant.
 *
 *   hazards [--count N] [--seed S]
 *
 * Examples under many plans, meshes and settings, pipelines too, and random programs, are
 * planned for CUDA. The hazard checker must accept the schedule as it is, and
 * reject it when any one wait is removed. The same programs are planned for
 * the CPU, where ranks share parameters: a simulation of all ranks with vector
 * clocks (follow_ranks.c) must find no race, and must find one when any one
 * barrier is removed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/file.h"
#include "codegen/target/target.h"
#include "passes/sync/sync.h"
#include "tests/unit/check.h"
#include "tests/unit/follow_ranks.h"
#include "tests/unit/pdl_program.h"
#include "tests/unit/random.h"
#include "tests/unit/random_seeds.h"

/* ---- one schedule ------------------------------------------------------ */

typedef struct Waits {
    const Program *p;
    int n;             /* number of waits */
    int gathers, barriers; /* gathers in place */
    const char *fault; /* the first */
} Waits;

/* Totals over all programs. */
typedef struct Seen {
    int waits, gathers, barriers;
} Seen;

static void try_without_wait(Waits *w, const Op *wait)
{
    w->n++;
    if (!hazards_check(w->p, wait))
        w->fault = arena_printf(w->p->arena, "a wait until %s is not needed",
                                attr_why(wait));
}

static void try_without_barrier(Waits *w, const Op *barrier)
{
    const Op *op = attr_op(barrier);
    w->barriers++;
    if (!barriers_check(w->p, barrier))
        w->fault = arena_printf(w->p->arena, "%%%s: the check accepts "
                                "a missing barrier", op->out[0]->name);
    else if (!follow_ranks(w->p, barrier))
        w->fault = arena_printf(w->p->arena, "%%%s: no race without "
                                "a barrier", op->out[0]->name);
}

static void try_without(Op *op, void *context)
{
    Waits *w = context;
    w->gathers += gather_in_place(op);
    if (op->kind == OP_wait && !w->fault)
        try_without_wait(w, op);
    if (op->kind == OP_barrier && !w->fault)
        try_without_barrier(w, op);
}

/* NULL, or the fault; adds to the totals. */
static const char *check_schedule(const Program *p, Seen *seen)
{
    Waits w = {.p = p};
    bool cpu = p->streams < 2;
    const char *fault = cpu ? barriers_check(p, NULL)
                            : hazards_check(p, NULL);
    if (!fault && cpu)
        fault = follow_ranks(p, NULL);
    if (fault)
        return fault;
    /* A program that repeats a part of another has all of its waits and
     * barriers, also those that only the rest of the other needs. */
    if (p->repeats)
        return NULL;
    ir_walk(p->step, try_without, &w);
    seen->waits += w.n;
    seen->gathers += w.gathers;
    seen->barriers += w.barriers;
    return w.fault;
}

/* The same for a training step and its side programs. */
static const char *check_schedules(const Program *p, Seen *seen)
{
    const char *fault = check_schedule(p, seen);
    for (int k = 0; k < PURPOSES && !fault; k++)
        if (p->side[k])
            fault = check_schedule(p->side[k], seen);
    return fault;
}

/* ---- llama ------------------------------------------------------------- */

static const char own_plan[] =
    "fully_shard dp { tok_embeddings, layers.*, [norm, output] }";

/* Plans that replace own_plan, the example's own. */
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
    "fully_shard dp { tok_embeddings, layers.*, [norm, output] }"
    "\n offload { optimizer, parameters }",
    "fully_shard dp { layers.*: prefetch=2 }"
    "\n offload { optimizer, parameters }\n checkpoint { layers.* }",
    "fully_shard dp { layers.*.attention: prefetch=3,"
    " layers.*.feed_forward: prefetch=0 }\n offload { parameters }",
    "fully_shard dp { layers.*: reshard=false, [norm, output] }"
    "\n offload { optimizer, parameters }",
    "offload { optimizer, parameters }",
};
enum { PLANS = sizeof plans / sizeof *plans };

static const char *const meshes[] = {"2x1", "1x2", "2x2"};
static const char *const settings[] = {
    "precision=f32", "precision=bf16", "accumulate=3", "head_chunk=4",
    "recompute=fused", "async_tp=2", "reduce=bf16",
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

static const Target targets[] = {TARGET_CUDA, TARGET_CPU};

static void check_program(Check *c, Arena *a, const char *text,
                          const char *mesh, const char *const *define,
                          const char *name, Seen *seen)
{
    for (int i = 0; i < 2; i++) {
        Diag *d = diag_new(a, COLOR_NEVER);
        Program *p = pdl_programs(a, d, text, mesh, NULL, define);
        TargetInfo t = target_info(targets[i], 1);
        const char *fault = p ? run_all_passes(p, &t) : "it cannot be read";
        if (!fault)
            fault = check_schedules(p, seen);
        diag_flush(d, stdout);
        if (fault)
            printf("%s on %s: %s\n", name, mesh, fault);
        CHECK(c, !fault);
    }
}

static void check_llama(Check *c, int plan, const char *mesh,
                        const char *setting, Seen *seen)
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
                      arena_printf(a, "%s, %s", plans[plan], setting), seen);
    CHECK(c, text);
    arena_free(a);
}

static void check_hybrid(Check *c, Seen *seen)
{
    static const char *const define[] = {"vocab=48",  "dim=16",   "n_heads=4",
                                         "batch=16",  "seq=8",    "n_layers=5",
                                         NULL};
    Arena *a = arena_new();
    size_t size;
    const char *text = file_read(a, "examples/hsdp.pdl", &size);
    if (text)
        check_program(c, a, text, "2x2x2", define, "hsdp", seen);
    CHECK(c, text);
    arena_free(a);
}

/* Pipelines, most of them with ranks that have no layer of a loop: what is ordered by the
 * loop's collectives on one rank is not on another. And exchanges of tokens with experts,
 * beside which other ops are ordered. */
static const struct {
    const char *file, *mesh, *axes, *pipeline, *plan;
    const char *define[22];
} own_plans[] = {
    {"examples/deepseek_moe.pdl", "2x2", "dp, ep", NULL,
     "expert_parallel ep { layers.*.moe: dispatch=all_to_all }"
     "\n fully_shard (dp, ep) { tok_embeddings, dense.*, layers.*, [norm, output] }"
     "\n checkpoint { dense.*, layers.* }",
     {"vocab=48", "dim=16", "n_layers=4", "dense_layers=1", "n_heads=2", "q_rank=8",
      "kv_rank=8", "nope_dim=8", "rope_dim=8", "v_dim=8", "hidden=24", "expert_hidden=16",
      "experts=8", "top_k=2", "groups=2", "top_groups=1", "batch=8", "seq=8"}},
    {"tests/data/experts.pdl", "2x2", "dp, ep", NULL,
     "expert_parallel ep { layers.*.moe: dispatch=gather }"
     "\n fully_shard (dp, ep) { layers.*: strategy=full_shard, model }",
     {"accumulate=2"}},
    {"tests/data/experts.pdl", "2x2x2", "pp, dp, tp", "schedule=1f1b",
     "parallelize tp { layers.*.norm: SequenceParallel }"
     "\n expert_parallel (dp, tp) { layers.*.moe }",
     {"accumulate=2"}},
    {"tests/data/experts.pdl", "2x2", "pp, dp", "schedule=1f1b",
     "expert_parallel dp { layers.*.moe: dispatch=all_to_all }"
     "\n fully_shard dp { layers.*, model }",
     {"accumulate=2"}},
    {"examples/transformer.pdl", "2x2", "pp, dp", "schedule=1f1b",
     "fully_shard dp { every TransformerEncoderLayer: reduce=microbatch,"
     " every TransformerDecoderLayer, [embedding, transformer, decoder] }",
     {"vocab=48", "dim=16", "n_layers=3", "n_heads=2", "hidden=24", "batch=8",
      "accumulate=4", "clip=1.0"}},
    {"examples/transformer.pdl", "2x2", "pp, dp", "stages_per_rank=2",
     "fully_shard dp { every TransformerEncoderLayer, every TransformerDecoderLayer }",
     {"vocab=48", "dim=16", "n_layers=3", "n_heads=2", "hidden=24", "batch=8",
      "accumulate=2"}},
    {"examples/transformer.pdl", "4x2", "pp, dp", "schedule=zero_bubble",
     "fully_shard dp { every TransformerEncoderLayer, every TransformerDecoderLayer }",
     {"vocab=48", "dim=16", "n_layers=5", "n_heads=2", "hidden=24", "batch=8",
      "accumulate=4"}},
};

static void check_own_plan(Check *c, int row, Seen *seen)
{
    Arena *a = arena_new();
    size_t size;
    const char *text = file_read(a, own_plans[row].file, &size);
    const char *plan = text ? strstr(text, "\nplan ") : NULL;
    const char *train = plan ? strstr(plan, "\ntrain ") : NULL;
    const char *pipeline = own_plans[row].pipeline;
    pipeline = pipeline ? arena_printf(a, "pipeline pp { %s }", pipeline) : "";
    CHECK(c, train);
    if (train)
        check_program(c, a,
                      arena_printf(a, "%.*s\nplan p(%s) {\n %s\n %s\n}%s",
                                   (int)(plan - text), text, own_plans[row].axes,
                                   pipeline, own_plans[row].plan, train),
                      own_plans[row].mesh, own_plans[row].define, own_plans[row].plan, seen);
    arena_free(a);
}

static void check_examples(Check *c)
{
    Seen seen = {0};
    for (int plan = 0; plan < PLANS; plan++)
        for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
            check_llama(c, plan, meshes[m],
                        settings[((size_t)plan + m) % 4], &seen);
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)
        check_llama(c, 0, "2x2", settings[s], &seen);
    check_hybrid(c, &seen);
    for (size_t i = 0; i < sizeof own_plans / sizeof *own_plans; i++)
        check_own_plan(c, (int)i, &seen);
    CHECK(c, seen.waits > 1000);
    CHECK(c, seen.gathers > 100);
    CHECK(c, seen.barriers > 20);
}

/* ---- random programs --------------------------------------------------- */

static const char *try_seed(uint64_t seed, Target target, Seen *seen,
                            bool *refused)
{
    Arena *a = arena_new();
    Program *p = ir_program(a, diag_new(a, COLOR_NEVER));
    Rng r = {seed};
    uint32_t data_axes = random_mesh(p, &r, NULL);
    random_model(p, &r, data_axes);
    random_pipeline(p, r);
    random_plan(p, &r, data_axes);
    random_side(p);
    TargetInfo t = target_info(target, 1);
    t.default_prefetch = (int)rng_below(&r, 4);
    *refused = run_all_passes(p, &t);
    const char *fault = *refused ? NULL : check_schedules(p, seen);
    if (fault)
        printf("seed %llu: %s\n", (unsigned long long)seed, fault);
    arena_free(a);
    return fault;
}

static SeedResult run_seed(void *context, uint64_t seed)
{
    bool refused, failed = false;
    for (int i = 0; i < 2; i++)
        failed |= try_seed(seed, targets[i], context, &refused) != NULL;
    return refused ? SEED_REFUSED : failed ? SEED_FAILED : SEED_PASSED;
}

int main(int argc, char **argv)
{
    Check c = {0};
    Seen seen = {0};
    SeedRuns runs = {.count = few_or_all(10, 60),
                     .seed = 1,
                     .refused_percent = 35, /* and mixtures of experts on CUDA */
                     .run = run_seed,
                     .context = &seen};
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
