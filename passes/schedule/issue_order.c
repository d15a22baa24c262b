/* issue_order.c: puts the statements of a step into their order of issue.
 *
 * An op that is issued earlier than in the program (issue.c, issue_hoist.c)
 * stays where it is and is marked done. Ops `start` issue it; those for another
 * iteration are inside an op `early`.
 *
 * before   %h.4 = loop{n=32, …} : … {
 *            %w.3 = all_gather{axes={dp}, unit="layers.*", prefetch=1} %w …
 *            %y = einsum{…} %x, %w.3 …
 * after    early{distance=-1, iteration=0, remaining=-1} {
 *            start{op=%w.3} forward stream=2
 *          }
 *          %h.4 = loop{n=32, …} : … {
 *            early{distance=1, iteration=-1, remaining=-1} {
 *              start{op=%w.3} forward stream=2
 *            }
 *            %w.3 = all_gather{…} %w … done stream=2
 *            %y = einsum{…} %x, %w.3 …
 */
#include "passes/schedule/issue.h"

#include "ir/analysis/statement.h"
#include "ir/plan/pipeline.h"
#include "ir/units.h"

#include <string.h>

/* Where the next statement is inserted. */
typedef struct Order {
    Program *p;
    const Prefetches *prefetch;
    Region *region;
    Op *before;   /* NULL: at the region's end */
    Phase phase;
} Order;

/* The iteration that statements are for; see `early` in ops.def. */
typedef struct When {
    int distance, iteration, remaining;
} When;
static const When here = {-1, -1, -1};

/* The gather that the op is issued with, within its loop (prefetch->gather) or
 * across loops (prefetch->hoisted); NULL: none. */
static const Op *issued_with(const Op *const *of, const Op *op)
{
    return op_is_schedule(op->kind) ? NULL : of[op->id];
}

static void insert_start(const Order *o, Region *r, Op *before, Op *op)
{
    Build b = {.p = o->p, .region = r, .before = before, .phase = o->phase,
               .loc = op->loc, .path = op->path};
    Attr attr[] = {{.o = op}};
    ir_op_typed(&b, OP_start, 0, NULL, attr, 0, NULL, NULL)->stream =
        op->stream;
}

/* The region of an `early` for this iteration before the insertion point, which
 * statements for the same iteration of one loop share. */
static Region *early_region(Order *o, const Op *op, When t)
{
    Op *last = o->before ? o->before->prev : o->region->last;
    if (last && last->kind == OP_early && attr_distance(last) == t.distance &&
        attr_iteration(last) == t.iteration &&
        attr_remaining(last) == t.remaining &&
        attr_op(last->body->last)->region == op->region)
        return last->body;
    Attr attr[] = {{.i = t.distance}, {.i = t.iteration}, {.i = t.remaining}};
    Build b = {.p = o->p, .region = o->region, .before = o->before,
               .phase = o->phase, .loc = op->loc, .path = op->path};
    Op *early = ir_open(&b, OP_early, 0, NULL, 0, 0, NULL);
    memcpy(early->attr, attr, sizeof attr);
    return early->body;
}

static void start_statement(Order *o, Op *op, When t)
{
    if (!op_is_statement(op))
        return;
    op->done = true;
    if (t.distance < 0 && t.iteration < 0 && t.remaining < 0)
        insert_start(o, o->region, o->before, op);
    else
        insert_start(o, early_region(o, op, t), NULL, op);
}

/* Adds a gather, after the producers of its operands. */
static void add_group(Order *o, const Op *gather, When t)
{
    for (Op *op = gather->region->first; op; op = op->next)
        if (issued_with(o->prefetch->gather, op) == gather)
            start_statement(o, op, t);
}

/* Adds the statements of a gather that is hoisted across loops: before an op,
 * or in one of the last iterations of a loop. */
static void start_hoisted(Order *o, const Hoist *hoist)
{
    When t = here;
    if (hoist->at->kind == OP_loop && o->region == hoist->at->body)
        t.remaining = hoist->left;
    if (hoist->kind == ISSUE_FIRST) {
        t.iteration = hoist->iteration;
        add_group(o, hoist->gather, t);
    }
    for (Op *op = hoist->gather->region->first; op; op = op->next)
        if (issued_with(o->prefetch->hoisted, op) == hoist->gather)
            start_statement(o, op, t);
}

/* Adds the hoisted gathers that are issued before the op; for a loop, those
 * that are issued in its iterations where unit `unit` begins. */
static void add_hoisted(Order *o, const Op *at, int unit)
{
    for (int i = 0; i < o->prefetch->hoist.n; i++) {
        const Hoist *hoist = &o->prefetch->hoist.at[i];
        if (hoist->at == at && hoist->unit == unit)
            start_hoisted(o, hoist);
    }
}

/* Whether the gather of that iteration is hoisted out of its loop. */
static bool is_led(const Order *o, const Op *gather, int64_t iteration)
{
    for (int i = 0; i < o->prefetch->hoist.n; i++) {
        const Hoist *hoist = &o->prefetch->hoist.at[i];
        if (hoist->at && hoist->gather == gather &&
            hoist->iteration == iteration)
            return true;
    }
    return false;
}

/* Adds the gathers that are issued where unit `at` of the region begins, or
 * (-1) an iteration, shortest prefetch distance first. */
static void add_ahead(Order *o, int at)
{
    const Region *r = o->region;
    int64_t most = 0;
    for (const Op *op = r->first; op; op = op->next)
        if (issued_with(o->prefetch->gather, op) == op &&
            attr_prefetch(op) > most)
            most = attr_prefetch(op);
    for (int64_t n = 1; n <= most; n++)
        for (const Op *op = r->first; op; op = op->next) {
            When t = here;
            int distance;
            if (issued_with(o->prefetch->gather, op) != op ||
                attr_prefetch(op) != n || issue_unit(op, &distance) != at)
                continue;
            t.distance = distance ? distance : -1;
            add_group(o, op, t);
        }
    add_hoisted(o, r->owner, at);
}

/* Adds the gathers of a loop's first iterations before the loop, in the order
 * in which it reads them. */
static void add_first(Order *o, const Op *loop)
{
    int64_t more = 1;
    for (int64_t iteration = 0;
         more && iteration < loop_rank_trips(o->p, loop); iteration++) {
        more = 0;
        for (const Op *op = loop->body->first; op; op = op->next) {
            if (issued_with(o->prefetch->gather, op) != op ||
                o->prefetch->distance[op->id] <= iteration)
                continue;
            if (!is_led(o, op, iteration)) {
                When t = here;
                t.iteration = (int)iteration;
                add_group(o, op, t);
            }
            more = 1;
        }
    }
}

static void order_region(Order *o, Region *r);

/* Adds what is issued before the op, or in its body. */
static void order_op(Order *o, Op *op)
{
    o->before = op;
    o->phase = op->phase;
    if (op->kind != OP_loop) {
        add_hoisted(o, op, -1);
        return;
    }
    add_first(o, op);
    Order body = *o;
    order_region(&body, op->body);
}

static void order_region(Order *o, Region *r)
{
    o->region = r;
    o->before = r->first;
    if (r->owner)
        add_ahead(o, -1);
    for (Op *op = o->before, *next; op; op = next) {
        next = op->next;
        order_op(o, op);
        o->before = next;
        if (r->owner && op_is_unit_gather(op))
            add_ahead(o, issue_units_before(r, op));
    }
}

void issue_order(Program *p, const Prefetches *prefetch)
{
    Order o = {.p = p, .prefetch = prefetch};
    order_region(&o, p->step);
}
