/* transfers_check.c: checks that the transfers of a staged loop, and the ops that
 * compute, access buffers in a defined order.
 *
 * Of each stage the actions are followed in its order, on two streams: that of
 * transfers, and the others together, which join between actions (hazards.c checks
 * them within an action). A vector clock per stream says how much of the other has
 * certainly completed; `await` takes that of a `post`. Each access of a buffer that
 * is transferred must follow the last write by the other stream, and a write also
 * the last read:
 *
 *   stage 1   F0, receive 1 into the same buffer: F0 may still read it, unless
 *             the receive awaits F0's end
 *
 * In a forward program all streams join after each microbatch.
 */
#include "ir/memory.h"
#include "ir/plan/pipeline.h"
#include "passes/pipeline/staged_loop.h"
#include "passes/sync/simulate.h"
#include "passes/sync/sync.h"

enum { COMPUTES, TRANSFERS, SIDES };
typedef struct Clock {
    int64_t upto[SIDES]; /* ops that have completed */
} Clock;

/* The last accesses of a buffer: the number of the op on its stream; 0: none. */
typedef struct Buffer {
    int64_t written[SIDES], read[SIDES];
} Buffer;

/* An op that awaits, posts, or accesses a buffer that is transferred. */
typedef struct Part {
    const Op *op;
    Moment moment; /* on the stage */
} Part;

typedef struct Walk {
    const Program *p;
    const Op *loop;
    int stage;
    VEC(Part) part;    /* of the stage, in order */
    Clock now[SIDES];
    Clock *event;      /* by slot: when it was posted */
    Buffer **buffer;   /* by block and buffer; NULL: no transfer uses the block */
    int64_t *nbuffers; /* by block */
    const char *fault;
} Walk;

/* ---- accesses ------------------------------------------------------------ */

static Buffer *buffer_of(const Walk *w, const Value *v, int64_t micro)
{
    const Address *at = v->address;
    if (!at || at->block < 0 || !w->buffer[at->block])
        return NULL;
    for (int i = 0; i < at->nstrides; i++) {
        int64_t modulo = address_modulo(w->p->memory, at, i, w->stage);
        if (at->loop[i] == w->loop && modulo > 0)
            return &w->buffer[at->block][micro % modulo %
                                         w->nbuffers[at->block]];
    }
    return &w->buffer[at->block][0];
}

static void access_value(Walk *w, const Op *op, const Value *v, int64_t micro,
                         int side, bool write)
{
    Buffer *b = buffer_of(w, v, micro);
    int other = !side;
    int stage = value_stage(w->p, v);
    if (!b || (stage >= 0 && stage != w->stage && !op->cut))
        return;
    int64_t after = b->written[other];
    if (write && b->read[other] > after)
        after = b->read[other];
    if (after > w->now[side].upto[other] && !w->fault)
        w->fault = arena_printf(
            w->p->arena, "stage %d, microbatch %lld: %s may access %%%s before %s",
            w->stage, (long long)micro, op_info(op->kind)->name, v->name,
            side == TRANSFERS ? "an op that computes has" : "a transfer has");
    *(write ? &b->written[side] : &b->read[side]) = w->now[side].upto[side];
}

static void access_op(Walk *w, const Op *op, int64_t micro, int side)
{
    bool sends = side == TRANSFERS && op->kind == OP_send;
    bool receives = side == TRANSFERS && op->kind == OP_receive;
    w->now[side].upto[side]++;
    for (int i = 0; i < op->nargs && !receives; i++)
        access_value(w, op, op->arg[i], micro, side, false);
    for (int i = 0; i < op->nouts && !sends; i++)
        access_value(w, op, op->out[i], micro, side, true);
}

/* ---- actions ------------------------------------------------------------- */

static Clock *slot_of(const Walk *w, const Op *op, int64_t micro)
{
    int64_t slots = attr_slots(op);
    int64_t back = op->kind != OP_await ? 0
                     : attr_rotation(op)
                         ? w->p->memory->rotation[attr_rotation(op) - 1]
                               .buffers[w->stage]
                         : attr_back(op);
    return &w->event[attr_event(op) + (micro + slots - back) % slots];
}

