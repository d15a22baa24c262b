/* uses.h: lists the readers (consumers) of every value, found once instead of
 * by a search of the region for each value.
 *
 * The index describes the program at the time of uses_find. A pass may use it
 * while it rewrites the program, if it needs the readers of that time. They
 * stay in order as long as the pass does not reorder readers of one value.
 */
#ifndef PARC_IR_ANALYSIS_USES_H
#define PARC_IR_ANALYSIS_USES_H

#include "ir/ir.h"

typedef struct Uses {
    uint32_t nvalues; /* ids from here on are not indexed */
    int *first;       /* by id: where the value's readers begin in `reader`;
                       * those of the next id begin where they end */
    Op **reader;      /* ops in program order, one that reads a value in
                       * several operands once */
    int *count;       /* by id: reads by operands and yields */
} Uses;

/* O(operands of the program). */
Uses uses_find(const Program *p);

/* The ops that read v, in order, and their number. None for a value that was
 * made after uses_find. */
static inline Op *const *uses_readers(const Uses *u, const Value *v, int *n)
{
    bool known = v->id < u->nvalues;
    *n = known ? u->first[v->id + 1] - u->first[v->id] : 0;
    return known ? u->reader + u->first[v->id] : NULL;
}

/* Lets the readers of `old`, as uses_find saw them, and the yields of its
 * region read `with`. */
void uses_replace(const Uses *u, const Value *old, Value *with);

#endif
