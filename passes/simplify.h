/* simplify.h: the parts of the pass simplify. */
#ifndef PARC_PASSES_SIMPLIFY_H
#define PARC_PASSES_SIMPLIFY_H

#include "ir/ir.h"

/* simplify_loops.c: what goes into or comes out of a loop twice, or passes
 * through it unchanged, in this region and below. */
void simplify_loops(Program *p, Region *r);

/* simplify_shares.c: one take_share for all scalars of one sum. */
void simplify_shares(Program *p);

/* simplify_summands.c: what one rank adds to a partial sum is added behind its
 * reduction. */
void simplify_summands(Program *p, Region *r);

/* simplify_late.c: gradients of shared heads are summed late. */
void simplify_late(Program *p, Region *r);

/* simplify_buckets.c: independent all-reduces over the same axes become one. */
void simplify_buckets(Program *p, Region *r);

#endif
