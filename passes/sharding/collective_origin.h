/* collective_origin.h: finds which part of the step causes a collective, and
 * (plan_advice.c) which plan lines would avoid it.
 *
 * partition.c inserts the collectives and gets their reasons here.
 */
#ifndef PARC_PASSES_SHARDING_COLLECTIVE_ORIGIN_H
#define PARC_PASSES_SHARDING_COLLECTIVE_ORIGIN_H

#include "ir/ir.h"
#include "ir/analysis/uses.h"

/* By value id: the last search that visited the value, counted from 1. */
typedef struct Seen {
    uint32_t *at, now;
} Seen;

typedef struct Origins {
    Program *p;
    bool *loss;       /* by op id: a forward op after the last parameter */
    bool *tail;       /* by op id: a backward op that only moves or scales the
                       * gradient of a parameter */
    VEC(const Op *) loss_op;
    Uses uses; /* readers of values when origins_find ran */
    Seen *seen;
} Origins;

/* Marks the parts of the step. requires: STAGE_PLACED, boundaries in place */
void origins_find(Origins *o, Program *p);

/* The reason why the value of a boundary is converted from `from` to `to`. */
Why origin_of_boundary(const Origins *o, const Op *boundary, const Value *from,
                       const Placement *to);
/* The reason why operand i of op, which is `from`, is converted to `want`. */
Why origin_of_operand(const Origins *o, const Op *op, int i, const Value *from,
                      const Placement *want);
/* The reason why a value that a loop carries or stacks is converted to the
 * placement of `like`. */
Why origin_of_carry(const Origins *o, const Value *from, const Value *like);

/* ---- plan_advice.c ------------------------------------------------------- */

/* A conversion that no style requires. `op` is NULL if a loop carries the
 * value. */
typedef struct Implied {
    const Program *p;
    const Uses *uses;
    const Op *op;
    int operand, axis; /* the first axis that changes */
    const Value *from;
    const Placement *to;
    const Op *source;  /* for a Partial: the op that makes it; or NULL */
    const Value *carry; /* the loop's value that it becomes; or NULL */
} Implied;

/* The plan lines that would avoid the conversion, separated by "\n", or
 * NULL. */
const char *plan_advice(const Implied *x);

/* The plan lines that split a matmul or attention over the axis, or NULL. */
const char *plan_split_advice(const Program *p, const Op *op, int axis);

#endif
