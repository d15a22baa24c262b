/* issue_hoist.c: hoists prefetched all-gathers across loops.
 *
 * A unit is gathered `prefetch` units before it begins. Within a loop the count
 * runs through its iterations (issue.c). This file continues the count across
 * the ends of loops: gathers of a loop's first iterations, and gathers outside
 * of loops, are issued where the unit `prefetch` units before theirs begins,
 * which may be an iteration of another loop.
 *
 * before   %h.7 = loop{n=32, …} { … }
 *          %w.2 = all_gather{axes={dp}, unit="norm+output", prefetch=0} %w …
 *          %y = fused{…} %h.7, %w.2 …
 * after    iteration 31 of the loop begins with the all_gather, if the plan's
 *          prefetch is 1 (the attribute is for gathers inside loops)
 *
 * An iteration that gathers nothing counts as one unit. The gather's operands
 * must be available, and an earlier gather of the same unit must not be in use.
 * A loop's last iterations issue no gathers for the loop itself, so that the
 * number of units gathered at a time does not grow. The memory pass may reject
 * a hoist (memory_hoist.c), because the block is reserved through all
 * iterations of the loop that it is hoisted into.
 */
#include "passes/schedule/issue.h"

#include "ir/plan/pipeline.h"
#include "ir/units.h"

#include <string.h>

typedef VEC(const Op *) OpVec;

typedef struct Finder {
    const Program *p;
    const TargetInfo *t;
    Prefetches *prefetch;
    const Op **reader; /* by op id: where a gather's unit begins */
    int *starts;       /* by op id: the number of units that begin at the op */
    OpVec *issued[2];  /* by gather's id: the ops that are issued with it: by
                        * Prefetches.hoisted, by Prefetches.gather */
} Finder;

const Op *issue_hoist_origin(const Hoist *hoist)
{
    return hoist->kind == ISSUE_HERE ? hoist->gather
                                     : hoist->gather->region->owner;
}

bool issue_hoist_includes(const Prefetches *prefetch, const Op *op,
                          const Hoist *hoist)
{
    const Op **of =
        hoist->kind == ISSUE_HERE ? prefetch->hoisted : prefetch->gather;
    return of[op->id] == hoist->gather;
}

static bool same_unit(const Op *x, const Op *y)
{
    return strcmp(attr_unit(x), attr_unit(y)) == 0;
}

/* ---- tables -------------------------------------------------------------- */

/* Enters the op as the reader of the gathers that no op before it reads. */
static void enter_reader(Finder *f, const Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        const Op *gather = value_root(op->arg[i])->def;
        if (!gather || !op_is_unit_gather(gather) || f->reader[gather->id])
            continue;
        f->reader[gather->id] = op;
        f->starts[op->id]++;
    }
}

static void enter_issued(Finder *f, OpVec *issued, const Op *with,
                         const Op *op)
{
    if (with)
        vec_push(f->p->arena, &issued[with->id], op);
}

static void make_tables(Finder *f, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            make_tables(f, op->body);
        if (!op_is_view(op->kind))
            enter_reader(f, op);
        enter_issued(f, f->issued[0], f->prefetch->hoisted[op->id], op);
        enter_issued(f, f->issued[1], f->prefetch->gather[op->id], op);
    }
}

/* ---- ops that a hoisted gather must not pass ----------------------------- */

/* Whether stages run an op of a staged loop's body at another time than `from`. */
static bool is_of_other_action(const Op *op, const Op *from)
{
    const Op *loop = op_loop(op);
    return loop && loop->staged && op->phase != from->phase;
}

/* Whether the loop gathers the unit, or contains loops that gather; or ranks, or runs, have
 * different numbers of its iterations. */
static bool bars(const Op *loop, const Op *gather)
{
    if (loop->cut || loop->staged || loop->rounds)
        return true;
    for (const Op *op = loop->body->first; op; op = op->next)
        if ((op_is_unit_gather(op) && same_unit(op, gather)) ||
            (op->kind == OP_loop && issue_units_before(op->body, NULL) > 0))
            return true;
    return false;
}

/* Whether op reads the result of an earlier gather of the same unit. */
static bool uses_unit(const Op *op, const Op *gather)
{
    for (int i = 0; i < op->nargs; i++) {
        const Op *def = value_root(op->arg[i])->def;
        if (def && def != gather && op_is_unit_gather(def) &&
            same_unit(def, gather))
            return true;
    }
    return false;
}

/* Whether op is the producer of v, a value of its region or of a loop in it. */
static bool makes(const Op *op, Value *v)
{
    v = value_root(v);
    const Op *loop = v->def ? NULL : v->region->owner;
    if (loop && loop->region == op->region)
        v = value_root(loop->arg[v->index]);
    return v->def == op;
}

