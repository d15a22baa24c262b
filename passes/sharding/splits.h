/* splits.h: the cheapest split of an op's factors.
 *
 * For every mesh axis an op splits one of its factors, or passes on a Partial,
 * or computes the same on all ranks (rules.h). A choice for all axes determines
 * the placements that it requires of its operands, and those of its results.
 * Its cost is the time to convert the operands, and to convert the results to
 * the placements that their readers want. `propagate` chooses with regard to
 * the readers, and records in Op.needs what the choice requires.
 */
#ifndef PARC_PASSES_SHARDING_SPLITS_H
#define PARC_PASSES_SHARDING_SPLITS_H

#include "ir/ir.h"
#include "ir/rules/rules.h"

/* The placements that a value's readers want, without duplicates. */
enum { MAX_DEMANDS = 12 };
typedef struct Demand {
    uint32_t axes; /* axes that matter; the others may have any placement */
    uint32_t either; /* axes on which it is Partial and may be Replicate */
    Placement place;
} Demand;
typedef struct Demands {
    int n;
    Demand at[MAX_DEMANDS];
} Demands;
void demands_add(Demands *list, const Demand *d);

enum { MAX_RESULTS = 4 }; /* results of an op that has a sharding rule */

typedef struct Choice {
    Split split[MAX_AXES];
    Placement *want;            /* for each operand of the rule */
    Placement out[MAX_RESULTS];
    double seconds;
} Choice;

typedef struct Splits Splits;

/* Whether a conversion of op's operand i to `want` exists for another
 * reader. */
typedef bool SplitsShared(void *context, const Op *op, int i,
                          const Placement *want);

Splits *splits_new(Program *p, SplitsShared *shared, void *context);
const Rule *splits_rule(Splits *s, const Op *op);

/* The modelled time of a conversion, memoized. */
double splits_convert(Splits *s, const Type *from, const Placement *to);
/* The modelled time of a conversion to the cheapest placement that satisfies a
 * demand. */
double splits_demand_cost(Splits *s, const Type *from, const Demand *d);

/* The cheapest choice for an op whose results have these demands. `now`, or
 * NULL: the present choice, which stays unless another is cheaper. */
void splits_choose(Splits *s, const Op *op, const Demands *demand,
                   const Choice *now, Choice *best);

#endif
