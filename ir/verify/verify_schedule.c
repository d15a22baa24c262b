/* verify_schedule.c: checks the ops that say when other ops run.
 *
 * An op that is marked done runs where ops `start` say. In every iteration of
 * its loop it must run exactly once, before its results are used:
 *
 *   early{distance=-1, iteration=0, remaining=-1} {    iteration 0
 *     start{op=%w.3} forward stream=2
 *   }
 *   %h.4 = loop{n=32, reverse=false} : … {
 *     early{distance=1, iteration=-1, remaining=-1} {  iterations 1 to 31
 *       start{op=%w.3} forward stream=2
 *     }
 *     %w.3 = all_gather{…} %w … done stream=2
 *     …
 *
 * Whether an op reads the bytes that it should is not checked here but by
 * passes/sync/hazards.c.
 */
#include "ir/verify/verify.h"

#include "ir/memory.h"
#include "ir/plan/pipeline.h"

/* The starts of an op. */
typedef struct Starts {
    int64_t distance;  /* the number of iterations that are started before the
                     * loop, or in it for a later one */
    bool in_loop;     /* one in its loop: for the iteration `distance` later */
    uint64_t first; /* iterations that are started before the loop, as a bit
                     * mask */
} Starts;

enum { MOST_EARLY = 64, MOST_EVENTS = 1 << 20, MOST_SLOTS = 64 };

typedef struct Check {
    const Program *p;
    Starts *starts; /* by op id */
    bool *passed;   /* by op id: the walk has reached the op */
    const char *fault;
} Check;

static void fail(Check *c, const Op *op, const char *fault)
{
    if (!c->fault)
        c->fault = arena_printf(c->p->arena, "%s%s%s: %s",
                                op_info(op->kind)->name,
                                op->nouts ? " %" : "",
                                op->nouts ? op->out[0]->name : "", fault);
}

static int64_t given(const Op *early, AttrName name)
{
    return early ? early->attr[op_attr_index(OP_early, name)].i : -1;
}

/* Whether the start is where its `early` can choose an iteration of the op. */
static bool is_in_reach(const Op *start)
{
    const Op *early = op_early(start), *loop = op_loop(attr_op(start));
    const Op *at = early ? op_loop(early) : op_loop(start);
    if (given(early, ATTR_remaining) >= 0)
        at = op_loop(at);
    if (given(early, ATTR_iteration) >= 0)
        return loop && op_loop(loop) == at;
    return loop == at;
}

static void check_start(Check *c, const Op *start)
{
    const Op *op = attr_op(start), *early = op_early(start);
    if (!op || !op->done) {
        fail(c, op ? op : start, "it is started, but not marked done");
        return;
    }
    Starts *s = &c->starts[op->id];
    int64_t distance = given(early, ATTR_distance);
    int64_t iteration = given(early, ATTR_iteration);
    const Op *loop = op_loop(op);
    if (!is_in_reach(start)) {
        fail(c, op, "it is started in another loop");
        return;
    }
    if (c->passed[op->id] && distance < 0)
        fail(c, op, "it is started after its results are used");
    if (iteration >= 0) {
        bool fits = loop && iteration < MOST_EARLY &&
                    iteration < loop_trips(loop) &&
                    !(s->first >> iteration & 1);
        if (!fits)
            fail(c, op, "it is started for the same iteration twice, or for "
                        "one that its loop does not have");
        else
            s->first |= UINT64_C(1) << iteration;
        return;
    }
    if (s->in_loop)
        fail(c, op, "it is started twice in an iteration");
    s->in_loop = true;
    s->distance = distance < 0 ? 0 : distance;
}

static void check_early(Check *c, const Op *early)
{
    const Op *loop = op_loop(early);
    int64_t distance = given(early, ATTR_distance);
    int64_t remaining = given(early, ATTR_remaining);
    if (!loop && (distance >= 0 || remaining >= 0))
        fail(c, early, "it is not in a loop");
    else if (remaining >= 0 && remaining >= loop_trips(loop))
        fail(c, early, "its loop has fewer iterations");
    if (distance == 0 || (distance >= 0 && given(early, ATTR_iteration) >= 0))
        fail(c, early, "it names no other iteration");
    const Op *loop_of = NULL;
    int starts = 0;
    for (const Op *op = early->body->first; op && !c->fault; op = op->next) {
        const Op *of = op->kind == OP_start ? attr_op(op) : NULL;
        if (!op_is_schedule(op->kind) || op->kind == OP_early)
            fail(c, op, "it cannot be in the body of early");
        else if (of && starts++ > 0 && op_loop(of) != loop_of)
            fail(c, of, "an early starts ops of different loops");
        loop_of = of ? op_loop(of) : loop_of;
    }
    if (starts == 0)
        fail(c, early, "it starts no op");
}

