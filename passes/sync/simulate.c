/* simulate.c: simulates the order of issue and lists the memory accesses of
 * each statement; see simulate.h. */
#include "passes/sync/simulate.h"

#include "base/bug.h"
#include "ir/analysis/statement.h"
#include "ir/plan/pipeline.h"

#include <stdlib.h>

/* Loops with a longer period than this are simulated in full. */
enum { LONGEST_PERIOD = 64 };

typedef struct Simulator {
    const Program *p;
    int extra_periods;
    SlotCounts *slots; /* by op id of a loop: the numbers of buffers of values,
                        * and of slots of events, that its iterations use in
                        * rotation */
    const Op *loop[MAX_LOOP_DEPTH]; /* enclosing loops, outermost first */
    int64_t layer[MAX_LOOP_DEPTH];
    bool first[MAX_LOOP_DEPTH];
    int64_t skipped[MAX_LOOP_DEPTH]; /* iterations after this one that are
                                      * skipped */
    int depth;
    VEC(Instance) instance;
    VEC(Access) access;
} Simulator;

/* ---- accesses of a statement --------------------------------------------- */

static int64_t layer_of(const Simulator *t, const Op *loop)
{
    for (int i = 0; i < t->depth; i++)
        if (t->loop[i] == loop)
            return t->layer[i];
    bug("sync: a tensor is indexed by a loop that does not run");
}

/* The number of bytes that an access to v covers. If v is a parameter that
 * stays gathered: the runs of all its layers. */
static int64_t extent(const Simulator *t, const Value *v, const Address *at)
{
    if (!at->row)
        return type_local_bytes(&v->type, &t->p->mesh);
    return type_local_layers(&v->type, &t->p->mesh) * at->row;
}

/* The last simulated iteration before skipped ones also accesses the slices of
 * those, so that later accesses to those bytes are ordered after them. */
static void extend_over_skipped(const Simulator *t, const Op *loop,
                              int64_t stride, Access *a)
{
    for (int i = 0; i < t->depth; i++) {
        int64_t bytes = t->loop[i] == loop ? t->skipped[i] * stride : 0;
        if (attr_reverse(loop))
            a->begin -= bytes;
        else
            a->end += bytes;
    }
}

static void touch(Simulator *t, Value *v, bool write)
{
    v = value_root(v);
    const Address *at = value_address(v);
    if (at->block < 0)
        return;
    Access a = {.write = write, .value = v, .instance = t->instance.n,
                .begin = t->p->memory->block[at->block].offset};
    for (int i = 0; i < at->nstrides; i++) {
        int64_t layer = layer_of(t, at->loop[i]);
        a.begin += at->stride[i] *
                   (at->modulo[i] > 0 ? layer % at->modulo[i] : layer);
    }
    a.end = a.begin + extent(t, v, at);
    for (int i = 0; i < at->nstrides; i++)
        if (at->modulo[i] == 0)
            extend_over_skipped(t, at->loop[i], at->stride[i], &a);
    if (a.end > a.begin)
        vec_push(t->p->arena, &t->access, a);
}

static void touch_scratch(Simulator *t, const Op *op)
{
    int block = op->workspace;
    if (block < 0)
        return;
    const Block *b = &t->p->memory->block[block];
    Access a = {.begin = b->offset, .end = b->offset + b->bytes,
                .instance = t->instance.n, .write = true};
    vec_push(t->p->arena, &t->access, a);
}

/* An op that the `early` starts. */
static const Op *started_op(const Op *early)
{
    for (const Op *op = early->body->first; op; op = op->next)
        if (op->kind == OP_start)
            return attr_op(op);
    bug("sync: an op 'early' without an op 'start'");
}

/* Adds an instance of `statement`, which runs `op`. */
static void add_instance(Simulator *t, const Op *statement, const Op *op)
{
    Instance instance = {.op = op,
                         .statement = statement,
                         .stream = statement->stream,
                         .first_access = t->access.n,
                         .first = t->depth > 0 && t->first[t->depth - 1]};
    for (int i = 0; i < t->depth; i++)
        instance.iteration[i] = t->layer[t->depth - 1 - i];
    for (int i = 0; i < op->nargs; i++)
        touch(t, op->arg[i], false);
    for (int i = 0; i < op->nouts; i++)
        touch(t, op->out[i], true);
    touch_scratch(t, op);
    instance.naccesses = t->access.n - instance.first_access;
    vec_push(t->p->arena, &t->instance, instance);
}

/* Adds the start or the end of the step, as an access to the whole arena on the
 * compute stream. */
static void add_step_boundary(Simulator *t)
{
    Instance instance = {.first_access = t->access.n, .naccesses = 1};
    Access all = {.end = t->p->memory->extent + t->p->memory->host,
                  .instance = t->instance.n, .write = true};
    vec_push(t->p->arena, &t->access, all);
    vec_push(t->p->arena, &t->instance, instance);
}

/* ---- loops --------------------------------------------------------------- */

