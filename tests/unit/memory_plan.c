/* memory_plan.c: checks the memory plan from first principles.
 *
 *   memory_plan [--count N] [--seed S]
 *
 * Examples and random programs are planned for both targets. Then the test
 * executes their steps iteration by iteration, without numbers: every result
 * is a row of unique stamps, written to the address that the plan gives. The
 * bytes that an op reads must still hold the stamps of the operand that it
 * names. Scratch is overwritten before and after its op. Two steps run in
 * sequence, since constants and parameters must survive a step. The test uses
 * none of the plan's live ranges.
 *
 * These executions follow program order. With streams, steps are also executed
 * in orders in which streams overlap as far as events allow, and in random
 * legal orders (follow_streams.c). If a wait is removed, one of these orders
 * must reveal it.
 *
 * Also checked: the peak is the end of the highest block, blocks with
 * overlapping live ranges do not overlap in memory, and the lower bound is the
 * largest number of live bytes.
 */
#include "base/file.h"
#include "codegen/target/target.h"
#include "ir/analysis/alias.h"
#include "ir/units.h"
#include "passes/memory/memory.h"
#include "passes/fsdp/offload.h"
#include "tests/unit/check.h"
#include "tests/unit/follow_streams.h"
#include "tests/unit/pdl_program.h"
#include "tests/unit/random.h"
#include "tests/unit/random_seeds.h"

#include <stdlib.h>
#include <string.h>

/* The smallest element is two bytes. */
enum { WORD = 2, STEPS = 2 };

typedef struct Content {
    uint64_t *stamp;
    int64_t n; /* words */
} Content;

typedef struct Walk {
    const Program *p;
    const TargetInfo *t;
    const MemoryPlan *plan;
    Arena *arena;
    uint64_t *word;    /* the arena */
    Content *content;  /* by value id, of roots: the value's stamps */
    int64_t *layer;    /* by op id of loops: the current layer */
    Content *assigned; /* by parameter: its new value in this step, or empty */
    int64_t rank;      /* the simulated rank */
    uint64_t next;     /* stamp */
    const char *fault; /* the first */
} Walk;

#define FAULT(w, ...)                                                          \
    ((w)->fault =                                                              \
         (w)->fault ? (w)->fault : arena_printf((w)->arena, __VA_ARGS__))

/* ---- addresses --------------------------------------------------------- */

/* The words of a value as one rank computes it. */
static int64_t words_of(const Walk *w, const Value *v)
{
    return type_local_bytes(&v->type, &w->p->mesh) / WORD;
}

/* The offset of word i of a value from its beginning: layers of a resident
 * parameter have gaps between them. */
static int64_t word_of(const Walk *w, const Value *v, int64_t i)
{
    const Address *at = value_address(v);
    int64_t layer = type_flat_run(&v->type, &w->p->mesh) *
                    dtype_size(v->type.dtype) / WORD;
    return at->row ? i / layer * (at->row / WORD) + i % layer : i;
}

/* The index of the rank's run in a layer of a resident parameter, else 0. */
static int64_t cut_index(const Walk *w, const Address *at)
{
    int64_t index = 0;
    for (int a = 0; a < w->p->mesh.n; a++)
        if (at->cut >> a & 1)
            index = index * w->p->mesh.size[a] +
                    mesh_coord(&w->p->mesh, w->rank, a);
    return index;
}

/* The word at which the value begins in this iteration; -1: no memory. */
static int64_t place_of(Walk *w, Value *v)
{
    v = value_root(v);
    const Address *at = value_address(v);
    if (at->block < 0)
        return -1;
    const Block *b = &w->plan->block[at->block];
    int64_t offset = 0;
    for (int i = 0; i < at->nstrides; i++) {
        int64_t layer = w->layer[at->loop[i]->id];
        offset +=
            at->stride[i] * (at->modulo[i] > 0 ? layer % at->modulo[i] : layer);
    }
    offset += cut_index(w, at) * at->run;
    if (offset < 0 ||
        offset + (word_of(w, v, words_of(w, v) - 1) + 1) * WORD > b->bytes)
        FAULT(w, "%%%s leaves its block '%s'", v->name, b->name);
    return (b->offset + offset) / WORD;
}

