/* stages_check.c: checks what the stages of a pipeline exchange, and the buffers of
 * a staged loop.
 *
 * Transfers: what a carry of a loop with a cut begins with is received from the
 * stage before, and what it ends with is sent to the next one, each once.
 *
 * Between two stages, the receiver's transfers have the order of the sender's.
 *
 * Blocks that only one coordinate has hold values of its stages.
 *
 * Buffers: every rank runs the actions of its timetable one by one. A buffer has
 * what a microbatch has written there last. An op that reads what another
 * microbatch has written there is a fault:
 *
 *   1F1B, stage 0 of 2, one buffer for %saved
 *   F0 writes %saved of 0, F1 writes %saved of 1, B0 reads %saved of 1
 */
#include "passes/sync/sync.h"

#include "ir/analysis/alias.h"
#include "ir/memory.h"
#include "ir/plan/pipeline.h"
#include "passes/pipeline/staged_loop.h"

/* ---- transfers ----------------------------------------------------------- */

/* The receive, or send, that is the op's and transfers the loop's carries. */
static bool belongs(const Op *transfer, OpKind kind, const Op *loop)
{
    return transfer && transfer->kind == kind && transfer->cut == loop->cut &&
           transfer->phase == loop->phase &&
           attr_reverse(transfer) == attr_reverse(loop) &&
           transfer->region == loop->region;
}

/* How many operands of sends v, or a view or copy of it, is. */
static int count_sends(const Op *loop, const Value *v)
{
    int n = 0;
    for (const Op *op = loop->next; op; op = op->next)
        for (int i = 0; i < op->nargs && op->kind == OP_send; i++)
            n += value_root(op->arg[i]) == v;
    return n;
}

/* The producer of v, or of what a copy into the carry's buffer copies. */
static const Op *producer_of_carry(const Value *v)
{
    const Op *def = value_root((Value *)v)->def;
    return def && def->kind == OP_copy ? value_root(def->arg[0])->def : def;
}

static const char *check_carries(const Program *p, const Op *loop, int axis)
{
    for (int i = 0; i < loop->ncarry; i++) {
        if (loop->body->arg[i]->type.place.ax[axis].kind != AX_HERE)
            continue;
        const Value *begin = loop->arg[i], *end = loop->out[i];
        if (!belongs(producer_of_carry(begin), OP_receive, loop))
            return arena_printf(p->arena, "no stage receives %%%s, which a loop "
                                "begins with", begin->name);
        if (count_sends(loop, end) != 1)
            return arena_printf(p->arena, "%%%s, which a loop ends with, is sent "
                                "%d times", end->name, count_sends(loop, end));
    }
    return NULL;
}

/* A receive is for one loop, and a send is that of one. */
static const char *check_transfer(const Program *p, const Op *op)
{
    int loops = 0;
    for (const Op *loop = op->region->first; loop; loop = loop->next) {
        if (loop->kind != OP_loop || !belongs(op, op->kind, loop))
            continue;
        for (int i = 0; i < loop->ncarry; i++)
            loops += op->kind == OP_send
                         ? value_root(op->arg[0]) == loop->out[i]
                         : producer_of_carry(loop->arg[i]) == op &&
                               value_root(loop->arg[i]) == op->out[0];
    }
    return loops == 1 ? NULL
                      : arena_printf(p->arena, "%s %%%s belongs to %d loops",
                                     op_info(op->kind)->name, op->out[0]->name,
                                     loops);
}

/* In a staged loop a move is between neighbors, forward to the next stage and backward
 * to the one before. */
static const char *check_move(const Program *p, const Op *op)
{
    const Op *loop = op_loop(op);
    int step = value_stage(p, op->out[0]) - value_stage(p, op->arg[0]);
    return !loop || !loop->staged || step == (op->phase == PH_BACKWARD ? -1 : 1)
               ? NULL
               : arena_printf(p->arena, "a move of %%%s is not to the next stage",
                              op->arg[0]->name);
}

static const char *check_transfers(const Program *p)
{
    int axis = pipeline_axis(p);
    const char *fault = NULL;
    for_ops(op, p->step) {
        if (fault)
            break;
        if (op->kind == OP_loop && op->cut)
            fault = check_carries(p, op, axis);
        else if (op_transfers(op))
            fault = op->kind == OP_move ? check_move(p, op) : check_transfer(p, op);
    }
    return fault;
}

