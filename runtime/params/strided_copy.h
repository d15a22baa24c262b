/* strided_copy.h: represents a strided copy (sizes, and strides of both sides)
 * with as few dims as possible. The copies of both targets use it: fewer dims
 * mean longer contiguous runs and less index arithmetic.
 *
 * example: [2, 3, 4] from a contiguous tensor becomes one dim of 24 elements */
#ifndef PARC_RT_STRIDED_COPY_H
#define PARC_RT_STRIDED_COPY_H

#include <stdint.h>

#include "common/type.h"
#include "parc_rt.h"

typedef struct RtStridedCopy {
    int n; /* number of dims, outermost first */
    int64_t dim[PARC_MAX_DIMS + PARC_MAX_STACK];
    int64_t dst[PARC_MAX_DIMS + PARC_MAX_STACK];
    int64_t src[PARC_MAX_DIMS + PARC_MAX_STACK];
} RtStridedCopy;

/* Appends an innermost dim. It drops dims of size 1, and merges the dim with
 * the previous one if both are contiguous with it. */
static inline void rt_strided_copy_add(RtStridedCopy *b, int64_t dim,
                                       int64_t dst, int64_t src)
{
    int last = b->n - 1;
    if (dim == 1)
        return;
    if (last >= 0 && b->src[last] == src * dim && b->dst[last] == dst * dim) {
        b->dim[last] *= dim;
    } else {
        last = b->n++;
        b->dim[last] = dim;
    }
    b->src[last] = src;
    b->dst[last] = dst;
}

/* A copy to a row-major tensor of shape dim[] from a tensor with any strides.
 * The result has at least one dim. */
static inline RtStridedCopy rt_strided_copy(int ndim, const int64_t *dim,
                                            const int64_t *src_stride)
{
    RtStridedCopy b = {0};
    int64_t dst = rt_elements(dim, ndim);
    for (int d = 0; d < ndim && dst > 0; d++) {
        dst /= dim[d];
        rt_strided_copy_add(&b, dim[d], dst, src_stride[d]);
    }
    if (b.n == 0) {
        b.n = 1;
        b.dim[0] = dst > 0;
        b.dst[0] = b.src[0] = 1;
    }
    return b;
}

static inline int64_t rt_strided_copy_elements(const RtStridedCopy *b)
{
    return rt_elements(b->dim, b->n);
}

#endif
