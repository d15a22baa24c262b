/* issue.c: computes the order in which a step's statements are issued.
 *
 * It is the order of the program, except for prefetched gathers: a gather with
 * prefetch distance p is issued where the unit p before its own begins, counted
 * over all iterations of its loop. That may be an earlier iteration, or before
 * the loop. Ops that make the gather's operands (casts of shards) are issued
 * with it.
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
 * last gradient. issue_lead.c hoists gathers across loops.
 */
#include "passes/offload.h"
#include "passes/streams.h"

#include "ir/uses.h"

#include <string.h>

const char *stream_name(int stream)
{
    static const char *const name[STREAMS] = {"compute", "tensor", "data",
                                              "host"};
    return name[stream];
}

/* ---- ops without a statement --------------------------------------------- */

bool issue_same_place(const Value *x, const Value *y)
{
    const Place *a = live_place(x);
    const Place *b = live_place(y);
    bool same = a->block == b->block && a->nstrides == b->nstrides;
    for (int i = 0; same && i < a->nstrides; i++)
        same = a->loop[i] == b->loop[i] && a->stride[i] == b->stride[i] &&
               a->modulo[i] == b->modulo[i];
    return same;
}

bool issue_is_silent(const Op *op)
{
    switch ((int)op->kind) {
    case OP_param:
    case OP_input:
    case OP_scalar:
    case OP_output:
    case OP_assign:
        return true;
    case OP_copy:
        return issue_same_place(op->out[0], op->arg[0]);
    }
    return live_is_view(op->kind);
}

/* ---- prefetched gathers -------------------------------------------------- */

/* The ops that are issued with a gather: producers of its operands. */
typedef struct Feeders {
    const Region *body;
    const Ahead *ahead;
    const Op *gather;
    VEC(const Op *) op;
    Arena *arena;
    const Uses *uses;
} Feeders;

static bool is_feeder(const Feeders *f, const Op *op)
{
    for (int i = 0; i < f->op.n; i++)
        if (f->op.at[i] == op)
            return true;
    return op == f->gather;
}

/* Whether v, or what it is computed from, is available before its iteration
 * begins: slices of stacks, loop invariants and ops on them. Collects the
 * ops. */
static bool find_feeders(Feeders *f, Value *v)
{
    v = live_root(v);
    Op *def = v->def;
    if (!def)
        return v->index >= f->body->owner->ncarry;
    if (is_feeder(f, def) || f->ahead->gather[def->id] == def)
        return true; /* a fetch is prefetched further on its own */
    if (def->kind == OP_param || def->phase == PH_INIT)
        return true;
    if (op_is_collective(def->kind) || def->kind == OP_loop ||
        def->kind == OP_fetch)
        return false;
    vec_push(f->arena, &f->op, def);
    for (int i = 0; i < def->nargs; i++)
        if (!find_feeders(f, def->arg[i]))
            return false;
    return true;
}

/* Whether only producers, and the gather, read v, or a view of it. */
static bool feeds_only(const Feeders *f, const Value *v)
{
    int n, reads = 0;
    Op *const *reader = uses_readers(f->uses, v, &n);
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < reader[k]->nargs; i++)
            reads += reader[k]->arg[i] == v;
        if (live_is_view(reader[k]->kind) ? !feeds_only(f, reader[k]->out[0])
                                          : !is_feeder(f, reader[k]))
            return false;
    }
    return reads == f->uses->count[v->id]; /* else the region yields it */
}

/* Whether no other op reads the results of the producers. */
static bool feed_nothing_else(const Feeders *f)
{
    for (int k = 0; k < f->op.n; k++)
        for (int i = 0; i < f->op.at[k]->nouts; i++)
            if (!feeds_only(f, f->op.at[k]->out[i]))
                return false;
    return true;
}

/* The prefetch distance in units; of a fetch that no gather reads in
 * iterations. */
static int64_t prefetch_of(const Op *op)
{
    return op->attr[op->kind == OP_fetch ? 0 : 2].i;
}

/* The gather that a fetch is numbered like. */
static const Op *unit_of(const Op *op)
{
    return op->kind == OP_fetch ? offload_gather(op) : op;
}

/* The index of a gather among the gathers of its region, and their number. */
static int unit_number(const Op *gather, int *units)
{
    int number = 0;
    *units = 0;
    for (const Op *op = gather->region->first; op; op = op->next) {
        if (op == gather)
            number = *units;
        *units += live_is_unit_gather(op);
    }
    return number;
}

/* The unit at whose beginning the op is issued, `turns` iterations earlier; -1:
 * at the beginning of the iteration. */
