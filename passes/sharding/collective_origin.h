/* collective_origin.h: finds which part of the step causes a collective.
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
    bool places; /* the plan places parameters: `w: Shard(0)` */
} Origins;

/* Marks the parts of the step. requires: STAGE_PLACED,
 * boundaries in place */
void origins_find(Origins *o, Program *p);

/* The reason why the value of a boundary is converted from `from` to `to`. */
Why origin_of_boundary(const Origins *o, const Op *boundary, const Value *from,
                       const Placement *to);
/* The reason why op's operand `from` is converted to `want`. */
Why origin_of_operand(const Origins *o, const Op *op, const Value *from,
                      const Placement *want);
/* The reason why a value that a loop carries or stacks is converted to the
 * placement of `like`. */
Why origin_of_carry(const Origins *o, const Value *from, const Value *like);

#endif