static void tread_on(Walk *w, int block)
{
    if (block < 0)
        return;
    const Block *b = &w->plan->block[block];
    for (int64_t i = 0; i < b->bytes / WORD; i++)
        w->word[b->offset / WORD + i] = w->next++;
}

/* ---- values ------------------------------------------------------------ */

static Content *content_of(Walk *w, Value *v)
{
    v = value_root(v);
    Content *c = &w->content[v->id];
    if (!c->stamp) {
        c->n = words_of(w, v);
        c->stamp = NEW_ARRAY(w->arena, uint64_t, c->n + 1);
    }
    return c;
}

static void take_content(Walk *w, Value *to, int64_t to_at, Value *from,
                         int64_t from_at, int64_t n)
{
    Content *c = content_of(w, to), *d = content_of(w, from);
    if (to_at + n > c->n || from_at + n > d->n)
        FAULT(w, "%%%s and %%%s differ in size", to->name, from->name);
    else
        memcpy(c->stamp + to_at, d->stamp + from_at,
               sizeof *c->stamp * (size_t)n);
}

/* Gives the value new stamps and writes them to the arena. */
static void write_value(Walk *w, Value *v)
{
    Content *c = content_of(w, v);
    int64_t at = place_of(w, v);
    if (w->fault || at < 0)
        return;
    for (int64_t i = 0; i < c->n; i++)
        w->word[at + word_of(w, value_root(v), i)] = c->stamp[i] = w->next++;
}

/* Checks that the arena holds the stamps of `c` at the address of `where`. */
static void expect(Walk *w, const Op *op, const Content *c, Value *where)
{
    int64_t at = place_of(w, where);
    if (w->fault)
        return;
    if (at < 0) {
        FAULT(w, "%s: %%%s has no memory", op ? op_info(op->kind)->name : "end",
              where->name);
        return;
    }
    for (int64_t i = 0; i < c->n; i++)
        if (w->word[at + word_of(w, value_root(where), i)] != c->stamp[i]) {
            FAULT(w, "%s %%%s: byte %lld of %%%s has been overwritten",
                  op ? op_info(op->kind)->name : "end of step",
                  op && op->nouts ? op->out[0]->name : "",
                  (long long)(i * WORD), where->name);
            return;
        }
}

static void expect_all(Walk *w, const Op *op, int n, Value *const *v)
{
    for (int i = 0; i < n && !w->fault; i++)
        expect(w, op, content_of(w, v[i]), v[i]);
}

/* ---- ops --------------------------------------------------------------- */

/* A result may overlap only an operand that it may overwrite. */
static void check_in_place(Walk *w, const Op *op)
{
    for (int o = 0; o < op->nouts; o++)
        for (int i = 0; i < op->nargs && !w->fault; i++) {
            int64_t to = place_of(w, op->out[o]);
            int64_t from = place_of(w, op->arg[i]);
            if (to >= from + words_of(w, op->arg[i]) ||
                from >= to + words_of(w, op->out[o]) ||
                (o < op->nargs && op->arg[o] == op->arg[i] &&
                 value_gathered_from(w->p, op->out[o])))
                continue;
            if (to != from || !w->t->in_place(w->p, op, o, i))
                FAULT(w, "%s %%%s overwrites its operand %%%s",
                      op_info(op->kind)->name, op->out[o]->name,
                      op->arg[i]->name);
        }
}

/* The n-th unit gather after `from` in the loop's order; `iterations`: how many
 * iterations later it runs. */
static const Op *gather_after(const Op *from, int64_t n, int64_t *iterations)
{
    const Op *op = from;
    *iterations = 0;
    while (n > 0) {
        op = op->next;
        *iterations += op == NULL;
        op = op ? op : from->region->first;
        n -= op_is_unit_gather(op);
    }
    return op;
}

/* Simulates hoisted gathers. With each gather, those with prefetch distance n
 * that are n gathers later are issued; they write the slots of their own
 * iterations. */
