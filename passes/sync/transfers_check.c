/* transfers_check.c: checks that the transfers of a staged loop, and the ops that
 * compute, access buffers in a defined order.
 *
 * Of each rank the actions are followed in its order, on all streams. A vector clock per
 * stream says how much of the others has certainly completed; `await` takes that of a
 * `post`, `wait` that of a `record`, and all streams join between actions. Each access of
 * a buffer that is transferred must follow the last write by the stream of transfers, or
 * by the others, and a write also the last read:
 *
 *   stage 1   F0, receive 1 into the same buffer: F0 may still read it, unless
 *             the receive awaits F0's end
 *
 * With one stream, sends alone are apart: they begin after all that was issued, and the
 * rank itself waits for what is awaited.
 *
 * The iterations of loops inside are one: only events with one slot, of which a `wait`
 * means the latest record, count. The other streams among themselves are those of
 * hazards.c. In a side program all streams join after each microbatch.
 */
#include "ir/analysis/statement.h"
#include "ir/memory.h"
#include "ir/plan/pipeline.h"
#include "passes/pipeline/staged_loop.h"
#include "passes/sync/simulate.h"
#include "passes/sync/sync.h"

enum { ALL_STREAMS = STREAM_TRANSFER + 1 };
typedef struct Clock {
    int64_t upto[ALL_STREAMS]; /* ops that have completed */
} Clock;

/* The last accesses of a buffer: the number of the op on its stream; 0: none. */
typedef struct Buffer {
    int64_t written[ALL_STREAMS], read[ALL_STREAMS];
} Buffer;

/* An op that orders streams, or accesses a buffer that is transferred. */
typedef struct Part {
    const Op *op;
    Moment moment; /* on the stage */
} Part;
typedef VEC(Part) PartList;

typedef struct Walk {
    const Program *p;
    const Op *loop;
    int stage;
    PartList *part;    /* by stage: in order */
    Clock now[ALL_STREAMS];
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
    for (int i = 0; i < at->nstrides; i++)
        if (at->loop[i] == w->loop && at->modulo[i] > 0)
            return &w->buffer[at->block][stage_buffer(w->p, at, w->stage, micro) %
                                         w->nbuffers[at->block]];
    return &w->buffer[at->block][0];
}

/* Whether the stream may access the buffer before another one has completed its last
 * access. Of two streams, one is that of transfers. */
static bool is_early(const Walk *w, const Buffer *b, int stream, bool write)
{
    bool early = false;
    for (int k = 0; k < ALL_STREAMS; k++) {
        bool apart = k != stream &&
                     (k == STREAM_TRANSFER || stream == STREAM_TRANSFER);
        int64_t known = w->now[stream].upto[k];
        early |= apart && (b->written[k] > known || (write && b->read[k] > known));
    }
    return early;
}

static void access_value(Walk *w, const Op *op, const Value *v, int64_t micro,
                         int stream, bool write)
{
    Buffer *b = buffer_of(w, v, micro);
    int stage = value_stage(w->p, v);
    if (!b || (stage >= 0 && stage != w->stage && !op->cut))
        return;
    if (is_early(w, b, stream, write) && !w->fault)
        w->fault = arena_printf(
            w->p->arena, "stage %d, microbatch %lld: %s may access %%%s before %s",
            w->stage, (long long)micro, op_info(op->kind)->name, v->name,
            stream == STREAM_TRANSFER ? "an op that computes has" : "a transfer has");
    *(write ? &b->written[stream] : &b->read[stream]) = w->now[stream].upto[stream];
}

static void access_op(Walk *w, const Op *op, Moment at, int64_t micro, int stream)
{
    bool sends = stream == STREAM_TRANSFER && !moment_receives(op, at);
    w->now[stream].upto[stream]++;
    for (int i = 0; i < op->nargs && !moment_receives(op, at); i++)
        access_value(w, op, op->arg[i], micro, stream, false);
    for (int i = 0; i < op->nouts && !sends; i++)
        access_value(w, op, op->out[i], micro, stream, true);
}

/* ---- actions ------------------------------------------------------------- */

static Clock *slot_of(const Walk *w, const Op *op, int64_t micro)
{
    int64_t slots = attr_slots(op);
    int64_t back = op->kind != OP_await ? 0
                   : attr_rotation(op)  ? rotation_modulo(w->p, attr_rotation(op),
                                                          w->stage)
                                        : attr_back(op);
    return &w->event[attr_event(op) + w->stage / pipeline_ranks(w->p) * slots +
                     (micro + slots - back) % slots];
}

