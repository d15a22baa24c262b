/* trace.c: simulates the order of issue and lists the memory accesses of each
 * statement; see trace.h. */
#include "passes/sync/trace.h"

#include "base/bug.h"

#include <stdlib.h>

/* Loops with a longer period than this are simulated in full. */
enum { LONGEST_PERIOD = 64 };

typedef struct Tracer {
    const Program *p;
    int more;
    TraceSlots *slots; /* by loop's op id: in how many buffers of a value, or slots
                     * of an event, its iterations rotate */
    const Op *loop[MAX_LOOP_DEPTH]; /* enclosing loops, outermost first */
    int64_t layer[MAX_LOOP_DEPTH];
    bool first[MAX_LOOP_DEPTH];
    int64_t skipped[MAX_LOOP_DEPTH]; /* iterations after this one that are
                                      * skipped */
    int depth;
    VEC(Act) act;
    VEC(Access) access;
} Tracer;

/* ---- accesses of a statement --------------------------------------------- */

static int64_t layer_of(const Tracer *t, const Op *loop)
{
    for (int i = 0; i < t->depth; i++)
        if (t->loop[i] == loop)
            return t->layer[i];
    bug("trace: a tensor is indexed by a loop that does not run");
}

/* The bytes that an access of v touches: of a parameter that stays gathered all
 * runs of its layers. */
static int64_t extent(const Tracer *t, const Value *v, const Place *at)
{
    int64_t layers = 1;
    if (!at->row)
        return type_local_bytes(&v->type, &t->p->mesh);
    for (int i = 0; i < v->type.nstack; i++)
        layers *= v->type.stack[i];
    return layers * at->row;
}

/* The last iteration before skipped ones also accesses their slices, so that
 * later accesses to those bytes are ordered after them. */
static void stand_for_skipped(const Tracer *t, const Op *loop, int64_t stride,
                              Access *a)
{
    for (int i = 0; i < t->depth; i++) {
        int64_t bytes = t->loop[i] == loop ? t->skipped[i] * stride : 0;
        if (loop_reverse(loop))
            a->begin -= bytes;
        else
            a->end += bytes;
    }
}

static void touch(Tracer *t, Value *v, bool write)
{
    v = value_root(v);
    const Place *at = value_place(v);
    if (at->block < 0)
        return;
    Access a = {.write = write, .value = v,
                .begin = t->p->memory->block[at->block].offset};
    for (int i = 0; i < at->nstrides; i++) {
        int64_t layer = layer_of(t, at->loop[i]);
        a.begin += at->stride[i] *
                   (at->modulo[i] > 0 ? layer % at->modulo[i] : layer);
    }
    a.end = a.begin + extent(t, v, at);
    for (int i = 0; i < at->nstrides; i++)
        if (at->modulo[i] == 0)
            stand_for_skipped(t, at->loop[i], at->stride[i], &a);
    if (a.end > a.begin)
        vec_push(t->p->arena, &t->access, a);
}

static void touch_scratch(Tracer *t, const Op *op)
{
    int block = op->workspace;
    if (block < 0)
        return;
    const Block *b = &t->p->memory->block[block];
    Access a = {.begin = b->offset, .end = b->offset + b->bytes,
                .write = true};
    vec_push(t->p->arena, &t->access, a);
}

/* An op that the `early` starts. */
static const Op *started_op(const Op *early)
{
    for (const Op *op = early->body->first; op; op = op->next)
        if (op->kind == OP_start)
            return op_attr(op, "op").o;
    bug("trace: an early without a start");
}

/* Adds an instance of the statement `at`, which runs `op`. */
static void add_act(Tracer *t, const Op *at, const Op *op)
{
    Act act = {.op = op, .at = at, .stream = at->stream,
               .access = t->access.n,
               .first = t->depth > 0 && t->first[t->depth - 1]};
    for (int i = 0; i < t->depth; i++)
        act.turn[i] = t->layer[t->depth - 1 - i];
    for (int i = 0; i < op->nargs; i++)
        touch(t, op->arg[i], false);
    for (int i = 0; i < op->nouts; i++)
        touch(t, op->out[i], true);
    touch_scratch(t, op);
    act.naccesses = t->access.n - act.access;
    vec_push(t->p->arena, &t->act, act);
}

