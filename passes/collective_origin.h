/* collective_origin.h: which part of the step asks for a collective.
 *
 * partition.c makes the collectives and has their reasons from here. `now`
 * maps a value to what replaces it: the results of boundaries that are still
 * in the program, but no longer read.
 */
#ifndef PARC_PASSES_COLLECTIVE_ORIGIN_H
#define PARC_PASSES_COLLECTIVE_ORIGIN_H

#include "ir/ir.h"

typedef struct Origins {
    Program *p;
    bool *loss;       /* by op id: a forward op that no parameter follows */
    bool *tail;       /* by op id: a backward op that only moves or scales the
                         gradient of a parameter */
    VEC(const Op *) loss_op;
} Origins;

/* Reads the program once. requires: STAGE_PLACED, boundaries in place */
void origins_find(Origins *o, Program *p);

/* Why the value of a boundary is converted from `from` to `to`. */
Why origin_of_boundary(const Origins *o, const Op *boundary, const Value *from,
                       const Placement *to);
/* Why operand i of op, which is `from`, is converted to `want`. */
Why origin_of_operand(const Origins *o, const Op *op, int i, const Value *from,
                      const Placement *want);
/* Why a value that a loop carries or stacks is converted to be placed as
 * `like`. */
Why origin_of_carry(const Origins *o, const Value *from, const Value *like);

/* "tp P -> R": the axes on which v is placed otherwise than `to`. */
const char *placement_change(const Program *p, const Value *v,
                             const Placement *to);

/* The value that v is computed from, through loops' arguments and ops that
 * keep its elements apart; the op that contracts, looks up or attends ends the
 * walk. */
const Op *producer_of(const Value *v);

/* ---- plan_advice.c ------------------------------------------------------- */

/* A conversion that no style asks for. `op` is NULL where a loop carries the
 * value. */
typedef struct Implied {
    const Program *p;
    const Op *op;
    int operand, axis; /* the first axis that changes */
    const Value *from;
    const Placement *to;
    const Op *source;  /* a Partial's: the op that leaves it; or NULL */
    const Value *carry; /* the loop's, that it is handed to; or NULL */
} Implied;

/* The lines of a plan that would avoid it, one after another ("\n"), or NULL. */
const char *plan_advice(const Implied *x);

/* The lines of a plan that split a matmul or attention over the axis, or
 * NULL. */
const char *plan_split_advice(const Program *p, const Op *op, int axis);

/* The declared module of that path, or NULL. */
const Module *module_of_path(const Program *p, const char *path);

#endif