static int issued_with(const Op *op, int *turns)
{
    const Op *unit = unit_of(op);
    *turns = (int)prefetch_of(op);
    if (!unit)
        return -1;
    int units, number = unit_number(unit, &units);
    int at = number - (int)prefetch_of(op);
    *turns = 0;
    for (; at < 0; at += units)
        ++*turns;
    return at;
}

static void look_at_fetches(const Region *r, Ahead *ahead)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind != OP_fetch || !r->owner || prefetch_of(op) <= 0)
            continue;
        ahead->gather[op->id] = op;
        issued_with(op, &ahead->turns[op->id]);
    }
}

/* Enters a gather and the producers of its operands: as prefetched within its
 * loop if it has a prefetch distance, else as a candidate for hoisting across
 * loops. */
static void look_at_gather(Arena *a, const Uses *uses, const Op *gather,
                           Ahead *ahead)
{
    bool turns = gather->region->owner && prefetch_of(gather) > 0;
    Feeders f = {.body = gather->region, .ahead = ahead, .gather = gather,
                 .arena = a, .uses = uses};
    for (int i = 0; i < gather->nargs; i++)
        if (!find_feeders(&f, gather->arg[i]))
            return;
    if (!feed_nothing_else(&f))
        return;
    vec_push(a, &f.op, gather);
    for (int i = 0; i < f.op.n; i++) {
        uint32_t op = f.op.at[i]->id;
        *(turns ? &ahead->gather[op] : &ahead->leads[op]) = gather;
        if (turns)
            issued_with(gather, &ahead->turns[op]);
    }
}

static void look_at_region(Arena *a, const Uses *uses, const Region *r,
                           Ahead *ahead)
{
    look_at_fetches(r, ahead);
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            look_at_region(a, uses, op->body, ahead);
        if (live_is_unit_gather(op))
            look_at_gather(a, uses, op, ahead);
    }
}

Ahead issue_ahead(const Program *p, const TargetInfo *t)
{
    Ahead ahead = {.gather = NEW_ARRAY(p->arena, const Op *, p->nops),
                   .turns = NEW_ARRAY(p->arena, int, p->nops),
                   .leads = NEW_ARRAY(p->arena, const Op *, p->nops)};
    if (t->streams < 2)
        return ahead;
    Uses uses = uses_find(p);
    look_at_region(p->arena, &uses, p->step, &ahead);
    issue_find_leads(p, t, &ahead);
    return ahead;
}

