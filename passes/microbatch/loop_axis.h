/* loop_axis.h: converts a loop axis of the mesh into a loop.
 *
 * A loop axis is a mesh axis whose work one rank does in the iterations of a
 * loop: the microbatches of gradient accumulation, the chunks of a head. In a
 * program with a loop axis, types say what an iteration holds: Shard(d) is the
 * iteration's part of dim d, Partial a value that the iterations sum up,
 * Replicate a value that is the same in all of them. The loop follows from the
 * types:
 *
 *   before, on mesh dp=2 : micro=4
 *     %x = input{input=0} : f32[64/(micro·dp), 8] forward
 *     %y = exp %x : f32[64/(micro·dp), 8] forward
 *     %s = sum{dims=[0, 1], …} %y : f32[]+dp+micro forward
 *     %t = all_reduce{axes={dp, micro}} %s : f32[] forward
 *   after, on mesh dp=2
 *     %x = input{input=0} : f32[4 x 16/dp, 8] forward
 *     %zero = zeros{type=f32, …} : f32[]+dp forward
 *     %t.2 = loop{n=4, reverse=false} : f32[]+dp forward {
 *       carry %sum = %zero : f32[]+dp
 *       stack %x.2 = %x : f32[16/dp, 8]
 *       %y = exp %x.2 : f32[16/dp, 8] forward
 *       %s = sum{dims=[0, 1], …} %y : f32[]+dp forward
 *       %sum.2 = add %sum, %s : f32[]+dp forward
 *       yield %sum.2
 *     }
 *     %t = all_reduce{axes={dp}} %t.2 : f32[] forward
 *
 *   loop_axis.c        builds the loop; computes types without the loop axis
 *   loop_axis_order.c  decides which ops run in the loop, before and after it
 *   loop_axis_sum.c    accumulates sums over the iterations in place
 */
#ifndef PARC_PASSES_MICROBATCH_LOOP_AXIS_H
#define PARC_PASSES_MICROBATCH_LOOP_AXIS_H

#include "ir/ir.h"
#include "passes/value_map.h"

typedef VEC(Op *) OpVec;
typedef VEC(Value *) ValueVec;

typedef struct LoopAxis {
    Program *p;
    Region *r;
    int axis;
    int64_t n;       /* iterations */
    uint32_t nops;   /* length of `inside` */
    bool *inside;    /* by op id: ops of r that run in every iteration */
    OpVec total;     /* all-reduces over the axis: their sums leave the loop as
                      * carries */
    OpVec gather;    /* all-gathers over the axis: their parts leave the loop
                      * as stacks */
    const char *path; /* the module that the loop belongs to; "" for none */
    Loc loc;
} LoopAxis;

/* Whether the op is moved into the loop; false for NULL. */
static inline bool loop_axis_has(const LoopAxis *t, const Op *op)
{
    return op && op->id < t->nops && t->inside[op->id];
}

/* ---- loop_axis_order.c --------------------------------------------------- */

/* Whether the op is a conversion over the axis. */
bool loop_axis_converts(const Op *op, int axis);
/* Whether v differs between iterations. */
bool loop_axis_varies(const Value *v, int axis);
/* Whether an operand or result of the op, or a value of its body, differs
 * between iterations. */
bool loop_axis_touches(const Op *op, int axis);
/* Marks v and the values that depend on it, by value id, in the region. */
void loop_axis_mark_users(const Region *r, const Value *v, bool *depends);
/* Marks the results of the loop and the values that depend on them. */
void loop_axis_mark_results(const LoopAxis *t, bool *depends);
/* Moves cheap ops and gathers of units that only the loop reads into the loop,
 * so that their results need no memory outside of it. */
void loop_axis_sink(LoopAxis *t);
/* The op that the loop is inserted before: the first that depends on it;
 * NULL: the region's end. Moves the producers of the loop's operands before
 * that op. */
Op *loop_axis_insertion_point(LoopAxis *t);

/* ---- loop_axis_sum.c ----------------------------------------------------- */

/* A zero of the type, stacked if the type is, built before b->before. */
Value *loop_axis_zero(Build *b, const Type *t, const char *hint);
/* sum + x, both of region r. Accumulates where x is computed, so that x is
 * never stored beside the sum: in the loop that stacks x, or by starting the
 * loop that carries x at `sum`. `alone`: only the sum reads x. */
Value *loop_axis_add(Program *p, Region *r, Value *sum, Value *x, bool alone);

/* Starts a loop's sum at the outer carry that it is added to after the loop. */
void loop_axis_continue(Program *p, Region *r);

/* ---- loop_axis.c --------------------------------------------------------- */

/* Updates attributes that repeat the size of the result. */
void loop_axis_fit_attributes(Op *op);
/* The type of a stack of the parts of all iterations. */
Type loop_axis_stack(const LoopAxis *t, Type whole);

/* Moves the ops that are inside into a loop. Totals become its carries; their
 * all-reduces over other axes stay after it. */
void loop_axis_make_loop(LoopAxis *t);

#endif
