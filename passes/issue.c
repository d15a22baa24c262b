/* issue.c: the order in which a step's statements are issued.
 *
 * It is the order of the program, but for gathers that run ahead: a gather
 * with prefetch p is issued when the unit p before its own begins, counted
 * through all turns of its loop. That may be in an earlier turn, or in front of
 * the loop. What makes its operands (casts of shards) goes with it.
 *
 * before   %h.7 = loop{n=32, …} { …
 *            %w.2 = fused{name="w_cast"} %w … { … }
 *            %w.3 = all_gather{axes={dp}, unit="layers.*", prefetch=1} %w.2 …
 *            %y = einsum{…} %x, %w.3 …
 * after    in front of the loop     w_cast and all_gather of its first turn
 *          in turn i, in that order w_cast and all_gather of turn i + 1, if
 *                                   there is one; einsum of turn i
 *
 * A fetch from host memory has the number of the unit that it is for and one
 * more of prefetch, so that it is issued a unit before the gather; one that no
 * gather reads is issued when the turn before begins.
 *
 * Outside of loops `storage` has put gathers where they are issued, and
 * reductions of gradients stand where the last gradient is there.
 */
#include "passes/offload.h"
#include "passes/streams.h"

#include <string.h>

const char *stream_name(int stream)
{
    static const char *const name[STREAMS] = {"compute", "tensor", "data",
                                              "host"};
    return name[stream];
}

/* ---- what has no statement ----------------------------------------------- */

bool issue_same_place(const Program *p, const Value *x, const Value *y)
{
    const Place *a = &p->memory->value[live_root((Value *)x)->id];
    const Place *b = &p->memory->value[live_root((Value *)y)->id];
    bool same = a->block == b->block && a->nstrides == b->nstrides;
    for (int i = 0; same && i < a->nstrides; i++)
        same = a->loop[i] == b->loop[i] && a->stride[i] == b->stride[i] &&
               a->modulo[i] == b->modulo[i];
    return same;
}

bool issue_is_silent(const Program *p, const Op *op)
{
    switch ((int)op->kind) {
    case OP_param:
    case OP_input:
    case OP_scalar:
    case OP_output:
    case OP_assign:
        return true;
    case OP_copy:
        return issue_same_place(p, op->out[0], op->arg[0]);
    }
    return live_is_view(op->kind);
}

/* ---- gathers that run ahead ---------------------------------------------- */

/* What is issued with a gather. */
typedef struct Feeders {
    const Region *body;
    const Ahead *ahead;
    const Op *gather;
    VEC(const Op *) op;
    Arena *arena;
} Feeders;

static bool is_feeder(const Feeders *f, const Op *op)
{
    for (int i = 0; i < f->op.n; i++)
        if (f->op.at[i] == op)
            return true;
    return op == f->gather;
}

/* Whether v is known before its turn begins, or what makes it is: a slice or
 * what is the same in all turns, or made from such. Collects the makers. */
static bool find_feeders(Feeders *f, Value *v)
{
    v = live_root(v);
    Op *def = v->def;
    if (!def)
        return v->index >= f->body->owner->ncarry;
    if (is_feeder(f, def) || f->ahead->gather[def->id] == def)
        return true; /* what is fetched runs further ahead by itself */
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

/* Whether nothing else reads what they make. */
static bool feed_nothing_else(const Feeders *f)
{
    for (const Op *op = f->body->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            const Op *def = live_root(op->arg[i])->def;
            if (def && def != f->gather && is_feeder(f, def) &&
                !is_feeder(f, op) && !live_is_view(op->kind))
                return false;
        }
    for (int i = 0; i < f->body->nyields; i++) {
        const Op *def = live_root(f->body->yield[i])->def;
        if (def && def != f->gather && is_feeder(f, def))
            return false;
    }
    return true;
}

/* In units; of a fetch that no gather reads, in turns. */
static int64_t prefetch_of(const Op *op)
{
    return op->attr[op->kind == OP_fetch ? 0 : 2].i;
}

/* The gather whose number a fetch has. */
static const Op *unit_of(const Op *op)
{
    return op->kind == OP_fetch ? offload_gather(op) : op;
}

/* The place of a gather among its region's, and how many these are. */
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

/* The unit with whose beginning the op is issued, so many turns before; -1: with
 * that of the turn. */
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

/* Through the turns of its loop where it has a prefetch, else for a lead. */
static void look_at_gather(Arena *a, const Op *gather, Ahead *ahead)
{
    bool turns = gather->region->owner && prefetch_of(gather) > 0;
    Feeders f = {.body = gather->region, .ahead = ahead, .gather = gather,
                 .arena = a};
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

static void look_at_region(Arena *a, const Region *r, Ahead *ahead)
{
    look_at_fetches(r, ahead);
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            look_at_region(a, op->body, ahead);
        if (live_is_unit_gather(op))
            look_at_gather(a, op, ahead);
    }
}

Ahead issue_ahead(const Program *p, const TargetInfo *t)
{
    Ahead ahead = {.gather = NEW_ARRAY(p->arena, const Op *, p->nops),
                   .turns = NEW_ARRAY(p->arena, int, p->nops),
                   .leads = NEW_ARRAY(p->arena, const Op *, p->nops)};
    if (t->streams < 2)
        return ahead;
    look_at_region(p->arena, p->step, &ahead);
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

/* ---- lists --------------------------------------------------------------- */

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

/* A gather behind what makes its operands. */
static void add_group(const Order *o, Issues *list, const Op *gather,
                      IssueKind kind, int turns)
{
    for (const Op *op = gather->region->first; op; op = op->next)
        if (o->ahead->gather[op->id] == gather &&
            !issue_is_silent(o->p, op))
            add(o, list, op, kind, turns);
}

/* What a lead issues: in front of `at`, or in its turn with so many left. */
static void add_lead(const Order *o, Issues *list, const Lead *lead)
{
    int from = list->n;
    if (lead->kind == ISSUE_FIRST)
        add_group(o, list, lead->gather, ISSUE_FIRST, lead->turns);
    for (const Op *op = lead->gather->region->first; op; op = op->next)
        if (o->ahead->leads[op->id] == lead->gather &&
            !issue_is_silent(o->p, op))
            add(o, list, op, ISSUE_HERE, 0);
    for (int i = from; i < list->n; i++) {
        list->at[i].at = lead->at;
        list->at[i].left = lead->left;
    }
}

/* Those in front of the op; of a loop, in its turns when unit `unit` begins. */
static void add_leads(const Order *o, Issues *list, const Op *at, int unit)
{
    for (int i = 0; i < o->ahead->lead.n; i++) {
        const Lead *lead = &o->ahead->lead.at[i];
        if (lead->at == at && lead->unit == unit)
            add_lead(o, list, lead);
    }
}

/* Whether the gather is a lead's, for turn number `turn` of its loop. */
static bool is_led(const Order *o, const Op *gather, int64_t turn)
{
    for (int i = 0; i < o->ahead->lead.n; i++) {
        const Lead *lead = &o->ahead->lead.at[i];
        if (lead->at && lead->gather == gather && lead->turns == turn)
            return true;
    }
    return false;
}

/* Unit number `at` of the region begins, or (-1) a turn: what is issued now,
 * nearest first. */
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

/* In front of a loop: its first turns' gathers, as it will read them. */
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
        if (!issue_is_silent(o->p, op) && !o->ahead->gather[op->id] &&
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
