/* attention_reference.h: attention and its gradient in double precision, for tests of the
 * runtime. */
#ifndef PARC_TESTS_UNIT_ATTENTION_REFERENCE_H
#define PARC_TESTS_UNIT_ATTENTION_REFERENCE_H

#include "runtime/parc_attention.h"

/* Elements of the tensors of a call. */
typedef struct AttentionSizes {
    int64_t q, k, v, o, lse, bias;
} AttentionSizes;
AttentionSizes attention_sizes(const ParcAttention *a);

/* New arrays of n elements. */
float *random_floats(int64_t n, int64_t seed);
float *zero_floats(int64_t n);
double *zero_doubles(int64_t n);

/* A call's operands, and sums that start at 0. */
typedef struct AttentionReference {
    const ParcAttention *a;
    const float *q, *k, *v, *d_o;
    double *o, *lse, *dq, *dk, *dv, *dbias, *p, *dp; /* p, dp: one row */
} AttentionReference;
/* Adds query i of head h of sequence b: its output, its lse and its gradients. */
void attention_reference(AttentionReference *x, int64_t b, int64_t h, int64_t i);

/* The largest difference of n numbers, relative to the largest number. */
double relative_distance(const float *is, const double *should, int64_t n);

#endif