/* The begin and end of a step access the whole arena on the compute stream. */
static void add_border(Tracer *t)
{
    Act act = {.access = t->access.n, .naccesses = 1};
    Access all = {.end = t->p->memory->extent + t->p->memory->host,
                  .write = true};
    vec_push(t->p->arena, &t->access, all);
    vec_push(t->p->arena, &t->act, act);
}

/* ---- loops --------------------------------------------------------------- */

static int64_t least_multiple(int64_t a, int64_t b)
{
    return a / common_divisor(a, b) * b;
}

static void add_slots(Tracer *t, const Value *v)
{
    for (int i = 0; v->place && i < v->place->nstrides; i++)
        if (v->place->modulo[i] > 0)
            vec_push(t->p->arena, &t->slots[v->place->loop[i]->id],
                     v->place->modulo[i]);
}

static void add_slots_of(Tracer *t, Op *op)
{
    if (op->kind == OP_record && op_attr(op, "loop").o)
        vec_push(t->p->arena, &t->slots[op_attr(op, "loop").o->id],
                 op_attr(op, "slots").i);
    for (int i = 0; i < op->nouts; i++)
        add_slots(t, op->out[i]);
    for (int i = 0; op->body && i < op->body->nargs; i++)
        add_slots(t, op->body->arg[i]);
}

/* Lists the slots of all loops, so that a loop need not search all values. */
static void find_slots(Tracer *t, const TraceSlots *more)
{
    Arena *a = t->p->arena;
    t->slots = NEW_ARRAY(a, TraceSlots, t->p->nops);
    for_ops(op, t->p->step)
        add_slots_of(t, op);
    for (uint32_t i = 0; more && i < t->p->nops; i++)
        for (int k = 0; k < more[i].n; k++)
            vec_push(a, &t->slots[i], more[i].at[k]);
}

/* The number of iterations after which addresses and event slots repeat.
 * `ahead`: the largest prefetch distance in the loop; `left`: the most remaining
 * iterations at which a hoisted statement is issued. */
static int64_t period_of(const Tracer *t, const Op *loop, int64_t *ahead,
                         int64_t *left)
{
    int64_t period = 2;
    *ahead = *left = 0;
    for (const Op *op = loop->body->first; op; op = op->next) {
        if (op->kind != OP_early)
            continue;
        int64_t n = op_attr(op, "distance").i;
        int64_t last = op_attr(op, "remaining").i;
        *ahead = n > *ahead ? n : *ahead;
        *left = last > *left ? last : *left;
        if (n > 0)
            period = least_multiple(period, n + 1);
    }
    const TraceSlots *slots = &t->slots[loop->id];
    for (int i = 0; i < slots->n && period <= LONGEST_PERIOD; i++)
        period = least_multiple(period, slots->at[i]);
    return period;
}

static void trace_region(Tracer *t, const Region *r);

static void push_loop(Tracer *t, const Op *loop)
{
    if (t->depth == MAX_LOOP_DEPTH)
        ir_too_deep(t->p, loop->loc);
    t->loop[t->depth] = loop;
    t->first[t->depth] = false;
    t->skipped[t->depth] = 0;
    t->depth++;
}

static void set_turn(Tracer *t, int64_t turn)
{
    const Op *loop = t->loop[t->depth - 1];
    t->layer[t->depth - 1] =
        loop_reverse(loop) ? loop_trips(loop) - 1 - turn : turn;
}

static void follow_loop(Tracer *t, const Op *loop)
{
    int64_t ahead, left, trips = loop_trips(loop);
    int64_t period = period_of(t, loop, &ahead, &left);
    int64_t head = (1 + t->more) * period + ahead + 1;
    int64_t tail = period + left + 1;
    int64_t skip = 0;
    if (period <= LONGEST_PERIOD && trips > head + tail)
        skip = (trips - head - tail) / period * period;
    push_loop(t, loop);
    for (int64_t turn = 0; turn < trips; turn++) {
        if (turn == head)
            turn += skip;
        set_turn(t, turn);
        t->skipped[t->depth - 1] = turn == head - 1 ? skip : 0;
        t->first[t->depth - 1] = turn == 0;
        trace_region(t, loop->body);
    }
    t->depth--;
}

/* The body of an `early`, whose ops are for the iteration that t->layer has. */
static void follow_body(Tracer *t, const Op *early)
{
    for (const Op *op = early->body->first; op; op = op->next)
        add_act(t, op, op->kind == OP_start ? op_attr(op, "op").o : op);
}

