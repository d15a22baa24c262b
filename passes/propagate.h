/* propagate.h: what the files of the pass propagate share.
 *
 *   propagate.c         sweeps over the program, loops
 *   propagate_demand.c  what the readers of a value want
 *   propagate_why.c     reasons for placements, and what the user must know
 *   propagate_fixed.c   ops without a sharding rule (partition uses it, too)
 */
#ifndef PARC_PASSES_PROPAGATE_H
#define PARC_PASSES_PROPAGATE_H

#include "passes/layouts.h"
#include "passes/splits.h"

/* A reader of a value: operand `index` of op, or, under `yield`, yield number
 * `index` of the loop op. */
typedef struct Use {
    Op *op;
    int index;
    bool yield;
} Use;

typedef struct Propagate {
    Program *p;
    Splits *splits;
    Choice **choice;      /* by op id; NULL: not decided yet, or no rule */
    Constraint **layout;  /* by op id: of boundaries, by axis */
    int *first_use;       /* by value id, into use; one more at the end */
    Use *use;
    bool *settled;        /* by op id: loops whose carries were decided */
    bool changed;
} Propagate;

/* ---- propagate_fixed.c --------------------------------------------------- */

/* Whether the op's placements follow from the program alone, without a
 * choice: param, input, scalar, finish_grad, update, assign, output, and the
 * sum of squares of a finished gradient. */
bool op_is_fixed(const Op *op);
/* How such an op wants operand i, by what it is now. */
Placement fixed_want(const Program *p, const Op *op, int i);
/* How it places result o, by its operands. */
Placement fixed_place(const Program *p, const Op *op, int o);

/* The axes on which a boundary asks for something, and how its operand is
 * best made there (from) or how its result is placed (to). */
uint32_t constrained_axes(const Constraint by_axis[MAX_AXES], bool from,
                          AxisPlace with[MAX_AXES]);

/* ---- propagate_demand.c -------------------------------------------------- */

void propagate_find_uses(Propagate *g);
/* Adds what the readers of v want as far as they are decided. */
void propagate_demands(const Propagate *g, const Value *v, Demands *list);
/* SplitsShared: whether another reader of operand i wants the same. */
bool propagate_shared(void *context, const Op *op, int i,
                      const Placement *want);

/* ---- propagate_why.c ----------------------------------------------------- */

/* Fills Value.why, and reports splits that the plan wants and an op cannot
 * follow (heads that an axis does not divide). */
void propagate_explain(Propagate *g);

#endif