static int64_t least_multiple(int64_t a, int64_t b)
{
    return a / common_divisor(a, b) * b;
}

static void add_slots(Simulator *t, const Value *v)
{
    for (int i = 0; v->address && i < v->address->nstrides; i++)
        if (v->address->modulo[i] > 0)
            vec_push(t->p->arena, &t->slots[v->address->loop[i]->id],
                     v->address->modulo[i]);
}

static void add_slots_of(Simulator *t, Op *op)
{
    if (op->kind == OP_record && attr_loop(op))
        vec_push(t->p->arena, &t->slots[attr_loop(op)->id],
                 attr_slots(op));
    for (int i = 0; i < op->nouts; i++)
        add_slots(t, op->out[i]);
    for (int i = 0; op->body && i < op->body->nargs; i++)
        add_slots(t, op->body->arg[i]);
}

/* Lists the slots of all loops, so that a loop need not search all values. */
static void find_slots(Simulator *t, const SlotCounts *more)
{
    Arena *a = t->p->arena;
    t->slots = NEW_ARRAY(a, SlotCounts, t->p->nops);
    for_ops(op, t->p->step)
        add_slots_of(t, op);
    for (uint32_t i = 0; more && i < t->p->nops; i++)
        for (int k = 0; k < more[i].n; k++)
            vec_push(a, &t->slots[i], more[i].at[k]);
}

/* The number of iterations after which addresses and event slots repeat.
 * `ahead`: the largest prefetch distance in the loop; `left`: the largest number
 * of remaining iterations at which a hoisted statement is issued. */
static int64_t period_of(const Simulator *t, const Op *loop, int64_t *ahead,
                         int64_t *left)
{
    int64_t period = 2;
    *ahead = *left = 0;
    for (const Op *op = loop->body->first; op; op = op->next) {
        if (op->kind != OP_early)
            continue;
        int64_t n = attr_distance(op);
        int64_t last = attr_remaining(op);
        *ahead = n > *ahead ? n : *ahead;
        *left = last > *left ? last : *left;
        if (n > 0)
            period = least_multiple(period, n + 1);
    }
    const SlotCounts *slots = &t->slots[loop->id];
    for (int i = 0; i < slots->n && period <= LONGEST_PERIOD; i++)
        period = least_multiple(period, slots->at[i]);
    return period;
}

static void simulate_region(Simulator *t, const Region *r);

static void push_loop(Simulator *t, const Op *loop)
{
    if (t->depth == MAX_LOOP_DEPTH)
        ir_too_deep(t->p, loop->loc);
    t->loop[t->depth] = loop;
    t->first[t->depth] = false;
    t->skipped[t->depth] = 0;
    t->depth++;
}

static void set_iteration(Simulator *t, int64_t iteration)
{
    const Op *loop = t->loop[t->depth - 1];
    t->layer[t->depth - 1] =
        attr_reverse(loop) ? loop_rank_trips(t->p, loop) - 1 - iteration : iteration;
}

static void simulate_loop(Simulator *t, const Op *loop)
{
    int64_t ahead, left, trips = loop_rank_trips(t->p, loop);
    int64_t period = period_of(t, loop, &ahead, &left);
    if (loop->staged && t->p->streams > 1)
        period = 1; /* all streams join after each microbatch */
    int64_t head = (1 + t->extra_periods) * period + ahead + 1;
    int64_t tail = period + left + 1;
    int64_t skip = 0;
    if (period <= LONGEST_PERIOD && trips > head + tail)
        skip = (trips - head - tail) / period * period;
    push_loop(t, loop);
    for (int64_t iteration = 0; iteration < trips; iteration++) {
        if (iteration == head)
            iteration += skip;
        set_iteration(t, iteration);
        t->skipped[t->depth - 1] = iteration == head - 1 ? skip : 0;
        t->first[t->depth - 1] = iteration == 0;
        simulate_region(t, loop->body);
    }
    t->depth--;
}

/* The body of an `early`, whose ops are for the iteration that t->layer has. */
static void simulate_body(Simulator *t, const Op *early)
{
    for (const Op *op = early->body->first; op; op = op->next)
        add_instance(t, op, op->kind == OP_start ? attr_op(op) : op);
}

static void simulate_prefetch(Simulator *t, const Op *early)
{
    const Op *loop = t->loop[t->depth - 1];
    int64_t ahead = attr_distance(early), now = t->layer[t->depth - 1];
    int64_t then = attr_reverse(loop) ? now - ahead : now + ahead;
    if (then < 0 || then >= loop_rank_trips(t->p, loop))
        return;
    t->layer[t->depth - 1] = then;
    simulate_body(t, early);
    t->layer[t->depth - 1] = now;
}

static void simulate_iteration_of(Simulator *t, const Op *early)
{
    bool first = t->depth > 0 && t->first[t->depth - 1];
    push_loop(t, op_loop(started_op(early)));
    set_iteration(t, attr_iteration(early));
    t->first[t->depth - 1] = first;
    simulate_body(t, early);
    t->depth--;
}