static void gather_ahead(Walk *w, const Op *op)
{
    const Op *loop = op->region->owner;
    int64_t now = w->layer[loop->id], iterations;
    for (int64_t n = 1; n <= 16; n++) {
        const Op *later = gather_after(op, n, &iterations);
        int64_t layer =
            attr_reverse(loop) ? now - iterations : now + iterations;
        if (attr_prefetch(later) != n || layer < 0 || layer >= loop_trips(loop))
            continue;
        w->layer[loop->id] = layer;
        for (int i = 0; i < later->nouts; i++) {
            Value *v = later->out[i];
            int64_t at = place_of(w, v);
            for (int64_t k = 0; k < words_of(w, v) && !w->fault; k++)
                if (!value_gathered_from(w->p, v))
                    w->word[at + k] = w->next++;
        }
        w->layer[loop->id] = now;
    }
}

/* Simulates a fetch that no gather reads: it is issued as many iterations early
 * as its prefetch distance says, and writes its own iteration's slot. */
static void fetch_ahead(Walk *w, const Op *op)
{
    const Op *loop = op->region->owner;
    if (!loop || attr_prefetch(op) == 0 || fetch_gather(op))
        return;
    int64_t now = w->layer[loop->id], iterations = attr_prefetch(op);
    int64_t layer = attr_reverse(loop) ? now - iterations : now + iterations;
    if (layer < 0 || layer >= loop_trips(loop))
        return;
    w->layer[loop->id] = layer;
    int64_t at = place_of(w, op->out[0]);
    for (int64_t k = 0; k < words_of(w, op->out[0]) && !w->fault; k++)
        w->word[at + k] = w->next++;
    w->layer[loop->id] = now;
}

/* Simulates a gather into the buffer that holds its shard: the shard is
 * unchanged, and so are the other runs in memory that ranks share. */
static void write_gathered(Walk *w, const Op *op, int i)
{
    Value *to = op->out[i], *from = op->arg[i];
    Content *c = content_of(w, to), *d = content_of(w, from);
    int64_t run = type_flat_run(&from->type, &w->p->mesh) *
                  dtype_size(from->type.dtype) / WORD;
    int64_t row = type_flat_run(&to->type, &w->p->mesh) *
                  dtype_size(to->type.dtype) / WORD;
    int64_t first = run * cut_index(w, value_address(from));
    int64_t at = place_of(w, to);
    bool in_place = value_in_place(op->out[i]);
    for (int64_t k = 0; k < c->n && !w->fault; k++) {
        int64_t own = k % row - first;
        bool mine = own >= 0 && own < run;
        uint64_t *word = &w->word[at + word_of(w, value_root(to), k)];
        c->stamp[k] = mine       ? d->stamp[k / row * run + own]
                      : in_place ? *word
                                 : w->next++;
        *word = in_place ? *word : c->stamp[k];
    }
}

/* Other ranks have written their runs of shared parameters. */
static void write_others(Walk *w)
{
    for (int i = 0; i < w->p->param.n; i++) {
        const Param *pm = &w->p->param.at[i];
        if (!pm->shared || !pm->value)
            continue;
        const Block *b = &w->plan->block[value_address(pm->value)->block];
        for (int64_t k = 0; k < b->bytes / WORD; k++)
            w->word[b->offset / WORD + k] = w->next++;
        const Content *c = content_of(w, pm->value);
        int64_t at = place_of(w, pm->value);
        for (int64_t k = 0; k < c->n; k++)
            w->word[at + word_of(w, pm->value, k)] = c->stamp[k];
    }
}

static void run_plain(Walk *w, const Op *op)
{
    int scratch = op->workspace;
    int64_t wanted = w->t->workspace(w->p, op, w->t);
    if (wanted > (scratch < 0 ? 0 : w->plan->block[scratch].bytes))
        FAULT(w, "%s lacks scratch", op_info(op->kind)->name);
    tread_on(w, scratch);
    expect_all(w, op, op->nargs, op->arg);
    check_in_place(w, op);
    for (int i = 0; i < op->nouts; i++)
        if (value_gathered_from(w->p, op->out[i]))
            write_gathered(w, op, i);
        else
            write_value(w, op->out[i]);
    tread_on(w, scratch);
    expect_all(w, op, op->nouts, op->out);
    if (op->kind == OP_fetch && !w->fault)
        fetch_ahead(w, op);
    if (op_is_unit_gather(op) && op->region->owner && !w->fault)
        gather_ahead(w, op);
}

