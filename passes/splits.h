/* splits.h: which split of its factors serves an op best.
 *
 * For every mesh axis an op splits one of its factors, or passes a Partial
 * on, or does the same on all ranks (rules.h). A choice for all axes at once
 * fixes how it wants its operands and how its results are placed; what it
 * costs is the time to convert the operands, and to convert the results to
 * what their readers want. `propagate` chooses with the readers in view,
 * `partition` finds the choice again from the placement of the results.
 */
#ifndef PARC_PASSES_SPLITS_H
#define PARC_PASSES_SPLITS_H

#include "ir/ir.h"
#include "ir/rules.h"

/* Placements that a value's readers want, each once. */
enum { MAX_DEMANDS = 12 };
typedef struct Demand {
    uint32_t axes; /* those that matter; the others may be as they are */
    uint32_t either; /* axes on which it is Partial and may be Replicate */
    Placement place;
} Demand;
typedef struct Demands {
    int n;
    Demand at[MAX_DEMANDS];
} Demands;
void demands_add(Demands *list, const Demand *d);

enum { MAX_RESULTS = 3 }; /* of an op that has a sharding rule */

typedef struct Choice {
    Split split[MAX_AXES];
    Placement *want;            /* of each operand of the rule */
    Placement out[MAX_RESULTS];
    double seconds;
} Choice;

typedef struct Splits Splits;

/* Whether a conversion of op's operand i to `want` is made for another reader
 * anyway. */
typedef bool SplitsShared(void *context, const Op *op, int i,
                          const Placement *want);

Splits *splits_new(Program *p, SplitsShared *shared, void *context);
const Rule *splits_rule(Splits *s, const Op *op);

/* The modelled time of a conversion, remembered. */
double splits_convert(Splits *s, const Type *from, const Placement *to);
/* The same to the cheapest placement that meets a demand. */
double splits_meet(Splits *s, const Type *from, const Demand *d);

/* The cheapest choice for an op whose results are wanted as `demand[0 …]`
 * says. `now`, or NULL: the choice that stays unless another is cheaper. */
void splits_choose(Splits *s, const Op *op, const Demands *demand,
                   const Choice *now, Choice *best);

/* The cheapest choice that gives the results the placements that they have;
 * false where there is none. */
bool splits_recover(Splits *s, const Op *op, Choice *best);

#endif