/* Whether op is the producer of an operand of the hoisted ops. */
static bool makes_issued_operand(const Finder *f, const Hoist *hoist,
                                 const Op *op)
{
    if (op->kind == OP_param || issue_hoist_includes(f->prefetch, op, hoist))
        return false;
    const OpVec *issued =
        &f->issued[hoist->kind != ISSUE_HERE][hoist->gather->id];
    for (int k = 0; k < issued->n; k++)
        for (int i = 0; i < issued->at[k]->nargs; i++)
            if (makes(op, issued->at[k]->arg[i]))
                return true;
    return false;
}

/* ---- issue points -------------------------------------------------------- */

/* Issues the gather in the iteration of the loop that is `units` units before
 * the loop's end. */
static void go_into(Hoist *hoist, const Op *loop, int64_t units)
{
    int64_t body_units = issue_units_before(loop->body, NULL);
    int64_t trips = loop_trips(loop);
    int64_t back = (units - 1) / (body_units ? body_units : 1);
    hoist->left = (int)(back < trips ? back : trips - 1);
    hoist->unit = body_units && back < trips
                      ? (int)((body_units - units % body_units) % body_units)
                      : -1;
}

/* Whether issuing before the op gains nothing, because the op does no work. */
static bool is_idle(const Finder *f, const Hoist *hoist, const Op *op)
{
    return op_is_view(op->kind) || op->kind == OP_param ||
           op->kind == OP_input || op->kind == OP_scalar ||
           issue_hoist_includes(f->prefetch, op, hoist);
}

/* Moves the issue point `units` units before `from`, or as many of them as
 * possible; hoist->at stays NULL if that is no earlier than in the program. */
static void find_place(const Finder *f, Hoist *hoist, const Op *from,
                       int64_t units)
{
    const Op *at = NULL;
    for (const Op *op = from->prev; op && units > 0; op = op->prev) {
        bool loop = op->kind == OP_loop;
        if (op->phase == PH_INIT || uses_unit(op, hoist->gather) ||
            makes_issued_operand(f, hoist, op) || is_of_other_action(op, from) ||
            (loop && bars(op, hoist->gather)))
            break;
        if (!is_idle(f, hoist, op)) {
            at = op;
            hoist->left = 0;
            hoist->unit = -1;
        }
        if (loop)
            go_into(hoist, op, units);
        int64_t body_units = loop ? issue_units_before(op->body, NULL) : 0;
        units -= loop ? loop_trips(op) * (body_units ? body_units : 1)
                      : f->starts[op->id];
    }
    for (const Op *op = at; op != from && op && !hoist->at; op = op->next)
        if (op->next == issue_hoist_origin(hoist))
            hoist->at = at;
}

static void add_hoist(Finder *f, Hoist hoist, const Op *from, int64_t units)
{
    find_place(f, &hoist, from, units);
    if (hoist.at)
        vec_push(f->p->arena, &f->prefetch->hoist, hoist);
}

/* Whether the loop prefetches from host memory. A fetch precedes its gather,
 * but is prefetched within its own loop only. */
static bool fetches_ahead(const Finder *f, const Region *body)
{
    for (const Op *op = body->first; op; op = op->next)
        if (op->kind == OP_fetch && f->prefetch->gather[op->id] == op)
            return true;
    return false;
}

/* Hoists the gathers of a loop's first iterations, in the order of their
 * use. */
static void find_first(Finder *f, const Op *loop)
{
    int64_t units = issue_units_before(loop->body, NULL);
    if (fetches_ahead(f, loop->body))
        return;
    for (int64_t iteration = 0, more = 1; more && iteration < loop_rank_trips(f->p, loop);
         iteration++) {
        int64_t number = 0;
        more = 0;
        for (const Op *op = loop->body->first; op; op = op->next) {
            if (!op_is_unit_gather(op))
                continue;
            Hoist hoist = {
                .gather = op, .kind = ISSUE_FIRST, .iteration = (int)iteration};
            int64_t distance =
                attr_prefetch(op) - (iteration * units + number++);
            if (f->prefetch->gather[op->id] != op ||
                f->prefetch->distance[op->id] <= iteration)
                continue;
            add_hoist(f, hoist, loop, distance);
            more = 1;
        }
    }
}

static void find_in(Finder *f, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop) {
            find_first(f, op);
            find_in(f, op->body);
        }
        const Op *reader =
            f->prefetch->hoisted[op->id] == op ? f->reader[op->id] : NULL;
        if (reader)
            add_hoist(
                f, (Hoist){.gather = op, .kind = ISSUE_HERE}, reader,
                unit_prefetch_of(f->p, attr_unit(op), f->t->default_prefetch));
    }
}

void issue_find_hoists(const Program *p, const TargetInfo *t,
                       Prefetches *prefetch)
{
    Arena *a = p->arena;
    Finder f = {
        .p = p,
        .t = t,
        .prefetch = prefetch,
        .reader = NEW_ARRAY(a, const Op *, p->nops),
        .starts = NEW_ARRAY(a, int, p->nops),
        .issued = {NEW_ARRAY(a, OpVec, p->nops), NEW_ARRAY(a, OpVec, p->nops)}};
    make_tables(&f, p->step);
    find_in(&f, p->step);
}
