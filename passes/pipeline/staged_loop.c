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

Moment staged_moment(const Op *loop, const Op *op)
{
    if (op->kind == OP_barrier)
        op = attr_op(op);
    while (op_loop(op) != loop)
        op = op_loop(op);
    if (op->stream == STREAM_TRANSFER)
        op = transfer_at(op);
    bool backward = op->phase == PH_BACKWARD;
    if (op->kind == OP_receive)
        return backward ? MOMENT_RECEIVE_GRADIENT : MOMENT_RECEIVE;
    if (op->kind == OP_send)
        return backward ? MOMENT_SEND_GRADIENT : MOMENT_SEND;
    return backward ? MOMENT_BACKWARD : MOMENT_FORWARD;
}

Moment staged_moment_on(const Program *p, const Op *loop, const Op *op, int stage)
{
    for (;; op = op_loop(op)) {
        int of = op_stage(p, op);
        if (of >= 0 && of != stage)
            return MOMENTS;
        if (op_loop(op) == loop)
            break;
    }
    if (!op_transfers(op))
        return staged_moment(loop, op);
    int last = pipeline_stage_count(p) - 1;
    int end = attr_reverse(op) == (op->kind == OP_receive) ? last : 0;
    return stage != end                 ? staged_moment(loop, op)
           : op->phase == PH_BACKWARD ? MOMENT_BACKWARD
                                      : MOMENT_FORWARD;
}

Op *staged_phase_end(const Op *loop, Phase phase)
{
    Op *op = loop->body->first;
    while (op && op->phase <= phase)
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
