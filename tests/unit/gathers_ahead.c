/* gathers_ahead.c: checks that every unit is gathered while the previous unit
 * computes.
 *
 * The test walks through steps of the example and of a model with two stacks
 * in the streams' order of issue. Between the issue of a unit's all-gather and
 * the first read of its parameters, the compute stream must have a matmul,
 * attention or a lookup, for every unit except the first of the step or of a
 * microbatch, in every iteration; and at most two units may be gathered at a
 * time. The lower bound of the memory plan must equal that of a plan without
 * hoisting across loops. The test also counts the collectives over tensor axes
 * in a layer's backward pass that overlap no such work; docs/schedule.md gives
 * the reasons.
 */
#include <string.h>

#include "base/file.h"
#include "codegen/target/target.h"
#include "ir/analysis/alias.h"
#include "ir/units.h"
#include "passes/schedule/liveness.h"
#include "passes/memory/memory.h"
#include "passes/sync/simulate.h"
#include "tests/unit/check.h"
#include "tests/unit/pdl_program.h"

enum { ALL_ITERATIONS = 1 << 20 };

static bool computes(const Instance *instance)
{
    const Op *op = instance->op;
    return op && (op_is_einsum(op->kind) || op->kind == OP_attention ||
                  op->kind == OP_embedding);
}

/* Whether the instance reads the gather's result in the same iteration. */
static bool uses(const Instance *instance, const Instance *gather)
{
    const Op *op = instance->op, *of = gather->op;
    if (!op || op->region != of->region ||
        memcmp(instance->iteration, gather->iteration,
               sizeof instance->iteration) != 0)
        return false;
    for (int i = 0; i < op->nargs; i++)
        if (value_root(op->arg[i])->def == of)
            return true;
    return false;
}

/* The dynamic instances from a gather's issue to its last reader; `work`: how
 * many matmuls, attentions and lookups run before the first reader. */
typedef struct Use {
    int from, to, work;
} Use;

static Use use_of(const Simulation *t, int gather)
{
    Use u = {.from = gather, .to = -1};
    for (int i = gather + 1; i < t->n; i++) {
        bool used = uses(&t->instance[i], &t->instance[gather]);
        u.work += u.to < 0 && !used && computes(&t->instance[i]);
        if (used)
            u.to = i;
        else if (t->instance[i].op == t->instance[gather].op &&
                 memcmp(t->instance[i].iteration, t->instance[gather].iteration,
                        sizeof t->instance[i].iteration) == 0)
            break; /* the next microbatch gathers the unit */
    }
    return u;
}

static bool is_gather(const Instance *instance)
{
    return instance->op && op_is_unit_gather(instance->op);
}

/* The number of collectives over tensor axes, per iteration of the backward
 * pass, whose result is read before any matmul. */
static int bare_per_iteration(const Program *p, const Simulation *t)
{
    int bare = 0, iterations = 0;
    for (const Op *op = p->step->first; op; op = op->next)
        if (op->kind == OP_loop && op->phase == PH_BACKWARD)
            iterations += (int)loop_trips(op);
    for (int i = 0; i < t->n; i++) {
        const Op *op = t->instance[i].op;
        bool looked_at = op && op->region->owner && op_is_collective(op->kind) &&
                         op->phase == PH_BACKWARD &&
                         op->stream == STREAM_TENSOR;
        bare += looked_at && use_of(t, i).work == 0;
    }
    return iterations ? bare / iterations : 0;
}

/* The largest number of units that are gathered at the same time. */
static int most_at_once(const Simulation *t, const Use *use, int n)
{
    int most = 0;
    for (int i = 0; i < t->n; i++) {
        int live = 0;
        for (int k = 0; k < n; k++)
            live += use[k].from <= i && i <= use[k].to;
        most = live > most ? live : most;
    }
    return most;
}

static void check_step(Check *c, const Program *p, const Simulation *t,
                       const char *name, int uncovered)
{
    Use *use = NEW_ARRAY(p->arena, Use, t->n);
    int n = 0, bare = 0;
    for (int i = 0; i < t->n; i++) {
        if (!is_gather(&t->instance[i]))
            continue;
        use[n] = use_of(t, i);
        CHECK(c, use[n].to >= 0);
        if (use[n].work == 0)
            bare++;
        n++;
    }
    int most = most_at_once(t, use, n);
    if (bare != uncovered || most != 2)
        printf("%s: %d of %d gathers overlap no work, "
               "%d units at a time\n", name, bare, n, most);
    CHECK(c, n > 8 && bare == uncovered && most == 2);
}

typedef struct Bound {
    Check *c;
    const Program *p;
    Liveness live;
    int led;
} Bound;

/* Lets the blocks of a hoisted gather begin where the gather is in the
 * program. */
