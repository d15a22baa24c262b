/* simulate.c: simulates the order of issue and lists the memory accesses of
 * each statement; see simulate.h. */
#include "passes/sync/simulate.h"

#include "base/bug.h"
#include "ir/plan/pipeline.h"
#include "passes/sync/issue_walk.h"

#include <stdlib.h>
#include <string.h>

/* Loops with a longer period than this are simulated in full. */
enum { LONGEST_PERIOD = 64 };

typedef VEC(Instance) InstanceList;
typedef VEC(Access) AccessList;
typedef struct Simulator {
    const Program *p;
    int extra_periods;
    SlotCounts *slots; /* by op id of a loop: the numbers of buffers of values,
                        * and of slots of events, that its iterations use in
                        * rotation */
    IssueWalk walk;
    int64_t *skipped;  /* by op id of a loop: the iterations after this one that are
                        * skipped */
    InstanceList instance;
    AccessList access;
} Simulator;

/* ---- accesses of a statement --------------------------------------------- */

static int64_t layer_of(const Simulator *t, const Op *loop)
{
    for (int i = 0; i < t->walk.depth; i++)
        if (t->walk.at[i].loop == loop)
            return t->walk.at[i].layer;
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
    int64_t bytes = t->skipped[loop->id] * stride;
    if (attr_reverse(loop))
        a->begin -= bytes;
    else
        a->end += bytes;
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

static void add_instance(Simulator *t, const Issued *x)
{
    const IssueWalk *w = &t->walk;
    Instance instance = {.op = x->op,
                         .statement = x->statement,
                         .stream = x->statement->stream,
                         .elsewhere = x->elsewhere,
                         .first_access = t->access.n,
                         .first = issue_is_first(w)};
    for (int i = 0; i < w->depth; i++)
        instance.iteration[i] = w->at[w->depth - 1 - i].layer;
    for (int i = 0; i < x->op->nargs && !x->elsewhere; i++)
        touch(t, x->op->arg[i], false);
    for (int i = 0; i < x->op->nouts && !x->elsewhere; i++)
        touch(t, x->op->out[i], true);
    if (!x->elsewhere)
        touch_scratch(t, x->op);
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

/* The number of iterations after which addresses and event slots repeat. */
static int64_t period_of(const Simulator *t, const Op *loop)
{
    int64_t period = 2;
    for (const Op *op = loop->body->first; op; op = op->next)
        if (op->kind == OP_early && attr_distance(op) > 0)
            period = least_multiple(period, attr_distance(op) + 1);
    const SlotCounts *slots = &t->slots[loop->id];
    for (int i = 0; i < slots->n && period <= LONGEST_PERIOD; i++)
        period = least_multiple(period, slots->at[i]);
    return period;
}

/* At the begin of an iteration: skips those that repeat others. */
static void skip_iterations(Simulator *t)
{
    IssueFrame *f = &t->walk.frame[t->walk.nframes - 1];
    const Op *loop = f->loop;
    int64_t period = period_of(t, loop);
    if (loop->staged)
        period = 1; /* all streams join after each microbatch, whose buffers no ranks share */
    int64_t head = (1 + t->extra_periods) * period + issue_ahead(loop) + 1;
    int64_t tail = period + issue_left(loop) + 1;
    int64_t skip = 0;
    if (period <= LONGEST_PERIOD && f->trips > head + tail)
        skip = (f->trips - head - tail) / period * period;
    t->skipped[loop->id] = f->iteration == head - 1 ? skip : 0;
    if (f->iteration == head)
        issue_skip(&t->walk, skip);
}

static void simulate_statements(Simulator *t)
{
    Issued x;
    IssueStop stop;
    while ((stop = issue_next(&t->walk, &x)) != ISSUE_END)
        if (stop == ISSUE_ITERATION)
            skip_iterations(t);
        else
            add_instance(t, &x);
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

/* ---- variants ------------------------------------------------------------ */

/* Whether the instances are the same: so are their accesses. */
static bool runs_the_same(const Simulation *x, const Simulation *y)
{
    if (x->n != y->n)
        return false;
    for (int i = 0; i < x->n; i++) {
        const Instance *a = &x->instance[i], *b = &y->instance[i];
        if (a->op != b->op || a->statement != b->statement || a->first != b->first ||
            a->elsewhere != b->elsewhere ||
            memcmp(a->iteration, b->iteration, sizeof a->iteration) != 0)
            return false;
    }
    return true;
}

static Simulation simulate_part(Simulator *t, IssueScope scope)
{
    Arena *a = t->p->arena;
    t->walk = issue_walk_part(t->p, scope);
    t->skipped = NEW_ARRAY(a, int64_t, t->p->nops);
    t->instance.n = t->access.n = 0;
    add_step_boundary(t);
    simulate_statements(t);
    add_step_boundary(t);
    return (Simulation){.instance = t->instance.at,
                        .n = t->instance.n,
                        .access = t->access.at,
                        .naccesses = t->access.n};
}

static int64_t most_rounds(const Program *p)
{
    int64_t most = 1;
    for_ops(op, p->step)
        if (op->kind == OP_loop && op->rounds && loop_trips(op) > most)
            most = loop_trips(op);
    return most;
}

/* Adds the simulation of the scope, unless there is one that runs the same. */
static void add_variant(Simulator *t, Simulations *all, IssueScope scope)
{
    int i = 0, ranks = pipeline_ranks(t->p);
    Simulation made = simulate_part(t, scope);
    while (i < all->n && !runs_the_same(&all->at[i], &made))
        i++;
    if (i == all->n) {
        made.on = NEW_ARRAY(t->p->arena, bool, ranks + 1);
        all->at[all->n++] = made;
        t->instance = (InstanceList){0}; /* else the lists are used again */
        t->access = (AccessList){0};
    }
    all->at[i].on[scope.coordinate] = true;
}

Simulations simulate_step(const Program *p, const SlotCounts *slots, int extra_periods)
{
    Simulator t = {.p = p, .extra_periods = extra_periods};
    int ranks = pipeline_ranks(p), n = ranks ? ranks : 1, counts = 1;
    int64_t most = most_rounds(p);
    for (int64_t r = 1; r < most; r *= 2)
        counts++;
    Simulations all = {.at = NEW_ARRAY(p->arena, Simulation, n * counts)};
    find_slots(&t, slots);
    for (int k = 0; k < counts; k++)
        for (int c = 0; c < n; c++)
            add_variant(&t, &all, (IssueScope){.part = ranks ? ISSUE_RANK : ISSUE_WHOLE,
                                               .coordinate = c, .rounds = (int64_t)1 << k});
    for (int i = 0; i < all.n; i++)
        all.at[i].npieces = cut_arena(p->arena, all.at[i].access, all.at[i].naccesses);
    return all;
}

/* ---- events -------------------------------------------------------------- */

bool instance_iteration_in(const Instance *instance, const Op *loop,
                           int64_t *iteration)
{
    const Op *early =
        instance->statement ? op_early(instance->statement) : NULL;
    const Op *op = early ? issue_started(early) : instance->op;
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
    int64_t layer = 0;
    bool inside = instance_iteration_in(instance, attr_loop(instance->op), &layer);
    return event_slot(instance->op, inside, layer);
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
