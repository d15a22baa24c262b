/* rt_box.h: a box of elements between two sets of strides, in its simplest
 * form: what copies of both targets begin with. */
#ifndef PARC_RT_BOX_H
#define PARC_RT_BOX_H

#include <stdint.h>

#include "parc_rt.h"

typedef struct RtBox {
    int n; /* dims, outermost first */
    int64_t dim[PARC_MAX_DIMS + PARC_MAX_STACK];
    int64_t dst[PARC_MAX_DIMS + PARC_MAX_STACK];
    int64_t src[PARC_MAX_DIMS + PARC_MAX_STACK];
} RtBox;

/* One more dim, inside those there are: dims of 1 are dropped, and one that
 * runs on where the one outside it goes is joined with that. */
static inline void rt_box_add(RtBox *b, int64_t dim, int64_t dst, int64_t src)
{
    int last = b->n - 1;
    if (dim == 1) {
        return;
    }
    if (last >= 0 && b->src[last] == src * dim && b->dst[last] == dst * dim) {
        b->dim[last] *= dim;
    } else {
        last = b->n++;
        b->dim[last] = dim;
    }
    b->src[last] = src;
    b->dst[last] = dst;
}

/* Row-major to where dim[] says, from any strides. At least one dim. */
static inline RtBox rt_box(int ndim, const int64_t *dim,
                           const int64_t *src_stride)
{
    RtBox b = {0};
    int64_t dst = 1;
    for (int d = 0; d < ndim; d++) {
        dst *= dim[d];
    }
    for (int d = 0; d < ndim && dst > 0; d++) {
        dst /= dim[d];
        rt_box_add(&b, dim[d], dst, src_stride[d]);
    }
    if (b.n == 0) {
        b.n = 1;
        b.dim[0] = dst > 0;
        b.dst[0] = b.src[0] = 1;
    }
    return b;
}

static inline int64_t rt_box_elements(const RtBox *b)
{
    int64_t n = 1;
    for (int d = 0; d < b->n; d++) {
        n *= b->dim[d];
    }
    return n;
}

#endif
