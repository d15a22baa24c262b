/* staged_loop.c: finds what the stages do in a staged loop; see staged_loop.h. */
#include "passes/pipeline/staged_loop.h"

#include "ir/plan/pipeline.h"

Timetable staged_timetable(const Program *p, const Op *loop)
{
    const Pipeline *plan = &p->plan.pipeline;
    return timetable_new(p->arena, plan->schedule,
                         (int)p->mesh.size[pipeline_axis(p)],
                         (int)pipeline_stages_per_rank(plan), loop_trips(loop));
}

/* The op of the loop's body that `op` is, is in, or orders. */
static const Op *op_of_body(const Op *loop, const Op *op)
{
    if (op->kind == OP_barrier)
        op = attr_op(op);
    while (op_loop(op) != loop)
        op = op_loop(op);
    return op->stream == STREAM_TRANSFER ? transfer_at(op) : op;
}

static Moment moment_of(Phase phase, Moment forward)
{
    static const Moment backward[] = {[MOMENT_RECEIVE] = MOMENT_RECEIVE_GRADIENT,
                                      [MOMENT_FORWARD] = MOMENT_BACKWARD,
                                      [MOMENT_SEND] = MOMENT_SEND_GRADIENT};
    return phase == PH_WEIGHTS    ? MOMENT_WEIGHTS
           : phase == PH_BACKWARD ? backward[forward]
                                  : forward;
}

Moment staged_moment(const Op *loop, const Op *op)
{
    op = op_of_body(loop, op);
    return moment_of(op->phase, op->kind == OP_receive ? MOMENT_RECEIVE
                                : op_transfers(op)     ? MOMENT_SEND
                                                       : MOMENT_FORWARD);
}

bool staged_in_moment(const Op *loop, const Op *op, Moment at)
{
    op = op_of_body(loop, op);
    return staged_moment(loop, op) == at ||
           (op->kind == OP_move && op_transfers(op) &&
            moment_of(op->phase, MOMENT_RECEIVE) == at);
}

/* The moment of a move, or of what orders it: one stage sends, another receives. */
static Moment moment_of_move(const Program *p, const Op *move, int stage)
{
    return stage == value_stage(p, move->arg[0])
               ? moment_of(move->phase, MOMENT_SEND)
           : stage == value_stage(p, move->out[0])
               ? moment_of(move->phase, MOMENT_RECEIVE)
               : MOMENTS;
}

Moment staged_moment_on(const Program *p, const Op *loop, const Op *op, int stage)
{
    for (;; op = op_loop(op)) {
        int of = op_stage(p, op);
        if ((of >= 0 && of != stage) || (op->cut && !stage_rows(p, op->cut, stage)))
            return MOMENTS;
        if (op_loop(op) == loop)
            break;
    }
    const Op *of = op_of_body(loop, op);
    if (op_transfers(of) && of->kind == OP_move)
        return moment_of_move(p, of, stage);
    return op_transfers(op) && transfer_is_at_end(p, op, stage)
               ? moment_of(op->phase, MOMENT_FORWARD)
               : staged_moment(loop, op);
}

bool moment_receives(const Op *op, Moment at)
{
    return op_transfers(op) && op->kind != OP_send &&
           at == moment_of(op->phase, MOMENT_RECEIVE);
}

bool moment_sends(const Op *op, Moment at)
{
    return op_transfers(op) && op->kind == OP_move &&
           at == moment_of(op->phase, MOMENT_SEND);
}

Op *staged_phase_end(const Op *loop, Phase phase)
{
    Op *op = loop->body->first;
    while (op && op->phase <= phase)
        op = op->next;
    return op;
}

bool staged_has_phase(const Op *loop, Phase phase)
{
    const Op *op = loop->body->first;
    while (op && op->phase != phase)
        op = op->next;
    return op;
}

/* ---- buffers ------------------------------------------------------------- */

Moment action_moment(const Action *x)
{
    switch (x->kind) {
    case ACTION_FORWARD: return MOMENT_FORWARD;
    case ACTION_BACKWARD: return MOMENT_BACKWARD;
    case ACTION_WEIGHTS: return MOMENT_WEIGHTS;
    case ACTION_SEND: return x->gradient ? MOMENT_SEND_GRADIENT : MOMENT_SEND;
    case ACTION_RECEIVE: break;
    }
    return x->gradient ? MOMENT_RECEIVE_GRADIENT : MOMENT_RECEIVE;
}

int action_stage(const Action *x)
{
    return x->kind != ACTION_RECEIVE ? x->stage
           : x->gradient             ? x->stage - 1
                                     : x->stage + 1;
}

int64_t staged_buffers(const Timetable *t, int stage, Moment first, Moment last)
{
    const Actions *rank = &t->rank[stage % t->nranks];
    int64_t now = 0, most = 1;
    for (int i = 0; i < rank->n; i++) {
        const Action *x = &rank->at[i];
        if (action_stage(x) != stage)
            continue;
        now += action_moment(x) == first;
        most = now > most ? now : most;
        now -= action_moment(x) == last;
    }
    return most;
}
