/* einsum.h: builds an einsum from the cheapest ops, for the gradient rules. */
#ifndef PARC_PASSES_AUTODIFF_EINSUM_H
#define PARC_PASSES_AUTODIFF_EINSUM_H

#include "ir/ir.h"

/* The einsum of x and y with its result in type t: sums and an elementwise
 * product where they suffice (einsum.c). */
Value *einsum_build(Build *b, const char *spec, DType t, Value *x, Value *y);

#endif