/* ---- pairs --------------------------------------------------------------- */

/* The next op of the region after `op`, NULL for the first, that the stage runs in that
 * moment. */
static const Op *next_transfer(const Program *p, const Region *r, const Op *op, int stage,
                               Moment at)
{
    op = op ? op->next : r->first;
    while (op && (!op_transfers(op) || staged_moment_on(p, r->owner, op, stage) != at))
        op = op->next;
    return op;
}

static bool is_pair(const Program *p, const Op *send, const Op *receive)
{
    bool same = send && receive && send->nargs == receive->nargs &&
                (send == receive ||
                 (send->cut == receive->cut &&
                  attr_reverse(send) == attr_reverse(receive)));
    for (int i = 0; same && i < send->nargs; i++)
        same = type_local_bytes(&send->arg[i]->type, &p->mesh) ==
               type_local_bytes(&receive->out[i]->type, &p->mesh);
    return same;
}

/* The transfers from one stage to the other: the receiver has the sender's order. */
static const char *check_pairs(const Program *p, const Region *r, int from, int to)
{
    Moment sends = from < to ? MOMENT_SEND : MOMENT_SEND_GRADIENT;
    Moment receives = from < to ? MOMENT_RECEIVE : MOMENT_RECEIVE_GRADIENT;
    const Op *send = NULL, *receive = NULL;
    do {
        send = next_transfer(p, r, send, from, sends);
        receive = next_transfer(p, r, receive, to, receives);
        if ((send || receive) && !is_pair(p, send, receive))
            return arena_printf(p->arena, "stage %d sends %%%s where stage %d "
                                "receives %%%s", from, send ? send->arg[0]->name : "",
                                to, receive ? receive->out[0]->name : "");
    } while (send);
    return NULL;
}

static const char *check_all_pairs(const Program *p, const Region *r)
{
    const char *fault = NULL;
    for (int s = 0; s + 1 < pipeline_stage_count(p) && !fault; s++) {
        fault = check_pairs(p, r, s, s + 1);
        fault = fault ? fault : check_pairs(p, r, s + 1, s);
    }
    return fault;
}

/* ---- buffers ------------------------------------------------------------- */

enum { NONE = -1 };

/* A microbatch on a stage has the number micro * nstages + stage. */
typedef struct Walk {
    const Program *p;
    const Op *loop;
    int stage, nstages;
    int64_t **holds; /* by block and buffer: the number of the microbatch that wrote
                      * there last; NULL: the loop does not make what it holds */
    int64_t *buffers; /* by block */
    int64_t *received; /* by block: that of the latest microbatch that the rank has
                        * received there, and that no op has read yet */
    const char *fault;
} Walk;

static int64_t number_of(const Walk *w, int64_t micro)
{
    return micro * w->nstages + w->stage;
}

/* The buffer of a value that the loop's body makes; NONE: it is another value. The
 * stage must have the buffer. */
static int64_t buffer_of(Walk *w, const Value *v, int64_t micro)
{
    const Address *at = v->address;
    if (!at || at->block < 0 || !w->holds[at->block])
        return NONE;
    for (int i = 0; i < at->nstrides; i++) {
        int64_t modulo = address_modulo(w->p->memory, at, i, w->stage);
        if (at->loop[i] != w->loop || modulo == 0)
            continue;
        const Block *b = &w->p->memory->block[at->block];
        int64_t buffer = stage_buffer(w->p, at, w->stage, micro);
        if (buffer < block_bytes_on(b, coordinate_of(w->p, w->stage)) / at->stride[i])
            return buffer;
        w->fault = arena_printf(w->p->arena, "stage %d, microbatch %lld: %%%s "
                                "leaves its buffers", w->stage,
                                (long long)micro, v->name);
        return NONE;
    }
    return 0;
}

/* Whether only other stages have v: a loop that all ranks run may have such values, and a
 * stage without layers has nothing of their stacks. What a loop with a cut begins and ends
 * with, every stage has. */
static bool is_elsewhere(const Walk *w, const Op *op, const Value *v)
{
    int stage = value_stage(w->p, v), cut = type_cut(&v->type);
    if (cut && !stage_rows(w->p, cut, w->stage))
        return true;
    return stage >= 0 && stage != w->stage && !op->cut;
}

