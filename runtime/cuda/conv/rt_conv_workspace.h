/* rt_conv_workspace.h: computes the workspace of a convolution on CUDA. parc plans it, cuDNN
 * uses it.
 *
 * cuDNN's kernels for 16 bits read and write channels last: engines copy the operands and the
 * result. Kernels that divide a long sum add its parts in f32. A gradient of 16-bit weights that
 * the program wants in f32 is computed in 16 bits, as no engine has two types, and then
 * converted.
 */
#ifndef PARC_RT_CONV_WORKSPACE_H
#define PARC_RT_CONV_WORKSPACE_H

#include "../../parc_conv.h"

/* Elements of what is computed, and of an operand. */
static inline int64_t rt_conv_elements(const ParcConvSpec *s, ParcConvResult which)
{
    return which == PARC_CONV_WEIGHT
               ? s->g * s->k * s->c * s->kernel[0] * s->kernel[1]
           : which == PARC_CONV_X ? s->n * s->g * s->c * s->image[0] * s->image[1]
                                  : s->n * s->g * s->k * s->result[0] * s->result[1];
}

static inline int64_t rt_conv_aligned(int64_t bytes)
{
    enum { CONV_ALIGNMENT = 256 };
    return (bytes + CONV_ALIGNMENT - 1) / CONV_ALIGNMENT * CONV_ALIGNMENT;
}

/* Bytes of the result in the operands' type, at the start of the workspace; 0: the program
 * wants this type. */
static inline int64_t rt_conv_narrow_bytes(const ParcConvSpec *s)
{
    return s->type == s->out ? 0 : rt_conv_aligned(2 * rt_conv_elements(s, s->computes));
}

static inline int64_t rt_conv_bytes(const ParcConvSpec *s)
{
    enum { PARTS = 8, OWN = 1 << 20 };
    const int64_t most = 32 << 20;
    int64_t size = s->type == PARC_F32 ? 4 : 2;
    int64_t sums = 4 * PARTS * rt_conv_elements(s, s->computes), all = OWN;
    for (int i = PARC_CONV_Y; i <= PARC_CONV_WEIGHT; i++)
        all += rt_conv_aligned(size * rt_conv_elements(s, (ParcConvResult)i));
    return rt_conv_narrow_bytes(s) + rt_conv_aligned(all + (sums < most ? sums : most));
}

#endif
