/* transfer_events.c: orders the transfers of a staged loop, which have a stream of
 * their own, with the streams that compute.
 *
 * The stages issue the actions of a staged loop in different orders, so a wait for
 * the latest record of an event does not serve: events have slots, one for each
 * microbatch in flight. Within an action the other streams are ordered by events.c;
 * between actions they join.
 *
 * before   forward  %h = embedding …
 *                   %x = receive %h
 *                   %y = loop … carry %x …      reads %x
 *                   %s = send %y
 * after    forward  await{event=6, back=2} 0    the send that used the buffer
 *                   await{event=0, back=0} 0    the receive
 *                   join                          no stream begins earlier
 *                   %h = embedding …
 *                   await{event=9, back=2} 4    its last reader
 *                   %x = receive %h               on stream 4, if it transfers
 *                   post{event=0} 4
 *                   %y = loop …
 *                   post{event=3} 0
 *                   await{event=3, back=0} 4
 *                   %s = send %y
 *                   post{event=6} 4
 *                   join
 *                   post{event=9} 0
 *
 * On the first stage `receive` is a part of the forward pass, on stream 0, if it
 * moves its operand at all: events.c orders it as such. transfers_check.c checks what
 * is inserted here; an await without which it finds no fault is dropped.
 *
 * On a target with one stream all but the sends are on that stream: a rank that sends
 * continues before the receiver has the tensor. Of the above remain the post after a
 * send, the await before what writes the buffer again, and the join after the loop.
 */
#include "passes/pipeline/staged_loop.h"
#include "passes/sync/events.h"

#include "ir/plan/pipeline.h"

typedef struct Events {
    Program *p;
    Op *loop;
    int64_t slots;
    int next;       /* the number of the next event */
    int ended[MOMENTS]; /* the event after all of a moment's ops; -1: none yet */
    Op *begin[MOMENTS]; /* the join that a moment begins with; NULL: none yet */
} Events;

/* ---- joins --------------------------------------------------------------- */

static Op *insert(Program *p, OpKind kind, Region *r, Op *before, Phase phase,
                  const Attr *attr)
{
    Build b = {.p = p, .region = r, .before = before, .phase = phase, .path = ""};
    return ir_op_typed(&b, kind, 0, NULL, attr, 0, NULL, NULL);
}

static Op *insert_join(Program *p, Region *r, Op *before, Phase phase,
                       bool transfers)
{
    Attr attr[MAX_ATTRS] = {{.i = transfers}};
    return insert(p, OP_join, r, before, phase, attr);
}

void joins_insert(Program *p)
{
    Op *loop = (Op *)pipeline_loop(p);
    if (!loop)
        return;
    insert_join(p, loop->region, loop->next, loop->phase, true);
    if (p->streams == 1)
        return;
    insert_join(p, loop->region, loop, loop->phase, true);
    for (Phase phase = PH_FORWARD; phase <= PH_WEIGHTS; phase++)
        if (staged_has_phase(loop, phase))
            insert_join(p, loop->body, staged_phase_end(loop, phase), phase, false);
}

/* ---- events -------------------------------------------------------------- */

static int new_event(Events *e)
{
    int event = e->next;
    e->next += (int)e->slots * rank_stages(e->p);
    return event;
}

static void insert_post(Events *e, int event, int stream, Op *before, Phase phase)
{
    Attr attr[MAX_ATTRS] = {{.i = event}, {.i = e->slots}};
    insert(e->p, OP_post, e->loop->body, before, phase, attr)->stream = stream;
}

/* Awaits the event of the microbatch, or, if `at` is given, of the one that has used
 * the buffer at that address before: as many microbatches earlier as there are
 * buffers. */