/* The op whose loops a record or wait may name: in an `early` one of those that
 * it starts. */
static const Op *counted_op(const Op *op)
{
    const Op *early = op_early(op);
    for (const Op *in = early ? early->body->first : NULL; in; in = in->next)
        if (in->kind == OP_start)
            return attr_op(in);
    return op;
}

static void check_event(Check *c, const Op *op)
{
    int64_t event = attr_event(op), slots = attr_slots(op);
    int64_t offset = op->kind == OP_wait ? attr_offset(op) : 0;
    const Op *loop = attr_loop(op);
    const Op *around = loop ? op_loop(counted_op(op)) : NULL;
    while (around && around != loop)
        around = op_loop(around);
    if (event < 0 || event > MOST_EVENTS || slots < 1 || slots > MOST_SLOTS ||
        offset < 0 || offset >= slots)
        fail(c, op, "there is no such event");
    else if (around != loop)
        fail(c, op, "the loop that it names is not around it");
}

/* An event of a staged loop. */
static void check_action(Check *c, const Op *op)
{
    int64_t event = attr_event(op), slots = attr_slots(op);
    int64_t back = op->kind == OP_await ? attr_back(op) : 0;
    int64_t rotation = op->kind == OP_await ? attr_rotation(op) : 0;
    const Op *loop = op->region->owner;
    if (event < 0 || event > MOST_EVENTS || slots < 1 || slots > MOST_EVENTS ||
        back < 0 || back >= slots || rotation < 0 ||
        rotation > (c->p->memory ? c->p->memory->nrotations : 0))
        fail(c, op, "there is no such event");
    else if (!loop || !loop->staged)
        fail(c, op, "it is not in a staged loop");
    else if (op->stream == STREAM_TRANSFER && !transfer_at(op))
        fail(c, op, "it orders no transfer");
}

static void check_first(Check *c, const Op *op)
{
    if (attr_first(op) && !op_loop(op))
        fail(c, op, "it is not in a loop, which has a first iteration");
}

static void check_barrier(Check *c, const Op *op)
{
    const Op *by = attr_collective(op);
    if (!attr_op(op) || !by || !op_is_collective(by->kind))
        fail(c, op, "it names no op, or no collective");
    check_first(c, op);
}

static void check_done(Check *c, Op *op)
{
    if (!op->done)
        return;
    const Starts *s = &c->starts[op->id];
    const Op *loop = op_loop(op);
    int64_t most = s->distance;
    if (loop && most > loop_trips(loop))
        most = loop_trips(loop);
    uint64_t first = most >= MOST_EARLY ? UINT64_MAX
                                        : (UINT64_C(1) << most) - 1;
    if (!s->in_loop || s->first != first)
        fail(c, op, "it is marked done, but not started for every iteration");
}

static void check_op(Check *c, Op *op)
{
    c->passed[op->id] = true;
    if (op->kind == OP_start)
        check_start(c, op);
    else if (op->kind == OP_early)
        check_early(c, op);
    else if (op->kind == OP_barrier)
        check_barrier(c, op);
    else if (op->kind == OP_record || op->kind == OP_wait)
        check_event(c, op);
    else if (op->kind == OP_post || op->kind == OP_await)
        check_action(c, op);
    if (op->kind == OP_wait)
        check_first(c, op);
}

const char *verify_schedule(const Program *p)
{
    Check c = {.p = p, .starts = NEW_ARRAY(p->arena, Starts, p->nops),
               .passed = NEW_ARRAY(p->arena, bool, p->nops)};
    for_ops(op, p->step)
        check_op(&c, op);
    for_ops(op, p->step)
        check_done(&c, op);
    return c.fault;
}
