/* kernel_numbers.h: declares random operands for two implementations of a
 * kernel, and the comparison of their results. */
#ifndef PARC_TESTS_UNIT_KERNEL_NUMBERS_H
#define PARC_TESTS_UNIT_KERNEL_NUMBERS_H

#include "ir/ir.h"

/* Fills n elements of a value's type: small integers, the random key in 53
 * bits, or floats of a kind. The kind "any" has no structure. The others are
 * difficult for a maximum and sums of exponentials along the last dim: "large",
 * "rising", "falling", "masked" (-inf in most columns), "lowest" (there the
 * lowest finite number), "infinite" (all -inf). False: unknown kind. */
bool kernel_numbers(const Value *v, void *at, int64_t n, uint64_t *state,
                    const char *kind);

/* The largest finite magnitude among n numbers, at least `least`. */
double kernel_largest(DType t, const void *x, int64_t n, double least);
/* The distance of two results relative to the largest number of x, at least `least`. In
 * 16-bit types a unit in the last place is ignored, as both were rounded. */
double kernel_distance(DType t, const void *x, const void *y, int64_t n, double least);

#endif