static void insert_await(Events *e, int event, int stream, Op *before, Phase phase,
                         const Address *at, const char *why)
{
    int64_t back = at ? 1 : 0;
    for (int i = 0; at && i < at->nstrides; i++)
        if (at->loop[i] == e->loop && at->modulo[i] > 0)
            back = at->modulo[i];
    Attr attr[MAX_ATTRS] = {{.i = event}, {.i = e->slots},
                            {.i = back}, {.i = at ? at->rotation : 0},
                            {.s = why}};
    insert(e->p, OP_await, e->loop->body, before, phase, attr)->stream = stream;
}

/* ---- who uses a block ---------------------------------------------------- */

static bool uses_block(const Op *op, int block)
{
    bool uses = op->workspace == block;
    for (int i = 0; i < op->nargs && !uses; i++)
        uses = op->arg[i]->address && op->arg[i]->address->block == block;
    for (int i = 0; i < op->nouts && !uses; i++)
        uses = op->out[i]->address && op->out[i]->address->block == block;
    return uses;
}

/* The first, or last, moment of the forward and backward pass that uses the block;
 * MOMENTS: none does. */
static Moment moment_of_use(const Events *e, int block, bool last)
{
    Moment found = MOMENTS;
    for (const Op *op = NULL; (op = ir_next(e->loop->body, op));) {
        if (op_transfers(op) || op_is_schedule(op->kind) || !uses_block(op, block))
            continue;
        Moment at = staged_moment(e->loop, op);
        if (found == MOMENTS || (last ? at > found : at < found))
            found = at;
    }
    return found;
}

/* The phase of the ops that a stage computes in the moment. */
static Phase phase_of(Moment moment)
{
    return moment == MOMENT_FORWARD   ? PH_FORWARD
           : moment == MOMENT_WEIGHTS ? PH_WEIGHTS
                                      : PH_BACKWARD;
}

/* The event that is posted after all ops of a moment; inserts the post if there is
 * none yet. */
static int end_event(Events *e, Moment moment)
{
    if (e->ended[moment] >= 0)
        return e->ended[moment];
    Phase phase = phase_of(moment);
    e->ended[moment] = new_event(e);
    insert_post(e, e->ended[moment], STREAM_COMPUTE, staged_phase_end(e->loop, phase),
                phase);
    return e->ended[moment];
}

/* ---- transfers ----------------------------------------------------------- */

/* What a moment begins with: a join, after which no stream writes before what
 * compute awaits; with one stream its first op. */
static Op *begin_of(Events *e, Moment moment)
{
    Phase phase = phase_of(moment);
    Op *first = staged_phase_end(e->loop, (Phase)(phase - 1));
    if (e->p->streams == 1)
        return first;
    if (!e->begin[moment])
        e->begin[moment] = insert_join(e->p, e->loop->body, first, phase, false);
    return e->begin[moment];
}

/* A buffer is received into when all have read what it had: in the forward pass of
 * the microbatch, or, on a stage that does not use it there, in the last pass of the one
 * that used it before. */
static void order_receive(Events *e, Op *op)
{
    int event = new_event(e);
    for (int i = 0; i < op->nouts; i++) {
        const Address *at = op->out[i]->address;
        Moment last = moment_of_use(e, at->block, true);
        bool own = op->phase == PH_BACKWARD &&
                   moment_of_use(e, at->block, false) == MOMENT_FORWARD;
        if (own)
            insert_await(e, end_event(e, MOMENT_FORWARD), STREAM_TRANSFER, op, op->phase,
                         NULL, "the buffer's last reader");
        if (last != MOMENTS)
            insert_await(e, end_event(e, last), STREAM_TRANSFER, op, op->phase, at,
                         "the buffer's last reader");
    }
    Op *next = op->next;
    insert_post(e, event, STREAM_TRANSFER, next, op->phase);
    Op *begin = begin_of(e, op->phase == PH_BACKWARD ? MOMENT_BACKWARD
                                                     : MOMENT_FORWARD);
    insert_await(e, event, STREAM_COMPUTE, begin, op->phase, NULL, "receive");
}