static void run_op(Walk *w, const Op *op, Moment at, int64_t micro)
{
    int side = op->stream == STREAM_TRANSFER ||
                       (op_transfers(op) && at != MOMENT_FORWARD &&
                        at != MOMENT_BACKWARD)
                   ? TRANSFERS
                   : COMPUTES;
    if (op->kind == OP_post) {
        *slot_of(w, op, micro) = w->now[side];
    } else if (op->kind == OP_await) {
        const Clock *posted = slot_of(w, op, micro);
        for (int i = 0; i < SIDES; i++)
            if (posted->upto[i] > w->now[side].upto[i])
                w->now[side].upto[i] = posted->upto[i];
    } else if (!op_is_schedule(op->kind) && !op_is_view(op->kind)) {
        access_op(w, op, micro, side);
    }
}

static bool uses_buffer(const Walk *w, const Op *op)
{
    bool uses = false;
    for (int i = 0; i < op->nargs && !uses; i++)
        uses = buffer_of(w, op->arg[i], 0) != NULL;
    for (int i = 0; i < op->nouts && !uses; i++)
        uses = buffer_of(w, op->out[i], 0) != NULL;
    return uses;
}

static void find_parts(Walk *w)
{
    w->part.n = 0;
    for (const Op *op = NULL; (op = ir_next(w->loop->body, op));)
        if (op->kind == OP_post || op->kind == OP_await ||
            (!op_is_schedule(op->kind) && uses_buffer(w, op)))
            vec_push(w->p->arena, &w->part,
                     ((Part){op, staged_moment_on(w->p, w->loop, op, w->stage)}));
}

static void run_action(Walk *w, const Action *x)
{
    for (int i = 0; i < w->part.n && !w->fault; i++)
        if (w->part.at[i].moment == action_moment(x))
            run_op(w, w->part.at[i].op, w->part.at[i].moment, x->micro);
}

/* ---- the check ----------------------------------------------------------- */

static void note_block(Walk *w, const Value *v)
{
    const Address *at = v->address;
    if (!at || at->block < 0 || w->nbuffers[at->block])
        return;
    w->nbuffers[at->block] = 1;
    for (int i = 0; i < at->nstrides; i++)
        if (at->loop[i] == w->loop && at->modulo[i] > 0)
            w->nbuffers[at->block] = at->modulo[i];
}

static void reset(Walk *w, int nslots)
{
    for (int s = 0; s < SIDES; s++)
        w->now[s] = (Clock){0};
    for (int i = 0; i < nslots; i++)
        w->event[i] = (Clock){0};
    for (int b = 0; b < w->p->memory->nblocks; b++)
        for (int64_t i = 0; i < w->nbuffers[b]; i++)
            w->buffer[b][i] = (Buffer){0};
}

const char *transfers_check(const Program *p)
{
    const Op *loop = pipeline_loop(p);
    if (!loop || p->training)
        return NULL;
    Arena *a = p->arena;
    Timetable t = staged_timetable(p, loop);
    int nslots = program_event_slots(p), nblocks = p->memory->nblocks;
    Walk w = {.p = p, .loop = loop, .event = NEW_ARRAY(a, Clock, nslots + 1),
              .buffer = NEW_ARRAY(a, Buffer *, nblocks + 1),
              .nbuffers = NEW_ARRAY(a, int64_t, nblocks + 1)};
    for (const Op *op = loop->body->first; op; op = op->next)
        for (int i = 0; i < op->nouts && op_transfers(op); i++) {
            note_block(&w, op->arg[i]);
            note_block(&w, op->out[i]);
        }
    for (int b = 0; b < nblocks; b++)
        if (w.nbuffers[b])
            w.buffer[b] = NEW_ARRAY(a, Buffer, w.nbuffers[b]);
    for (w.stage = 0; w.stage < t.nstages && !w.fault; w.stage++) {
        const Actions *rank = &t.rank[w.stage % t.nranks];
        reset(&w, nslots);
        find_parts(&w);
        for (int i = 0; i < rank->n && !w.fault; i++)
            if (action_stage(&rank->at[i]) == w.stage)
                run_action(&w, &rank->at[i]);
    }
    return w.fault;
}