static void learn(Clock *now, const Clock *of)
{
    for (int k = 0; k < ALL_STREAMS; k++)
        if (of->upto[k] > now->upto[k])
            now->upto[k] = of->upto[k];
}

static void join(Walk *w, bool transfers)
{
    int n = transfers ? ALL_STREAMS : STREAMS;
    Clock all = {0};
    for (int k = 0; k < n; k++)
        learn(&all, &w->now[k]);
    for (int k = 0; k < n; k++)
        w->now[k] = all;
}

static void run_op(Walk *w, const Op *op, Moment at, int64_t micro)
{
    const Op *issued = op_issued_at(op);
    bool one_stream = w->p->streams == 1;
    bool apart = issued && op_transfers(issued) && at != MOMENT_FORWARD &&
                 at != MOMENT_BACKWARD &&
                 !(one_stream && moment_receives(issued, at));
    bool waits = one_stream && op->kind == OP_await;
    Clock *now = &w->now[waits ? STREAM_COMPUTE : op->stream];
    if (apart && one_stream)
        learn(&w->now[STREAM_TRANSFER], &w->now[STREAM_COMPUTE]);
    if (issued)
        access_op(w, issued, at, micro, apart ? STREAM_TRANSFER : issued->stream);
    else if (op->kind == OP_join)
        join(w, attr_transfers(op));
    else if (op->kind == OP_post)
        *slot_of(w, op, micro) = *now;
    else if (op->kind == OP_await)
        learn(now, slot_of(w, op, micro));
    else if (op->kind == OP_record && attr_slots(op) == 1)
        w->event[attr_event(op)] = *now;
    else if (op->kind == OP_wait && attr_slots(op) == 1)
        learn(now, &w->event[attr_event(op)]);
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

static bool orders(const Op *op)
{
    return op->kind == OP_post || op->kind == OP_await || op->kind == OP_join ||
           op->kind == OP_record || op->kind == OP_wait;
}

static void find_parts(Walk *w)
{
    for (const Op *op = NULL; (op = ir_next(w->loop->body, op));)
        if (orders(op) || (op_issued_at(op) && uses_buffer(w, op_issued_at(op))))
            vec_push(w->p->arena, &w->part[w->stage],
                     ((Part){op, staged_moment_on(w->p, w->loop, op, w->stage)}));
}

static void run_action(Walk *w, const Action *x)
{
    w->stage = action_stage(x);
    const PartList *part = &w->part[w->stage];
    for (int i = 0; i < part->n && !w->fault; i++)
        if (part->at[i].moment == action_moment(x))
            run_op(w, part->at[i].op, part->at[i].moment, x->micro);
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
            w->nbuffers[at->block] =
                w->p->memory->block[at->block].bytes / at->stride[i];
}

static void reset(Walk *w, int nslots)
{
    for (int k = 0; k < ALL_STREAMS; k++)
        w->now[k] = (Clock){0};
    for (int i = 0; i < nslots; i++)
        w->event[i] = (Clock){0};
    for (int b = 0; b < w->p->memory->nblocks; b++)
        for (int64_t i = 0; i < w->nbuffers[b]; i++)
            w->buffer[b][i] = (Buffer){0};
}

const char *transfers_check(const Program *p)
{
    const Op *loop = pipeline_loop(p);
    if (!loop || !program_trains(p))
        return NULL;
    Arena *a = p->arena;
    Timetable t = staged_timetable(p, loop);
    int nslots = program_event_slots(p), nblocks = p->memory->nblocks;
    Walk w = {.p = p, .loop = loop, .event = NEW_ARRAY(a, Clock, nslots + 1),
              .buffer = NEW_ARRAY(a, Buffer *, nblocks + 1),
              .part = NEW_ARRAY(a, PartList, t.nstages),
              .nbuffers = NEW_ARRAY(a, int64_t, nblocks + 1)};
    for (const Op *op = loop->body->first; op; op = op->next)
        for (int i = 0; i < op->nouts && op_transfers(op); i++) {
            note_block(&w, op->arg[i]);
            note_block(&w, op->out[i]);
        }
    for (int b = 0; b < nblocks; b++)
        if (w.nbuffers[b])
            w.buffer[b] = NEW_ARRAY(a, Buffer, w.nbuffers[b]);
    for (w.stage = 0; w.stage < t.nstages; w.stage++)
        find_parts(&w);
    for (int r = 0; r < t.nranks && !w.fault; r++) {
        reset(&w, nslots);
        for (int i = 0; i < t.rank[r].n && !w.fault; i++)
            run_action(&w, &t.rank[r].at[i]);
    }
    return w.fault;
}