/* Statements in one iteration of this loop that belong to another loop or to
 * none: their waits apply there unconditionally. */
static void simulate_across_loops(Simulator *t, const Op *early)
{
    int in = t->depth - 1, from = t->instance.n;
    const Op *loop = t->loop[in];
    int64_t layer = t->layer[in], skipped = t->skipped[in];
    bool first = t->first[in];
    int64_t left = attr_reverse(loop) ? layer : loop_rank_trips(t->p, loop) - 1 - layer;
    if (left != attr_remaining(early))
        return;
    t->depth--;
    if (attr_iteration(early) >= 0)
        simulate_iteration_of(t, early);
    else
        simulate_body(t, early);
    for (int i = from; i < t->instance.n; i++)
        t->instance.at[i].first = false;
    t->depth++;
    t->loop[in] = loop;
    t->layer[in] = layer;
    t->skipped[in] = skipped;
    t->first[in] = first;
}

static void simulate_early(Simulator *t, const Op *early)
{
    if (attr_remaining(early) >= 0)
        simulate_across_loops(t, early);
    else if (attr_iteration(early) >= 0)
        simulate_iteration_of(t, early);
    else
        simulate_prefetch(t, early);
}

static void simulate_region(Simulator *t, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next) {
        const Op *issued = op_issued_at(op);
        if (op->phase == PH_INIT)
            continue;
        if (op->kind == OP_loop)
            simulate_loop(t, op);
        else if (op->kind == OP_early)
            simulate_early(t, op);
        else if (issued || (op_is_schedule(op->kind) && op->kind != OP_post &&
                            op->kind != OP_await))
            add_instance(t, op, issued ? issued : op);
    }
}

/* ---- pieces of the arena ------------------------------------------------- */

static int by_value(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static int piece_at(const int64_t *cut, int n, int64_t byte)
{
    const int64_t *at = bsearch(&byte, cut, (size_t)n, sizeof *cut, by_value);
    return (int)(at - cut);
}

static int cut_arena(Arena *scratch, Access *access, int n)
{
    int64_t *cut = NEW_ARRAY(scratch, int64_t, 2 * n + 1);
    int ncuts = 0;
    for (int i = 0; i < n; i++) {
        cut[2 * i] = access[i].begin;
        cut[2 * i + 1] = access[i].end;
    }
    qsort(cut, 2 * (size_t)n, sizeof *cut, by_value);
    for (int i = 0; i < 2 * n; i++)
        if (ncuts == 0 || cut[ncuts - 1] != cut[i])
            cut[ncuts++] = cut[i];
    for (int i = 0; i < n; i++) {
        access[i].first = piece_at(cut, ncuts, access[i].begin);
        access[i].last = piece_at(cut, ncuts, access[i].end) - 1;
    }
    return ncuts;
}

Simulation simulate_step(const Program *p, const SlotCounts *slots,
                         int extra_periods)
{
    Simulator t = {.p = p, .extra_periods = extra_periods};
    find_slots(&t, slots);
    add_step_boundary(&t);
    simulate_region(&t, p->step);
    add_step_boundary(&t);
    Simulation sim = {.instance = t.instance.at,
                      .n = t.instance.n,
                      .access = t.access.at,
                      .naccesses = t.access.n};
    sim.npieces = cut_arena(p->arena, sim.access, sim.naccesses);
    return sim;
}

/* ---- events -------------------------------------------------------------- */

bool instance_iteration_in(const Instance *instance, const Op *loop,
                           int64_t *iteration)
{
    const Op *early =
        instance->statement ? op_early(instance->statement) : NULL;
    const Op *op = early ? started_op(early) : instance->op;
    const Op *owner = op ? op_loop(op) : NULL;
    for (int i = 0; owner && loop; i++, owner = op_loop(owner))
        if (owner == loop) {
            *iteration = instance->iteration[i];
            return true;
        }
    return false;
}

int64_t instance_iteration(const Instance *instance)
{
    return instance->iteration[0];
}

int instance_event_slot(const Instance *instance)
{
    const Op *op = instance->op;
    int64_t iteration, slots = attr_slots(op);
    int64_t offset = op->kind == OP_wait ? attr_offset(op) : 0;
    bool rotates =
        slots > 1 &&
        instance_iteration_in(instance, attr_loop(op), &iteration);
    return (int)(attr_event(op) +
                 (rotates ? (iteration + offset) % slots : offset));
}

int program_event_slots(const Program *p)
{
    int64_t n = 0;
    for_ops(op, p->step)
        if (op->kind == OP_record || op->kind == OP_wait ||
            op->kind == OP_post) {
            int64_t stages = op->kind == OP_post ? rank_stages(p) : 1;
            int64_t end = attr_event(op) + attr_slots(op) * stages;
            n = end > n ? end : n;
        }
    return (int)n;
}