static void read_value(Walk *w, const Op *op, const Value *v, int64_t micro)
{
    if (is_elsewhere(w, op, v))
        return;
    int64_t buffer = buffer_of(w, v, micro);
    if (buffer == NONE || w->fault)
        return;
    int64_t has = w->holds[v->address->block][buffer];
    if (has != number_of(w, micro))
        w->fault = arena_printf(
            w->p->arena, "stage %d, microbatch %lld: %s reads %%%s of %s",
            w->stage, (long long)micro, op_info(op->kind)->name, v->name,
            has == NONE ? "no microbatch"
                        : arena_printf(w->p->arena, "stage %lld, microbatch %lld",
                                       (long long)(has % w->nstages),
                                       (long long)(has / w->nstages)));
}

/* Every rank computes some values that only the first stage needs. They must not
 * be where other stages have received tensors. */
static void write_value(Walk *w, const Op *op, const Value *v, Moment at,
                        int64_t micro)
{
    int64_t buffer = is_elsewhere(w, op, v) ? NONE : buffer_of(w, v, micro);
    if (buffer == NONE)
        return;
    int64_t *received = &w->received[v->address->block];
    if (*received == number_of(w, micro) && !w->fault)
        w->fault = arena_printf(w->p->arena, "stage %d, microbatch %lld: %%%s is "
                                "written over what the stage has received",
                                w->stage, (long long)micro, v->name);
    *received = moment_receives(op, at) ? number_of(w, micro) : NONE;
    w->holds[v->address->block][buffer] = number_of(w, micro);
}

static void run_region(Walk *w, const Region *r, Moment at, int64_t micro);

/* Whether a transfer leaves a tensor where it is on a stage that does not receive it. */
static bool stays(const Op *op, int i)
{
    return op_transfers(op) && op->arg[i]->address && op->out[i]->address &&
           address_equal(op->arg[i]->address, op->out[i]->address);
}

static void run_op(Walk *w, const Op *op, Moment at, int64_t micro)
{
    bool reads = !op_is_view(op->kind) && !moment_receives(op, at);
    for (int i = 0; i < op->nargs && reads; i++) {
        read_value(w, op, op->arg[i], micro);
        if (!op_transfers(op) && buffer_of(w, op->arg[i], micro) != NONE)
            w->received[op->arg[i]->address->block] = NONE;
    }
    if (op->kind == OP_loop)
        run_region(w, op->body, at, micro);
    for (int i = 0; i < op->nouts && !op_is_view(op->kind); i++)
        if (moment_receives(op, at) || !stays(op, i))
            write_value(w, op, op->out[i], at, micro);
}

static void run_region(Walk *w, const Region *r, Moment at, int64_t micro)
{
    for (const Op *op = r->first; op && !w->fault; op = op->next)
        if (!op_is_schedule(op->kind) &&
            staged_moment_on(w->p, w->loop, op, w->stage) == at)
            run_op(w, op, at, micro);
}

/* The blocks that hold values of one microbatch, and how many buffers fit. */
static void find_blocks(Walk *w)
{
    const MemoryPlan *m = w->p->memory;
    Arena *a = w->p->arena;
    w->holds = NEW_ARRAY(a, int64_t *, m->nblocks + 1);
    w->buffers = NEW_ARRAY(a, int64_t, m->nblocks + 1);
    w->received = NEW_ARRAY(a, int64_t, m->nblocks + 1);
    for (const Op *op = NULL; (op = ir_next(w->loop->body, op));)
        for (int i = 0; i < op->nouts; i++) {
            const Address *at = op->out[i]->address;
            if (!at || at->block < 0 || op_is_view(op->kind) ||
                w->buffers[at->block])
                continue;
            w->buffers[at->block] = 1;
            for (int k = 0; k < at->nstrides; k++)
                if (at->loop[k] == w->loop && at->modulo[k] > 0)
                    w->buffers[at->block] =
                        at->stride[k] > 0 ? m->block[at->block].bytes /
                                                at->stride[k]
                                          : 1;
        }
    for (int b = 0; b < m->nblocks; b++)
        if (w->buffers[b])
            w->holds[b] = NEW_ARRAY(a, int64_t, w->buffers[b]);
    /* A carry of the loop is of all microbatches. */
    for (int i = 0; i < w->loop->nargs; i++)
        if (w->loop->arg[i]->address && w->loop->arg[i]->address->block >= 0)
            w->holds[w->loop->arg[i]->address->block] = NULL;
}