static void follow_ahead(Tracer *t, const Op *early)
{
    const Op *loop = t->loop[t->depth - 1];
    int64_t ahead = op_attr(early, "distance").i, now = t->layer[t->depth - 1];
    int64_t then = loop_reverse(loop) ? now - ahead : now + ahead;
    if (then < 0 || then >= loop_trips(loop))
        return;
    t->layer[t->depth - 1] = then;
    follow_body(t, early);
    t->layer[t->depth - 1] = now;
}

static void follow_first(Tracer *t, const Op *early)
{
    bool first = t->depth > 0 && t->first[t->depth - 1];
    push_loop(t, op_loop(started_op(early)));
    set_turn(t, op_attr(early, "iteration").i);
    t->first[t->depth - 1] = first;
    follow_body(t, early);
    t->depth--;
}

/* Statements in one iteration of this loop that belong to another loop or to
 * none: their waits apply there unconditionally. */
static void follow_late(Tracer *t, const Op *early)
{
    int in = t->depth - 1, from = t->act.n;
    const Op *loop = t->loop[in];
    int64_t layer = t->layer[in], skipped = t->skipped[in];
    bool first = t->first[in];
    int64_t left = loop_reverse(loop) ? layer : loop_trips(loop) - 1 - layer;
    if (left != op_attr(early, "remaining").i)
        return;
    t->depth--;
    if (op_attr(early, "iteration").i >= 0)
        follow_first(t, early);
    else
        follow_body(t, early);
    for (int i = from; i < t->act.n; i++)
        t->act.at[i].first = false;
    t->depth++;
    t->loop[in] = loop;
    t->layer[in] = layer;
    t->skipped[in] = skipped;
    t->first[in] = first;
}

static void follow_early(Tracer *t, const Op *early)
{
    if (op_attr(early, "remaining").i >= 0)
        follow_late(t, early);
    else if (op_attr(early, "iteration").i >= 0)
        follow_first(t, early);
    else
        follow_ahead(t, early);
}

static void trace_region(Tracer *t, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next) {
        bool sync = op_is_schedule(op->kind);
        if (op->phase == PH_INIT || op->done || (!sync && issue_is_silent(op)))
            continue;
        if (op->kind == OP_loop)
            follow_loop(t, op);
        else if (op->kind == OP_early)
            follow_early(t, op);
        else
            add_act(t, op, op->kind == OP_start ? op_attr(op, "op").o : op);
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
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (cut[middle] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
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

Trace trace_step(const Program *p, const TraceSlots *slots, int more)
{
    Tracer t = {.p = p, .more = more};
    find_slots(&t, slots);
    add_border(&t);
    trace_region(&t, p->step);
    add_border(&t);
    Trace trace = {.act = t.act.at, .n = t.act.n, .access = t.access.at,
                   .naccesses = t.access.n};
    trace.npieces = cut_arena(p->arena, trace.access, trace.naccesses);
    return trace;
}

/* ---- events -------------------------------------------------------------- */

/* The op whose loops count the iterations of the instance. */
static const Op *counted_op(const Act *act)
{
    const Op *early = act->at ? op_early(act->at) : NULL;
    return early ? started_op(early) : act->op;
}

bool trace_iteration(const Act *act, const Op *loop, int64_t *turn)
{
    const Op *op = counted_op(act);
    const Op *owner = op ? op_loop(op) : NULL;
    for (int i = 0; owner && loop; i++, owner = op_loop(owner))
        if (owner == loop) {
            *turn = act->turn[i];
            return true;
        }
    return false;
}

int64_t trace_own_turn(const Act *act)
{
    return act->turn[0];
}

int trace_slot(const Act *act)
{
    const Op *op = act->op;
    int64_t turn, slots = op_attr(op, "slots").i;
    int64_t offset = op->kind == OP_wait ? op_attr(op, "offset").i : 0;
    bool rotates = slots > 1 && trace_iteration(act, op_attr(op, "loop").o, &turn);
    return (int)(op_attr(op, "event").i +
                 (rotates ? (turn + offset) % slots : offset));
}

int trace_slots(const Program *p)
{
    int64_t n = 0;
    for_ops(op, p->step)
        if (op->kind == OP_record || op->kind == OP_wait) {
            int64_t end = op_attr(op, "event").i + op_attr(op, "slots").i;
            n = end > n ? end : n;
        }
    return (int)n;
}
