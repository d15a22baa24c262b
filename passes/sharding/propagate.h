/* propagate.h: declarations that the files of the pass propagate share.
 *
 *   propagate.c         sweeps over the program and its loops
 *   propagate_demand.c  finds the placements that readers of a value want
 *   propagate_why.c     records reasons for placements, reports errors in the
 *                       plan
 *   propagate_fixed.c   places ops without a sharding rule (partition uses it,
 *                       too)
 */
#ifndef PARC_PASSES_SHARDING_PROPAGATE_H
#define PARC_PASSES_SHARDING_PROPAGATE_H

#include "ir/analysis/uses.h"
#include "passes/sharding/layouts.h"
#include "passes/sharding/splits.h"

typedef struct Propagate {
    Program *p;
    Splits *splits;
    Choice **choice;      /* by op id; NULL: not decided yet, or no rule */
    Constraint **layout;  /* by op id of a boundary, by axis */
    Uses uses;
    bool *settled;        /* by op id: the loop's carries were decided */
    bool changed;
} Propagate;

/* ---- propagate_fixed.c --------------------------------------------------- */

/* Whether the op's placements are determined without a choice: param, input,
 * scalar, finish_grad, update, assign, output, and the sum of squares of a
 * finished gradient. */
bool op_is_fixed(const Op *op);
/* The placement that a fixed op requires of operand i, given its present
 * one. */
Placement fixed_want(const Program *p, const Op *op, int i);
/* The placement of result o of a fixed op, given those of its operands. */
Placement fixed_place(const Program *p, const Op *op, int o);

/* The axes that a boundary constrains, and there the preferred placement of its
 * operand (from) or the placement of its result (to). */
uint32_t constrained_axes(const Constraint by_axis[MAX_AXES], bool from,
                          AxisPlace with[MAX_AXES]);

/* ---- propagate_demand.c -------------------------------------------------- */

/* Adds the placements that decided readers of v want. */
void propagate_demands(const Propagate *g, const Value *v, Demands *list);
/* SplitsShared: whether another reader of operand i wants the same
 * placement. */
bool propagate_shared(void *context, const Op *op, int i,
                      const Placement *want);

/* ---- propagate_why.c ----------------------------------------------------- */

/* Fills Value.why, and reports splits that the plan requires and an op cannot
 * follow (attention heads that an axis does not divide). */
void propagate_explain(Propagate *g);

#endif