static void run_region(Walk *w, const Region *r, Phase phase);

static void enter_loop(Walk *w, const Op *loop)
{
    const Region *body = loop->body;
    for (int i = 0; i < loop->nargs && !w->fault; i++) {
        if (i >= loop->ncarry && i < loop->ncarry + loop->nstack)
            continue;
        take_content(w, body->arg[i], 0, loop->arg[i], 0,
                     words_of(w, body->arg[i]));
        if (i < loop->ncarry)
            expect(w, loop, content_of(w, body->arg[i]), body->arg[i]);
    }
}

/* Passes carries to the next iteration and keeps the stacked results. All
 * carries are copied first, as one may be another's argument. */
static void end_iteration(Walk *w, const Op *loop, int64_t layer)
{
    const Region *body = loop->body;
    Content *next = NEW_ARRAY(w->arena, Content, loop->ncarry + 1);
    for (int i = 0; i < loop->ncarry && !w->fault; i++) {
        const Content *c = content_of(w, body->yield[i]);
        expect(w, loop, c, body->arg[i]);
        next[i].n = c->n;
        next[i].stamp =
            arena_copy(w->arena, c->stamp, sizeof *c->stamp * (size_t)c->n);
    }
    for (int i = 0; i < loop->ncarry && !w->fault; i++)
        *content_of(w, body->arg[i]) = next[i];
    for (int i = loop->ncarry; i < loop->nouts && !w->fault; i++) {
        int64_t n = words_of(w, body->yield[i]);
        take_content(w, loop->out[i], layer * n, body->yield[i], 0, n);
    }
}

static void run_loop(Walk *w, const Op *loop)
{
    const Region *body = loop->body;
    int64_t iterations = loop_trips(loop);
    enter_loop(w, loop);
    for (int64_t iteration = 0; iteration < iterations && !w->fault;
         iteration++) {
        int64_t layer =
            attr_reverse(loop) ? iterations - 1 - iteration : iteration;
        w->layer[loop->id] = layer;
        for (int i = loop->ncarry; i < loop->ncarry + loop->nstack; i++) {
            int64_t n = words_of(w, body->arg[i]);
            take_content(w, body->arg[i], 0, loop->arg[i], layer * n, n);
        }
        run_region(w, body, loop->phase);
        end_iteration(w, loop, layer);
    }
    for (int i = 0; i < loop->ncarry && !w->fault; i++)
        take_content(w, loop->out[i], 0, body->arg[i], 0,
                     words_of(w, body->arg[i]));
    expect_all(w, loop, loop->nouts, loop->out);
}

static void run_op(Walk *w, const Op *op)
{
    if (op->kind == OP_param || op->kind == OP_input || op->kind == OP_scalar ||
        op->kind == OP_output || op_is_view(op->kind))
        return;
    if (op->kind == OP_loop)
        run_loop(w, op);
    else if (op->kind == OP_assign)
        w->assigned[attr_param(op)] = *content_of(w, op->arg[0]);
    else
        run_plain(w, op);
}

/* Runs a region as emitted code does: phase by phase, but loops as a whole. */
static void run_region(Walk *w, const Region *r, Phase phase)
{
    for (const Op *op = r->first; op && !w->fault; op = op->next)
        if (op->phase == phase || r->owner)
            run_op(w, op);
}

/* ---- steps ------------------------------------------------------------- */

static void set_outside(Walk *w, OpKind kind)
{
    for (const Op *op = w->p->step->first; op; op = op->next)
        if (op->kind == kind)
            write_value(w, op->out[0]);
}

/* New parameters must be at the addresses of the old ones, and the log's
 * numbers at theirs. */
