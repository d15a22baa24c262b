/* pipeline.c: finds the loop that the stages of a pipeline run, and the stage of
 * an op. */
#include "ir/plan/pipeline.h"

int pipeline_stage_count(const Program *p)
{
    int axis = pipeline_axis(p);
    return axis < 0 ? 0
                    : (int)(p->mesh.size[axis] *
                            pipeline_stages_per_rank(&p->plan.pipeline));
}

const Op *pipeline_loop(const Program *p)
{
    const Op *op = p->step->first;
    while (op && !op->staged)
        op = op->next;
    return op;
}

const Op *transfer_at(const Op *op)
{
    bool before = op->kind == OP_await;
    while (op && !op_transfers(op))
        op = before ? op->next : op->prev;
    return op;
}

int value_stage(const Program *p, const Value *v)
{
    int axis = pipeline_axis(p);
    if (axis < 0 || v->type.place.ax[axis].kind != AX_AT)
        return -1;
    return v->type.place.ax[axis].dim;
}

int64_t loop_least_trips(const Program *p, const Op *loop)
{
    int64_t least = loop_trips(loop);
    int axis = pipeline_axis(p);
    for (int64_t c = 0; loop->cut && c < p->mesh.size[axis]; c++) {
        const StageCut *cut = &p->mesh.cut[loop->cut - 1];
        int64_t n = 0;
        for (int64_t s = c; s < cut->nstages; s += p->mesh.size[axis])
            n += cut->begin[s + 1] - cut->begin[s];
        least = n < least ? n : least;
    }
    return least;
}

/* The stage that runs all ops of a loop. */
static int loop_stage(const Program *p, const Op *loop)
{
    int found = -1;
    bool any = false;
    for (const Op *op = loop->body->first; op; op = op->next) {
        if (op_is_schedule(op->kind))
            continue;
        int stage = op_stage(p, op);
        if (stage < 0 || (any && stage != found))
            return -1;
        found = stage;
        any = true;
    }
    return found;
}

int op_stage(const Program *p, const Op *op)
{
    if (pipeline_axis(p) < 0)
        return -1;
    if (op->kind == OP_loop)
        return loop_stage(p, op);
    if (op->kind == OP_barrier)
        return op_stage(p, attr_op(op));
    if (op_is_hand_over(op->kind) && value_stage(p, op->arg[0]) >= 0)
        return -1;
    return op->nouts   ? value_stage(p, op->out[0])
           : op->nargs ? value_stage(p, op->arg[0])
                       : -1;
}