static void forget(const Walk *w)
{
    for (int b = 0; b < w->p->memory->nblocks; b++)
        w->received[b] = NONE;
    for (int b = 0; b < w->p->memory->nblocks; b++)
        for (int64_t i = 0; w->holds[b] && i < w->buffers[b]; i++)
            w->holds[b][i] = NONE;
}

static const char *check_buffers(const Program *p, const Op *loop)
{
    Walk w = {.p = p, .loop = loop, .nstages = pipeline_stage_count(p)};
    Timetable t = staged_timetable(p, loop);
    find_blocks(&w);
    for (int r = 0; r < t.nranks && !w.fault; r++) {
        const Actions *rank = &t.rank[r];
        forget(&w);
        for (int i = 0; i < rank->n && !w.fault; i++) {
            w.stage = action_stage(&rank->at[i]);
            run_region(&w, loop->body, action_moment(&rank->at[i]),
                       rank->at[i].micro);
        }
    }
    return w.fault;
}

/* ---- blocks of one coordinate -------------------------------------------- */

static const char *check_value(const Program *p, const Value *v)
{
    if (!v->address || v->address->block < 0)
        return NULL;
    const Block *b = &p->memory->block[v->address->block];
    int stage = value_stage(p, v);
    return !b->coordinate ||
                   (stage >= 0 && b->coordinate == coordinate_of(p, stage) + 1)
               ? NULL
               : arena_printf(p->arena, "%%%s is in '%s', which only coordinate %d has",
                              v->name, b->name, b->coordinate - 1);
}

/* The bytes that a coordinate has of a value. */
static int64_t bytes_on(const Program *p, const Value *v, int coordinate)
{
    const Mesh *m = &p->mesh;
    int64_t bytes = v->address->row ? type_local_layers(&v->type, m) * v->address->row
                                    : type_local_bytes(&v->type, m);
    int cut = type_cut(&v->type);
    return !cut ? bytes
                : bytes / cut_most(m, cut, pipeline_axis(p)) *
                      rank_rows(p, cut, coordinate);
}

/* Of a block that coordinates use in part, an op accesses only the rank's rows. */
static const char *check_rows(const Program *p, const Op *op, const Value *v)
{
    const Address *at = v->address;
    const Block *b = at && at->block >= 0 ? &p->memory->block[at->block] : NULL;
    if (!b || !b->on || at->nstrides)
        return NULL;
    bool fits = op_follows_rows(op);
    for (int c = 0; c < pipeline_ranks(p); c++)
        fits &= bytes_on(p, v, c) <= b->on[c];
    return fits ? NULL
                : arena_printf(p->arena, "%s accesses more of '%s' than a coordinate "
                               "has", op_info(op->kind)->name, b->name);
}

static const char *check_blocks(const Program *p, const Region *r)
{
    const char *fault = NULL;
    for (int i = 0; i < r->nargs && !fault; i++)
        fault = check_value(p, r->arg[i]);
    for (const Op *op = r->first; op && !fault; op = op->next) {
        for (int i = 0; i < op->nargs && !fault; i++)
            fault = check_rows(p, op, op->arg[i]);
        for (int i = 0; i < op->nouts && !fault; i++) {
            fault = check_value(p, op->out[i]);
            fault = fault ? fault : check_rows(p, op, op->out[i]);
        }
        if (op->kind == OP_loop && !fault)
            fault = check_blocks(p, op->body);
    }
    return fault;
}

const char *stages_check(const Program *p)
{
    if (pipeline_axis(p) < 0)
        return NULL;
    const char *fault = check_transfers(p);
    fault = fault ? fault : check_blocks(p, p->step);
    const Op *loop = pipeline_loop(p);
    if (!fault && (loop || (!program_trains(p) && rank_stages(p) > 1)))
        fault = check_all_pairs(p, loop ? loop->body : pipeline_forward_region(p));
    return fault || !loop ? fault : check_buffers(p, loop);
}