static void end_step(Walk *w)
{
    for (int i = 0; i < w->p->param.n && !w->fault; i++) {
        Value *v = w->p->param.at[i].value;
        Content *new = &w->assigned[i];
        if (!v)
            continue;
        if (new->stamp)
            memcpy(content_of(w, v)->stamp, new->stamp,
                   sizeof *new->stamp *(size_t) new->n);
        *new = (Content){0};
        expect(w, NULL, content_of(w, v), v);
    }
    for (const Op *op = w->p->step->first; op && !w->fault; op = op->next)
        if (op->kind == OP_output)
            expect_all(w, op, op->nargs, op->arg);
}

static const char *check_step(const Program *p, const TargetInfo *t)
{
    const MemoryPlan *plan = p->memory;
    Walk w = {.p = p, .t = t, .plan = plan, .arena = p->arena, .next = 1};
    w.rank = p->nvalues % mesh_ranks(&p->mesh);
    w.word = NEW_ARRAY(p->arena, uint64_t, (plan->extent + plan->host) / WORD + 1);
    w.content = NEW_ARRAY(p->arena, Content, p->nvalues + 1);
    w.layer = NEW_ARRAY(p->arena, int64_t, p->nops + 1);
    w.assigned = NEW_ARRAY(p->arena, Content, p->param.n + 1);
    set_outside(&w, OP_param);
    run_region(&w, p->step, PH_INIT);
    for (int step = 0; step < STEPS && !w.fault; step++) {
        set_outside(&w, OP_input);
        set_outside(&w, OP_scalar);
        write_others(&w);
        for (Phase phase = PH_FORWARD; phase <= PH_OPTIMIZER; phase++)
            run_region(&w, p->step, phase);
        end_step(&w);
    }
    return w.fault;
}

/* ---- blocks ------------------------------------------------------------ */

static int64_t live_bytes(const MemoryPlan *plan, int time)
{
    int64_t bytes = 0;
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].first <= time && time <= plan->block[i].last)
            bytes += plan->block[i].counted;
    return bytes;
}

static const char *check_bounds(const Program *p)
{
    const MemoryPlan *plan = p->memory;
    int64_t most = 0, sum = 0;
    for (int time = 0; time < plan->end; time++) {
        int64_t bytes = live_bytes(plan, time);
        most = bytes > most ? bytes : most;
    }
    for (int i = 0; i < MEM_CLASSES; i++)
        sum += plan->at_peak[i];
    if (plan->lower_bound != most)
        return "the lower bound is not the fullest moment";
    if (sum != most || live_bytes(plan, plan->peak_time) != most)
        return "the classes at the peak do not add up";
    return plan->lower_bound > plan->peak ? "the lower bound is above the peak"
                                          : NULL;
}

/* Whether the block is in the memory that its kind requires: host memory; the
 * rank's own part of the arena, counted in full; or the segment of the ranks
 * that share it, each of which counts its part. */
static bool lies_in_segment(const Program *p, const Block *b)
{
    const MemoryPlan *plan = p->memory;
    int64_t ranks = 1;
    if (b->host)
        return b->offset >= plan->extent && b->counted == 0 &&
               b->offset + b->bytes <= plan->extent + plan->host;
    if (!b->shared)
        return b->offset + b->bytes <= plan->own && b->counted == b->bytes;
    for (int a = 0; a < p->mesh.n; a++)
        ranks *= b->shared >> a & 1 ? p->mesh.size[a] : 1;
    for (int i = 0; i < plan->nsegments; i++) {
        const Segment *s = &plan->segment[i];
        if (s->axes == b->shared)
            return b->offset >= s->offset && s->offset >= plan->own &&
                   b->offset + b->bytes <= s->offset + s->bytes &&
                   b->counted * ranks == b->bytes && b->first == 0 &&
                   b->last == plan->end - 1;
    }
    return false;
}

/* The end of the rank's own part of the arena, which is large enough for the
 * side programs; `own`: what the training step needs. */
