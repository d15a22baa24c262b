/* issue.c: finds the ops that are issued earlier than in the program.
 *
 * The order of issue is that of the program, except for prefetched gathers: a
 * gather with prefetch distance p is issued where the unit p before its own
 * begins, counted over all iterations of its loop. That may be an earlier
 * iteration, or before the loop. Ops that make the gather's operands (casts of
 * shards) are issued with it.
 *
 * before   %h.7 = loop{n=32, …} { …
 *            %w.2 = fused{name="w_cast"} %w … { … }
 *            %w.3 = all_gather{axes={dp}, unit="layers.*", prefetch=1} %w.2 …
 *            %y = einsum{…} %x, %w.3 …
 * after    before the loop          w_cast and all_gather of iteration 0
 *          in iteration i, in order w_cast and all_gather of iteration i + 1,
 *                                   if it exists; einsum of iteration i
 *
 * A fetch from host memory is numbered like the unit that it serves, with a
 * prefetch distance larger by one, so that it is issued one unit before the
 * gather. A fetch that no gather reads is issued at the beginning of the
 * iteration before its own.
 *
 * Outside of loops `storage` has placed each gather after that of the unit
 * `prefetch` units earlier, but not across a loop, and reductions after the
 * last gradient. issue_hoist.c hoists gathers across loops, issue_order.c
 * applies what both find.
 */
#include "passes/schedule/issue.h"

#include "ir/analysis/uses.h"
#include "ir/plan/pipeline.h"
#include "ir/units.h"

#include <string.h>

/* ---- prefetched gathers -------------------------------------------------- */

/* The ops that are issued with a gather: producers of its operands. */
typedef struct Producers {
    const Region *body;
    const Prefetches *prefetch;
    const Op *gather;
    VEC(const Op *) op;
    Arena *arena;
    const Uses *uses;
} Producers;

static bool is_producer(const Producers *f, const Op *op)
{
    return op == f->gather || vec_has(&f->op, op);
}

/* Whether v, or what it is computed from, is available before its iteration
 * begins: slices of stacks, loop invariants and ops on them. Collects the
 * ops. */
static bool find_producers(Producers *f, Value *v)
{
    v = value_root(v);
    Op *def = v->def;
    if (!def)
        return v->index >= f->body->owner->ncarry;
    if (is_producer(f, def) || f->prefetch->gather[def->id] == def)
        return true; /* a fetch is prefetched further on its own */
    if (def->kind == OP_param || def->phase == PH_INIT)
        return true;
    if ((op_is_collective(def->kind) && !op_is_part_gather(def)) ||
        def->kind == OP_loop || def->kind == OP_fetch)
        return false;
    vec_push(f->arena, &f->op, def);
    for (int i = 0; i < def->nargs; i++)
        if (!find_producers(f, def->arg[i]))
            return false;
    return true;
}

/* Whether only producers, and the gather, read v, or a view of it. */
static bool is_read_by_producers(const Producers *f, const Value *v)
{
    int n, reads = 0;
    Op *const *reader = uses_readers(f->uses, v, &n);
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < reader[k]->nargs; i++)
            reads += reader[k]->arg[i] == v;
        if (op_is_view(reader[k]->kind)
                ? !is_read_by_producers(f, reader[k]->out[0])
                : !is_producer(f, reader[k]))
            return false;
    }
    return reads == f->uses->count[v->id]; /* else the region yields it */
}

/* Whether no other op reads the results of the producers. */
static bool have_no_other_readers(const Producers *f)
{
    for (int k = 0; k < f->op.n; k++)
        for (int i = 0; i < f->op.at[k]->nouts; i++)
            if (!is_read_by_producers(f, f->op.at[k]->out[i]))
                return false;
    return true;
}

int issue_unit(const Op *op, int *distance)
{
    const Op *unit = op->kind == OP_fetch ? fetch_gather(op) : op;
    *distance = (int)attr_prefetch(op);
    if (!unit)
        return -1;
    int units = issue_units_before(unit->region, NULL);
    int at = issue_units_before(unit->region, unit) - *distance;
    *distance = 0;
    for (; at < 0; at += units)
        ++*distance;
    return at;
}

/* Whether an iteration of the loop around the op issues it for a later one: not in a
 * staged loop, whose iterations do not follow one another, nor if a stage has fewer
 * iterations. */
static bool is_prefetched(const Program *p, const Op *op)
{
    const Op *loop = op->region->owner;
    int distance;
    if (!loop || loop->staged || attr_prefetch(op) <= 0)
        return false;
    issue_unit(op, &distance);
    return distance <= loop_least_trips(p, loop);
}

