/* kernel_numbers.h: operands for kernels that run in two versions, and the
 * distance of the two results. */
#ifndef PARC_TESTS_UNIT_KERNEL_NUMBERS_H
#define PARC_TESTS_UNIT_KERNEL_NUMBERS_H

#include "ir/ir.h"

/* Fills n elements of a value's type: small integers, the random key in 53
 * bits, and floats of a kind: "any", or one that a maximum and sums of
 * exponentials along the last dim might stumble over: "large", "rising",
 * "falling", "masked" (-inf in most columns), "lowest" (the lowest of numbers
 * there), "infinite" (-inf throughout). False: there is no such kind. */
bool kernel_numbers(const Value *v, void *at, int64_t n, uint64_t *state,
                    const char *kind);

/* How far apart two results are, of the largest number among them; a place of
 * 16 bits is allowed where both rounded. */
double kernel_distance(DType t, const void *x, const void *y, int64_t n);

#endif