static int64_t raised_by_forward(const Program *p, int64_t own)
{
    for (int k = 0; k < PURPOSES; k++) {
        const MemoryPlan *m = p->side[k] ? p->side[k]->memory : NULL;
        for (int i = 0; m && i < m->nblocks; i++) {
            const Block *b = &m->block[i];
            if (!b->host && !b->shared && b->offset + b->bytes > own)
                own = b->offset + b->bytes;
        }
    }
    return own;
}

static const char *check_blocks(const Program *p, const TargetInfo *t)
{
    const MemoryPlan *plan = p->memory;
    int64_t own = 0, end = 0, counted = 0, host = 0;
    for (int i = 0; i < plan->nblocks; i++) {
        const Block *b = &plan->block[i];
        if (!b->host && b->offset + b->bytes > end)
            end = b->offset + b->bytes;
        if (b->host)
            host += b->bytes;
        else if (!b->shared)
            own = b->offset + b->bytes > own ? b->offset + b->bytes : own;
        else
            counted += b->counted;
        if (!lies_in_segment(p, b))
            return arena_printf(p->arena, "block '%s' is not where ranks "
                                "share it, or not counted so", b->name);
        if (b->offset < 0 || b->offset % t->alignment || b->first > b->last)
            return arena_printf(p->arena, "block '%s' is ill-placed", b->name);
        for (int k = 0; k < i; k++) {
            const Block *c = &plan->block[k];
            if (b->first <= c->last && c->first <= b->last &&
                b->offset < c->offset + c->bytes &&
                c->offset < b->offset + b->bytes)
                return arena_printf(p->arena, "blocks '%s' and '%s' overlap",
                                    c->name, b->name);
        }
    }
    if (p->training) /* parts of the arena are the training step's */
        return NULL;
    if (plan->host != host)
        return "host memory is not the sum of its blocks";
    int64_t highest = own;
    own = raised_by_forward(p, own);
    if (plan->own != own || plan->extent != (end > own ? end : own))
        return "the arena does not end where its highest block does";
    return plan->peak != highest + counted
               ? "the peak is not the arena's end and a share of the rest"
               : check_bounds(p);
}

/* ---- programs ---------------------------------------------------------- */

enum { DRAWN_ORDERS = 8 };

/* NULL, or the first fault that one of the orders shows. */
static const char *try_orders(const Program *p, const Op *without)
{
    const char *fault = NULL;
    for (uint64_t i = 0; i < FOLLOW_FIXED + DRAWN_ORDERS && !fault; i++)
        fault = follow_streams(p, i, without);
    return fault;
}

static const char *check_one(const Program *p, const TargetInfo *t)
{
    const char *fault = check_blocks(p, t);
    fault = fault ? fault : check_step(p, t);
    return fault || t->streams < 2 ? fault : try_orders(p, NULL);
}

static const char *check_plan(const Program *p, const TargetInfo *t)
{
    const char *fault = check_one(p, t);
    for (int k = 0; k < PURPOSES && !fault; k++)
        if (p->side[k])
            fault = check_one(p->side[k], t);
    return fault;
}

/* Waits whose removal no order reveals, and all waits. */
typedef struct Unmissed {
    const Program *p;
    int found, n;
} Unmissed;

static void try_without(Op *op, void *context)
{
    Unmissed *u = context;
    if (op->kind != OP_wait)
        return;
    u->found += try_orders(u->p, op) == NULL;
    u->n++;
}

static SeedResult run_seed(void *context, uint64_t seed)
{
    (void)context;
    Arena *a = arena_new();
    Program *p = ir_program(a, diag_new(a, COLOR_NEVER));
    Rng r = {seed};
    uint32_t data_axes = random_mesh(p, &r, NULL);
    random_model(p, &r, data_axes);
    random_plan(p, &r, data_axes);
    random_side(p);
    Target target = rng_chance(&r, 50) ? TARGET_CPU : TARGET_CUDA;
    TargetInfo t = target_info(target, (int)rng_pick(&r, 1, 1, 2));
    const char *fault = run_all_passes(p, &t);
    bool refused = fault && random_may_refuse(fault);
    if (!fault)
        fault = check_plan(p, &t);
    if (fault && !refused)
        printf("seed %llu: %s\n", (unsigned long long)seed, fault);
    arena_free(a);
    return refused ? SEED_REFUSED : fault ? SEED_FAILED : SEED_PASSED;
}

