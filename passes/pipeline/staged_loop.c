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
    bool backward = op->phase == PH_BACKWARD;
    if (op->kind == OP_receive)
        return backward ? MOMENT_RECEIVE_GRADIENT : MOMENT_RECEIVE;
    if (op->kind == OP_send)
        return backward ? MOMENT_SEND_GRADIENT : MOMENT_SEND;
    return backward ? MOMENT_BACKWARD : MOMENT_FORWARD;
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

/* Whether the stage has that moment. */
static bool has_moment(const Timetable *t, int stage, Moment x)
{
    bool first = stage == 0, last = stage == t->nstages - 1;
    return x == MOMENT_FORWARD || x == MOMENT_BACKWARD ||
           (x == MOMENT_WEIGHTS && t->weights_apart) ||
           ((x == MOMENT_RECEIVE || x == MOMENT_SEND_GRADIENT) && !first) ||
           ((x == MOMENT_SEND || x == MOMENT_RECEIVE_GRADIENT) && !last);
}

static int64_t buffers_of(const Timetable *t, int stage, Moment first, Moment last)
{
    const Actions *rank = &t->rank[stage % t->nranks];
    int64_t now = 0, most = 0;
    while (first < last && !has_moment(t, stage, first))
        first++;
    while (last > first && !has_moment(t, stage, last))
        last--;
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

int64_t staged_buffers(const Timetable *t, Moment first, Moment last)
{
    int64_t most = 1;
    for (int s = 0; s < t->nstages; s++) {
        int64_t n = buffers_of(t, s, first, last);
        most = n > most ? n : most;
    }
    return most;
}
