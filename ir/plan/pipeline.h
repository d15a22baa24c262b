/* pipeline.h: finds the axis of the plan's pipeline, and what a rank runs of a
 * loop. */
#ifndef PARC_IR_PLAN_PIPELINE_H
#define PARC_IR_PLAN_PIPELINE_H

#include "ir/ir.h"

/* The axis whose coordinates run the stages; -1: the plan has no pipeline, or the
 * axis has one rank, which runs the program as without one. */
static inline int pipeline_axis(const Program *p)
{
    for (int a = 0; a < p->mesh.n; a++)
        if (p->plan.pipeline.axes >> a & 1 && p->mesh.size[a] > 1)
            return a;
    return -1;
}

/* The number of stages on all ranks; 0: no pipeline. */
int pipeline_stage_count(const Program *p);

/* The loop over microbatches in which the stages overlap; NULL: none. */
const Op *pipeline_loop(const Program *p);

/* The stage that has v, or runs the op; -1: several. What ranks do for a transfer
 * follows from the op. */
int value_stage(const Program *p, const Value *v);
int op_stage(const Program *p, const Op *op);

/* Whether the op transfers carries of a loop from stage to stage. */
static inline bool op_transfers(const Op *op)
{
    return op->kind == OP_receive || op->kind == OP_send;
}
/* The transfer that an `await` of STREAM_TRANSFER precedes, or a `post` follows;
 * NULL: there is none. */
const Op *transfer_at(const Op *op);

/* The iterations of a loop on the rank that runs the most of them. A loop with a
 * cut has the iterations of a rank's stages, numbered from 0. */
static inline int64_t loop_rank_trips(const Program *p, const Op *loop)
{
    return loop->cut ? cut_most(&p->mesh, loop->cut, pipeline_axis(p))
                     : loop_trips(loop);
}

/* On the rank that runs the fewest of them. */
int64_t loop_least_trips(const Program *p, const Op *loop);

/* How often a step runs an op on the rank that runs it most often. */
static inline int64_t op_rank_count(const Program *p, const Op *op)
{
    int64_t n = 1;
    for (const Op *loop = op_loop(op); loop; loop = op_loop(loop))
        n *= loop_rank_trips(p, loop);
    return n;
}

#endif
