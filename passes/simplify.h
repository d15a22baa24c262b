/* simplify.h: the parts of the pass simplify. */
#ifndef PARC_PASSES_SIMPLIFY_H
#define PARC_PASSES_SIMPLIFY_H

#include "ir/ir.h"

/* simplify_loops.c: what goes into or comes out of a loop twice, or passes
 * through it unchanged, in this region and below. */
void simplify_loops(Program *p, Region *r);

/* simplify_buckets.c: independent all-reduces over the same axes become one. */
void simplify_buckets(Program *p, Region *r);

#endif