static void look_at_fetches(const Program *p, const Region *r,
                            Prefetches *prefetch)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind != OP_fetch || !is_prefetched(p, op))
            continue;
        prefetch->gather[op->id] = op;
        issue_unit(op, &prefetch->distance[op->id]);
    }
}

/* Enters a gather and the producers of its operands: as prefetched within its
 * loop if it has a prefetch distance, else as a candidate for hoisting across
 * loops. */
static void look_at_gather(const Program *p, const Uses *uses, const Op *gather,
                           Prefetches *prefetch)
{
    Arena *a = p->arena;
    bool in_loop = is_prefetched(p, gather);
    Producers f = {.body = gather->region,
                   .prefetch = prefetch,
                   .gather = gather,
                   .arena = a,
                   .uses = uses};
    for (int i = 0; i < gather->nargs; i++)
        if (!find_producers(&f, gather->arg[i]))
            return;
    if (!have_no_other_readers(&f))
        return;
    vec_push(a, &f.op, gather);
    for (int i = 0; i < f.op.n; i++) {
        uint32_t op = f.op.at[i]->id;
        *(in_loop ? &prefetch->gather[op] : &prefetch->hoisted[op]) = gather;
        if (in_loop)
            issue_unit(gather, &prefetch->distance[op]);
    }
}

static void look_at_region(const Program *p, const Uses *uses, const Region *r,
                           Prefetches *prefetch)
{
    look_at_fetches(p, r, prefetch);
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            look_at_region(p, uses, op->body, prefetch);
        if (op_is_unit_gather(op))
            look_at_gather(p, uses, op, prefetch);
    }
}

static Prefetches find_prefetches(const Program *p, const TargetInfo *t)
{
    Prefetches prefetch = {.gather = NEW_ARRAY(p->arena, const Op *, p->nops),
                           .distance = NEW_ARRAY(p->arena, int, p->nops),
                           .hoisted = NEW_ARRAY(p->arena, const Op *, p->nops)};
    if (t->streams < 2)
        return prefetch;
    Uses uses = uses_find(p);
    look_at_region(p, &uses, p->step, &prefetch);
    return prefetch;
}

Prefetches issue_prefetches(const Program *p, const TargetInfo *t)
{
    Prefetches prefetch = find_prefetches(p, t);
    if (t->streams > 1)
        issue_find_hoists(p, t, &prefetch);
    return prefetch;
}

/* The gather that the op is issued with as a producer of an operand, or as a
 * view of one; NULL: none. */
static const Op *gather_of_producer(const Prefetches *prefetch, const Op *op)
{
    const Op *def = op_is_view(op->kind) ? value_root(op->out[0])->def : op;
    if (!def || def->region != op->region || op_is_schedule(def->kind))
        return NULL;
    const Op *with = prefetch->gather[def->id];
    with = with ? with : prefetch->hoisted[def->id];
    return with == def ? NULL : with;
}

/* `front` has for each gather, by id, the first op of its group so far: itself
 * or a producer. */
static void sink_in(const Prefetches *prefetch, Op **front, Region *r)
{
    for (Op *op = r->last, *prev; op; op = prev) {
        prev = op->prev;
        if (op->kind == OP_loop)
            sink_in(prefetch, front, op->body);
        const Op *gather = gather_of_producer(prefetch, op);
        front[op->id] = op;
        if (!gather)
            continue;
        ir_move(op, r, front[gather->id]);
        front[gather->id] = op;
    }
}

void issue_sink_producers(Program *p, const TargetInfo *t)
{
    Prefetches prefetch = find_prefetches(p, t);
    sink_in(&prefetch, NEW_ARRAY(p->arena, Op *, p->nops), p->step);
}

int64_t issue_fetch_slots(const Prefetches *prefetch, const Op *fetch)
{
    int64_t least = prefetch->distance[fetch->id];
    for (const Op *op = fetch->next; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (value_root(op->arg[i]) == fetch->out[0] &&
                !op_is_view(op->kind) && prefetch->distance[op->id] < least)
                least = prefetch->distance[op->id];
    int64_t slots = prefetch->distance[fetch->id] - least + 1;
    int64_t trips = loop_trips(fetch->region->owner);
    return slots < trips ? slots : trips;
}

bool issue_reads(const Op *op, const Op *of)
{
    for (int i = 0; i < op->nargs; i++)
        if (value_root(op->arg[i])->def == of)
            return true;
    return false;
}

int64_t issue_gather_slots(const Op *gather)
{
    int64_t distance = attr_prefetch(gather), during = 0, seen = 0;
    int64_t units = issue_units_before(gather->region, NULL);
    for (const Op *op = gather->next; op; op = op->next) {
        if (issue_reads(op, gather))
            during = seen;
        seen += op_is_unit_gather(op);
    }
    return (distance + during + units) / units;
}