/* A tensor is sent when it has been computed. */
static void await_operand(Events *e, Op *send)
{
    int ready = new_event(e);
    insert_post(e, ready, STREAM_COMPUTE, send, send->phase);
    insert_await(e, ready, STREAM_TRANSFER, send, send->phase, NULL,
                 send->arg[0]->name);
}

/* With one stream, what receives into a buffer that is sent waits, too: for the send
 * of the same microbatch if that comes first. */
static void receives_await(Events *e, int event, const Op *send, const Address *at)
{
    for (Op *op = e->loop->body->first; op; op = op->next) {
        bool receives = op_transfers(op) && op->kind != OP_send;
        bool own = op->phase > send->phase;
        for (int i = 0; receives && i < op->nouts; i++)
            if (op->out[i]->address->block == at->block)
                insert_await(e, event, STREAM_TRANSFER, op, op->phase, own ? NULL : at,
                             "send");
    }
}

/* A buffer is written when what it had has been sent. */
static void order_send(Events *e, Op *op)
{
    bool one_stream = e->p->streams == 1;
    if (!one_stream)
        await_operand(e, op);
    int event = new_event(e);
    insert_post(e, event, STREAM_TRANSFER, op->next, op->phase);
    for (int i = 0; i < op->nargs; i++) {
        const Address *at = op->arg[i]->address;
        Moment first = moment_of_use(e, at->block, false);
        if (one_stream)
            receives_await(e, event, op, at);
        if (first == MOMENTS)
            continue;
        Op *begin = begin_of(e, first);
        insert_await(e, event, STREAM_COMPUTE, begin, begin->phase, at, "send");
    }
}

/* ---- what others imply --------------------------------------------------- */

static bool is_awaited(const Events *e, int64_t event)
{
    for (const Op *op = e->loop->body->first; op; op = op->next)
        if (op->kind == OP_await && attr_event(op) == event)
            return true;
    return false;
}

/* Removes awaits without which the order is the same, and what only they need. */
static void drop_implied(Events *e)
{
    for (Op *op = e->loop->body->first, *next; op; op = next) {
        next = op->next;
        if (op->kind != OP_await)
            continue;
        Region *r = op->region;
        ir_move(op, e->p->step, NULL); /* outside of the loop it has no effect */
        if (transfers_check(e->p))
            ir_move(op, r, next);
        else
            ir_remove(op);
    }
    for (Op *op = e->loop->body->first, *next; op; op = next) {
        next = op->next;
        bool idle = op->kind == OP_post && !is_awaited(e, attr_event(op));
        for (int i = 0; i < MOMENTS && op->kind == OP_join; i++)
            idle |= op == e->begin[i] &&
                    (!op->prev || op->prev->kind != OP_await);
        if (idle)
            ir_remove(op);
    }
}

/* One more slot than buffers of any tensor: an event is awaited before it is
 * recorded again. */
static int64_t most_buffers(const Op *loop)
{
    int64_t most = 1;
    for (const Op *op = NULL; (op = ir_next(loop->body, op));)
        for (int i = 0; i < op->nouts; i++) {
            const Address *at = op->out[i]->address;
            for (int k = 0; at && k < at->nstrides; k++)
                if (at->loop[k] == loop && at->modulo[k] > most)
                    most = at->modulo[k];
        }
    return most;
}

void transfer_events_insert(Program *p)
{
    Op *loop = (Op *)pipeline_loop(p);
    if (!loop)
        return;
    Events e = {.p = p, .loop = loop, .slots = most_buffers(loop) + 1,
                .next = program_event_slots(p)};
    for (int i = 0; i < MOMENTS; i++)
        e.ended[i] = -1;
    for (Op *op = loop->body->first, *next; op; op = next) {
        next = op->next;
        if (op_transfers(op) && op->kind != OP_send && p->streams > 1)
            order_receive(&e, op);
        if (op_transfers(op) && op->kind != OP_receive)
            order_send(&e, op);
    }
    drop_implied(&e);
}