static void unhoist(Op *start, void *context)
{
    Bound *b = context;
    const Op *owner = start->region->owner;
    bool early = owner && owner->kind == OP_early;
    if (start->kind != OP_start ||
        (early && attr_distance(owner) > 0) || (!early && op_loop(start)))
        return;
    const Op *gather = attr_op(start);
    bool first = early && attr_iteration(owner) >= 0;
    int stays = b->live.begin[first ? op_loop(gather)->id : gather->id];
    int from = b->live.begin[early && attr_remaining(owner) >= 0
                                 ? op_loop(owner)->id
                                 : early ? owner->id : start->id];
    b->led += from < stays;
    for (int k = 0; from < stays && k < gather->nouts; k++) {
        Block *block =
            &b->p->memory->block[value_address(gather->out[k])->block];
        CHECK(b->c, block->first <= from);
        block->first = stays;
    }
}

/* Hoisted gathers cost no memory: the peak is the same if their blocks begin
 * at the gathers' places in the program. */
static void check_bound(Check *c, const Program *p, const char *name)
{
    const MemoryPlan *plan = p->memory;
    Bound b = {.c = c, .p = p};
    int when, stage;
    live_analyse(p, &b.live);
    ir_walk(p->step, unhoist, &b);
    int64_t bound =
        arena_lower_bound(plan->block, plan->nblocks, plan->end, false, &when,
                          &stage);
    if (bound != plan->lower_bound)
        printf("%s: lower bound of %lld bytes, but %lld without hoisted "
               "gathers\n", name, (long long)plan->lower_bound,
               (long long)bound);
    CHECK(c, b.led > 1 && bound == plan->lower_bound);
}

/* Expected numbers: gathers that overlap no work, and collectives over tensor
 * axes in an iteration of the backward pass. */
typedef struct Expected {
    int gathers, collectives;
} Expected;

static void check_program(Check *c, const char *text, const char *mesh,
                          const char *const *define, const char *name,
                          Expected e)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    TargetInfo t = target_info(TARGET_CUDA, 1);
    Program *p = pdl_program(a, d, text, mesh, NULL, define);
    bool planned = p && !run_all_passes(p, &t);
    diag_flush(d, stdout);
    CHECK(c, planned);
    if (planned) {
        Simulation sim = simulate_step(p, NULL, ALL_ITERATIONS).at[0];
        int bare = bare_per_iteration(p, &sim);
        if (bare != e.collectives)
            printf("%s: %d collectives over tensor axes in a backward "
                   "iteration overlap no matmul\n", name, bare);
        CHECK(c, bare == e.collectives);
        check_step(c, p, &sim, name, e.gathers);
        check_bound(c, p, name);
    }
    arena_free(a);
}

/* ---- programs ------------------------------------------------------------ */

static const char two_stacks[] =
    "module Block(dim, hidden) {\n"
    "  up: Linear(dim, hidden, bias=false)\n"
    "  down: Linear(hidden, dim, bias=false)\n"
    "  forward(x) { return x + down(gelu(up(x))) }\n"
    "}\n"
    "model Net(vocab=32, dim=16) {\n"
    "  table: Embedding(vocab, dim)\n"
    "  large: [5] Block(dim, 4 * dim)\n"
    "  small: [3] Block(dim, dim)\n"
    "  head: Linear(dim, vocab, bias=false)\n"
    "  forward(tokens: int(vocab)[batch, seq],\n"
    "          labels: int(vocab)[batch, seq]) {\n"
    "    x = table(tokens)\n"
    "    for block in large { x = block(x) }\n"
    "    for block in small { x = block(x) }\n"
    "    return cross_entropy(head(x), labels)\n"
    "  }\n"
    "}\n"
    "plan a(dp) { fully_shard dp { table, large.*, small.*, head } }\n"
    "train { batch = 8\n seq = 4\n precision = bf16\n"
    " optimizer = AdamW(lr=0.1) }\n";

/* The layers are so large that the step's peak is in their backward pass. */
static void check_llama(Check *c, const char *mesh, const char *setting,
                        const char *clause, Expected e)
{
    const char *const define[] = {
        "vocab=48",   "dim=32",  "n_layers=9", "n_heads=4", "n_kv_heads=4",
        "hidden=128", "batch=12", "seq=4", setting,     NULL};
    Arena *a = arena_new();
    size_t size;
    const char *text = file_read(a, "examples/llama.pdl", &size);
    CHECK(c, text);
    const char *plan = text ? strstr(text, "    fully_shard") : NULL;
    CHECK(c, plan);
    if (plan)
        check_program(c, arena_printf(a, "%.*s    %s\n%s", (int)(plan - text),
                                      text, clause, plan),
                      mesh, define,
                      arena_printf(a, "llama on %s, %s", mesh, setting), e);
    arena_free(a);
}

int main(void)
{
    static const char *const settings[] = {"precision=f32", "precision=bf16"};
    static const char *const as_it_is[] = {NULL};
    Check c = {0};
    for (int s = 0; s < 2; s++) {
        check_llama(&c, "2x1", settings[s], "", (Expected){1, 0});
        check_llama(&c, "2x2", settings[s], "", (Expected){1, 2});
        check_llama(&c, "2x2", settings[s], "checkpoint { layers.* }",
                    (Expected){1, 3});
    }
    check_llama(&c, "2x1", "accumulate=3", "", (Expected){3, 0});
    check_llama(&c, "2x1", "head_chunk=12", "", (Expected){1, 0});
    check_program(&c, two_stacks, "2", as_it_is, "two stacks",
                  (Expected){1, 0});
    return check_end(&c);
}
