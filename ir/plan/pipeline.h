/* pipeline.h: finds the axis of the plan's pipeline, and what a rank runs of a
 * loop. */
#ifndef PARC_IR_PLAN_PIPELINE_H
#define PARC_IR_PLAN_PIPELINE_H

#include "ir/memory.h"

/* The axis whose coordinates run the stages; -1: the plan has no pipeline, or the
 * axis has one rank, which runs the program as without one. */
static inline int pipeline_axis(const Program *p)
{
    for (int a = 0; a < p->mesh.n; a++)
        if (p->plan.pipeline.axes >> a & 1 && p->mesh.size[a] > 1)
            return a;
    return -1;
}

/* The number of stages on all ranks, and of coordinates, which run stages number
 * coordinate, coordinate + pipeline_ranks, …; 0: no pipeline. */
int pipeline_stage_count(const Program *p);
int pipeline_ranks(const Program *p);
/* The stages of each rank; without a pipeline 1. */
static inline int rank_stages(const Program *p)
{
    int ranks = pipeline_ranks(p);
    return ranks ? pipeline_stage_count(p) / ranks : 1;
}

/* The coordinate that runs the stage. */
static inline int coordinate_of(const Program *p, int stage)
{
    return stage_coordinate(&p->mesh, pipeline_axis(p), stage);
}

/* The rows of a stack with the cut that the stage has. */
int64_t stage_rows(const Program *p, int cut, int stage);
/* Those that a rank has, of all its stages. */
int64_t rank_rows(const Program *p, int cut, int coordinate);
/* The elements of a tensor that a rank of the coordinate stores. */
int64_t coordinate_elements(const Program *p, const Type *t, int coordinate);
/* Whether an op accesses only the rows that the rank has of a stack. */
bool op_follows_rows(const Op *op);
/* Of the rows that a rank has of a stack with the cut: how many precede those of the
 * stage. */
int64_t stage_row(const Program *p, int cut, int stage);
/* The rank's buffers of a rotation that precede those of the stage. */
int64_t rotation_first(const Program *p, int rotation, int stage);
/* The number of buffers that a stage has, at least 1: emitted code takes numbers modulo
 * it on every stage, also on those without buffers. */
int64_t rotation_modulo(const Program *p, int rotation, int stage);
/* The number of the buffer at the address, along the stride of the staged loop, that a
 * stage uses for a microbatch. */
int64_t stage_buffer(const Program *p, const Address *at, int stage, int64_t micro);
/* The rows of the stage that has the most. */
int64_t stage_most_rows(const Program *p, int cut);

/* The loop over microbatches in which the stages overlap; NULL: none. */
const Op *pipeline_loop(const Program *p);

/* The region of the forward pass of a microbatch, in which stages send. */
Region *pipeline_forward_region(const Program *p);

/* The stage that has v, or runs the op; -1: several. What ranks do for a transfer
 * follows from the op. */
int value_stage(const Program *p, const Value *v);
int op_stage(const Program *p, const Op *op);

/* Whether the op transfers tensors from stage to stage: carries of a loop, or those
 * that a move sends to another stage. */
bool op_transfers(const Op *op);
/* Whether the stage has no neighbor to send to, or to receive from: it is the first or
 * the last that runs the loop of the op. */
bool transfer_is_at_end(const Program *p, const Op *op, int stage);
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

/* The fewest iterations that run without interruption: one round; on a rank, or in a staged loop or
 * a side program on a stage. */
int64_t loop_least_trips(const Program *p, const Op *loop);

/* How often a step runs an op on the ranks of a coordinate (0 without a pipeline). Of an
 * op that transfers: how often they send or receive for it; if `sends`, only send. */
int64_t op_coordinate_count(const Program *p, const Op *op, int coordinate, bool sends);

/* How often a step runs an op on the rank that runs it most often. */
static inline int64_t op_rank_count(const Program *p, const Op *op)
{
    int64_t n = 1;
    for (const Op *loop = op_loop(op); loop; loop = op_loop(loop))
        n *= loop_rank_trips(p, loop);
    return n;
}

#endif
