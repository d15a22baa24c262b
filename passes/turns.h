/* turns.h: an axis in time becomes a loop.
 *
 * A program on a mesh with an axis in time says what every turn holds of each
 * value: Shard(d) is the turn's part of dim d, Partial what the turns add up
 * to, Replicate what is the same in all of them. From there a loop follows:
 *
 *   before, on mesh dp=2 : micro=4
 *     %x = input{input=0} : f32[64/(micro·dp), 8] forward
 *     %y = exp %x : f32[64/(micro·dp), 8] forward
 *     %s = sum{dims=[0, 1], …} %y : f32[]+dp+micro forward
 *     %t = all_reduce{axes={dp, micro}} %s : f32[] forward
 *   after, on mesh dp=2
 *     %x = input{input=0} : f32[4 x 16/dp, 8] forward
 *     %zero = full{value=0, …} : f32[]+dp forward
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
 *   turns.c        the loop
 *   turns_order.c  which ops run in it, and what stands before and behind
 *   turns_type.c   types without the axis
 *   turns_sum.c    sums over the turns, added up where they are made
 */
#ifndef PARC_PASSES_TURNS_H
#define PARC_PASSES_TURNS_H

#include "ir/ir.h"
#include "passes/value_map.h"

typedef VEC(Op *) OpVec;
typedef VEC(Value *) ValueVec;

typedef struct Turns {
    Program *p;
    Region *r;
    int axis;
    int64_t n;       /* turns */
    uint32_t nops;   /* ids below this are known to `inside` */
    bool *inside;    /* by op id: ops of r that run in every turn */
    OpVec total;     /* the all-reduces over the axis that the loop ends with */
    OpVec gather;    /* the all-gathers over it: their parts are stacked */
    const char *path; /* the module that the loop is for; "" */
    Loc loc;
} Turns;

/* ---- turns_order.c ------------------------------------------------------- */

bool turns_over(const Op *op, int axis); /* a conversion that names the axis */
bool turns_differs(const Value *v, int axis); /* between turns */
/* Whether the op is part of a turn: what it reads or makes differs between
 * turns. Its body's values count. */
bool turns_touch(const Op *op, int axis);
/* Marks what depends on v, by value id, among the ops of the region. */
void turns_mark_users(const Region *r, const Value *v, bool *depends);
bool turns_reads_any(const Op *op, const bool *values);
/* Draws ops into the loop that it alone reads and that are cheap, or gather a
 * unit: what they make need not lie beside the loop. */
void turns_sink(Turns *t);
/* The op in front of which the loop goes: the first that depends on it.
 * What the loop reads is moved in front of it. NULL: the region's end. */
Op *turns_place(Turns *t);

/* ---- turns_type.c -------------------------------------------------------- */

/* The type of one turn's part. */
Type turns_part(const Turns *t, Type whole);
/* The same as a stack of all turns. */
Type turns_stack(const Turns *t, Type whole);
/* Types and attributes of the op and its body as they are in one turn. */
void turns_strip(const Turns *t, Op *op);

/* ---- turns_sum.c --------------------------------------------------------- */

/* A zero of the type in front of b->before; a stack is filled by a loop. */
Value *turns_zero(Build *b, const Type *t, const char *hint);
/* sum + x, both of region r, made where x is: inside the loop that stacks x,
 * or starting the loop's own sum at `sum`, so that x never exists beside it.
 * `alone`: nothing but the sum needs x. */
Value *turns_add(Program *p, Region *r, Value *sum, Value *x, bool alone);

/* Sums of loops that are then added to a carry start at that carry. */
void turns_continue(Program *p, Region *r);

/* ---- turns.c ------------------------------------------------------------- */

/* Moves the ops that are inside into a loop; totals become its carries, then
 * what is left of their all-reduces. */
void turns_make_loop(Turns *t);

#endif
