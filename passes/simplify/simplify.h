/* simplify.h: declarations that the files of the pass simplify share. */
#ifndef PARC_PASSES_SIMPLIFY_SIMPLIFY_H
#define PARC_PASSES_SIMPLIFY_SIMPLIFY_H

#include "ir/ir.h"

/* simplify_loops.c: removes duplicate operands and results of loops, and values
 * that pass through a loop unchanged, in this region and inner ones. */
void simplify_loops(Program *p, Region *r);

/* simplify_exchanges.c: saves the results of all-to-alls for the backward pass. */
void simplify_exchanges(Program *p, Region *r);

/* simplify_shares.c: one mask_to_partial for all scalar terms of a sum. */
void simplify_shares(Program *p);

/* simplify_summands.c: a term that one rank adds to a partial sum is added
 * after the reduction. */
void simplify_summands(Program *p, Region *r);

/* defer_reduce.c: sums gradients of shared KV heads as late as possible. */
void defer_reduce(Program *p, Region *r);

/* simplify_buckets.c: joins independent all-reduces over the same axes, and all-to-alls. */
void simplify_buckets(Program *p, Region *r);

#endif