int64_t issue_fetch_slots(const Ahead *ahead, const Op *fetch)
{
    int64_t least = ahead->turns[fetch->id];
    for (const Op *op = fetch->next; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (live_root(op->arg[i]) == fetch->out[0] &&
                !live_is_view(op->kind) && ahead->turns[op->id] < least)
                least = ahead->turns[op->id];
    int64_t slots = ahead->turns[fetch->id] - least + 1;
    int64_t turns = loop_trips(fetch->region->owner);
    return slots < turns ? slots : turns;
}

/* ---- lists of statements ------------------------------------------------- */

typedef struct Order {
    const Program *p;
    const Ahead *ahead;
    StreamPlan *plan;
} Order;

typedef VEC(Issue) Issues;

static void add(const Order *o, Issues *list, const Op *op, IssueKind kind,
                int turns)
{
    Issue issue = {.id = o->plan->nissues++, .op = op, .kind = kind, .turns = turns, .event = -1,
                   .stream = o->plan->streams > 1 ? op->stream : 0};
    vec_push(o->p->arena, list, issue);
}

/* Adds a gather, after the producers of its operands. */
static void add_group(const Order *o, Issues *list, const Op *gather,
                      IssueKind kind, int turns)
{
    for (const Op *op = gather->region->first; op; op = op->next)
        if (o->ahead->gather[op->id] == gather &&
            !issue_is_silent(op))
            add(o, list, op, kind, turns);
}

/* Adds the statements of a gather that is hoisted across loops: before `at`, or
 * in the iteration of `at` after which `left` remain. */
static void add_lead(const Order *o, Issues *list, const Lead *lead)
{
    int from = list->n;
    if (lead->kind == ISSUE_FIRST)
        add_group(o, list, lead->gather, ISSUE_FIRST, lead->turns);
    for (const Op *op = lead->gather->region->first; op; op = op->next)
        if (o->ahead->leads[op->id] == lead->gather &&
            !issue_is_silent(op))
            add(o, list, op, ISSUE_HERE, 0);
    for (int i = from; i < list->n; i++) {
        list->at[i].at = lead->at;
        list->at[i].left = lead->left;
    }
}

/* Adds the hoisted gathers that are issued before the op; for a loop, those
 * that are issued in its iterations where unit `unit` begins. */
static void add_leads(const Order *o, Issues *list, const Op *at, int unit)
{
    for (int i = 0; i < o->ahead->lead.n; i++) {
        const Lead *lead = &o->ahead->lead.at[i];
        if (lead->at == at && lead->unit == unit)
            add_lead(o, list, lead);
    }
}

/* Whether the gather of iteration `turn` is hoisted out of its loop. */
static bool is_led(const Order *o, const Op *gather, int64_t turn)
{
    for (int i = 0; i < o->ahead->lead.n; i++) {
        const Lead *lead = &o->ahead->lead.at[i];
        if (lead->at && lead->gather == gather && lead->turns == turn)
            return true;
    }
    return false;
}

/* Adds the gathers that are issued where unit `at` of the region begins, or
 * (-1) an iteration, shortest prefetch distance first. */
static void add_ahead(const Order *o, Issues *list, const Region *r, int at)
{
    int64_t most = 0;
    for (const Op *op = r->first; op; op = op->next)
        if (o->ahead->gather[op->id] == op && prefetch_of(op) > most)
            most = prefetch_of(op);
    for (int64_t n = 1; n <= most; n++)
        for (const Op *op = r->first; op; op = op->next) {
            int turns;
            if (o->ahead->gather[op->id] != op || prefetch_of(op) != n ||
                issued_with(op, &turns) != at)
                continue;
            add_group(o, list, op, turns ? ISSUE_AHEAD : ISSUE_HERE, turns);
        }
    add_leads(o, list, r->owner, at);
}

/* Adds the gathers of a loop's first iterations before the loop, in the order
 * in which it reads them. */
static void add_first(const Order *o, Issues *list, const Op *loop)
{
    for (int64_t turn = 0, more = 1; more && turn < loop_trips(loop); turn++) {
        more = 0;
        for (const Op *op = loop->body->first; op; op = op->next) {
            if (o->ahead->gather[op->id] != op ||
                o->ahead->turns[op->id] <= turn)
                continue;
            if (!is_led(o, op, turn))
                add_group(o, list, op, ISSUE_FIRST, (int)turn);
            more = 1;
        }
    }
}

static IssueList order_region(const Order *o, const Region *r)
{
    Issues list = {0};
    int units;
    if (r->owner)
        add_ahead(o, &list, r, -1);
    for (const Op *op = r->first; op; op = op->next) {
        const Op *led = o->ahead->leads[op->id];
        if (op->kind == OP_loop) {
            add_first(o, &list, op);
            add(o, &list, op, ISSUE_HERE, 0);
            o->plan->body[op->id] = order_region(o, op->body);
            continue;
        }
        add_leads(o, &list, op, -1);
        if (!issue_is_silent(op) && !o->ahead->gather[op->id] &&
            !(led && is_led(o, led, 0)))
            add(o, &list, op, ISSUE_HERE, 0);
        if (r->owner && live_is_unit_gather(op))
            add_ahead(o, &list, r, unit_number(op, &units));
    }
    return (IssueList){list.at, list.n};
}

StreamPlan *issue_plan(const Program *p, const TargetInfo *t)
{
    StreamPlan *plan = NEW(p->arena, StreamPlan);
    Ahead none = {.gather = NEW_ARRAY(p->arena, const Op *, p->nops),
                  .turns = NEW_ARRAY(p->arena, int, p->nops),
                  .leads = NEW_ARRAY(p->arena, const Op *, p->nops)};
    Order o = {.p = p, .plan = plan,
               .ahead = t->streams > 1 ? p->memory->ahead : &none};
    plan->streams = t->streams;
    plan->begin = (Issue){.id = 0, .kind = ISSUE_BEGIN, .event = -1};
    plan->end = (Issue){.id = 1, .kind = ISSUE_END, .event = -1};
    plan->nissues = 2;
    plan->body = NEW_ARRAY(p->arena, IssueList, p->nops);
    plan->step = order_region(&o, p->step);
    return plan;
}

IssueList *issue_list(StreamPlan *s, const Region *r)
{
    return r->owner ? &s->body[r->owner->id] : &s->step;
}

const Op *issue_loop(const Issue *i)
{
    const Op *owner = i->op ? i->op->region->owner : NULL;
    if (i->at && i->at->kind == OP_loop)
        return i->at;
    return i->kind == ISSUE_FIRST ? owner->region->owner : owner;
}