/* ---- examples ---------------------------------------------------------- */

static const char *const small_llama[] = {
    "vocab=48",  "dim=16",  "n_layers=3", "n_heads=4",     "n_kv_heads=2",
    "hidden=40", "batch=8", "seq=8",      "precision=f32", NULL};
static const char *const small_gpt2[] = {
    "vocab=48",      "dim=16",  "n_layers=3", "n_heads=4",     "dropout=0.1",
    "n_positions=8", "batch=8", "seq=8",      "precision=f32", NULL};
static const char *const small_transformer[] = {
    "vocab=48",  "dim=16",  "n_layers=2", "n_heads=4",
    "hidden=32", "batch=8", "seq=5",      NULL};
static const char *const small_vit[] = {
    "classes=6", "size=8", "patch=4", "dim=16", "n_layers=2", "n_heads=4",
    "hidden=32", "batch=8", "precision=f32", NULL};
static const char *const small_translation[] = {
    "vocab=48", "dim=16", "n_layers=2", "n_heads=4", "hidden=32",
    "batch=8", "seq=8", "src_seq=12", "precision=f32", NULL};
static const char *const small_network[] = {"dim=16", "hidden=48", NULL};
static const char *const as_it_is[] = {NULL};

static const struct {
    const char *file;
    const char *plan;
    const char *const *define;
} examples[] = {
    {"examples/toy.pdl", NULL, as_it_is},
    {"examples/feedforward.pdl", NULL, small_network},
    {"examples/llama.pdl", NULL, small_llama},
    {"examples/gpt2.pdl", NULL, small_gpt2},
    {"examples/transformer.pdl", "tensor_parallel", small_transformer},
    {"examples/vit.pdl", NULL, small_vit},
    {"examples/translation.pdl", NULL, small_translation},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

static Program *read_example(Arena *a, Diag *d, int i, const char *mesh)
{
    size_t size;
    const char *text = file_read(a, examples[i].file, &size);
    return text ? pdl_programs(a, d, text, mesh, examples[i].plan,
                              examples[i].define)
                : NULL;
}

static void check_example(Check *c, int i, const char *mesh, Target target)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    Program *p = read_example(a, d, i, mesh);
    TargetInfo t = target_info(target, 2);
    const char *fault = "it cannot be compiled";
    if (p && !run_all_passes(p, &t))
        fault = check_plan(p, &t);
    diag_flush(d, stdout);
    if (fault)
        printf("%s on %s: %s\n", examples[i].file, mesh, fault);
    CHECK(c, !fault);
    arena_free(a);
}

/* Some order must need each wait. */
static void check_waits(Check *c)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    Program *p = read_example(a, d, 2, "2x2");
    TargetInfo t = target_info(TARGET_CUDA, 1);
    Unmissed u = {.p = p};
    if (p && !run_all_passes(p, &t))
        ir_walk(p->step, try_without, &u);
    printf("%d waits left out, %d unnoticed\n", u.n, u.found);
    CHECK(c, u.n > 10 && u.found == 0);
    arena_free(a);
}

static void check_examples(Check *c)
{
    static const char *const mesh[] = {"1x1", "2x1", "1x2", "2x2", "4x2"};
    for (int i = 0; i < EXAMPLES; i++)
        for (size_t k = 0; k < sizeof mesh / sizeof *mesh; k++) {
            check_example(c, i, mesh[k], TARGET_CPU);
            check_example(c, i, mesh[k], TARGET_CUDA);
        }
}

int main(int argc, char **argv)
{
    Check c = {0};
    SeedRuns runs = {.count = few_or_all(8, 200),
                     .seed = 1,
                     .refused_percent = 15,
                     .run = run_seed};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            runs.seed = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--count") == 0)
            runs.count = atoll(argv[i + 1]);
    }
    if (runs.count > 1) {
        check_examples(&c);
        check_waits(&c);
    }
    runs.passed = c.passed;
    runs.failed = c.failed;
    return run_seeds(&runs);
}
