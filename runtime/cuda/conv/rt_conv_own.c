/* rt_conv_own.c: launches parc's own kernels of convolutions (conv.cuh). */
#include "common/type.h"
#include "cuda/conv/rt_cuda_conv.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"

/* The number of threads that a kernel needs. */
static int64_t threads_of(const ParcConvSpec *s)
{
    int64_t x = s->n * s->g * s->c * s->image[0] * s->image[1];
    int64_t y = s->n * s->g * s->k * s->result[0] * s->result[1];
    int64_t weight = s->g * s->k * s->c * s->kernel[0] * s->kernel[1];
    return s->computes == PARC_CONV_Y ? y : s->computes == PARC_CONV_X ? x : PARC_WARP * weight;
}

void rt_conv_own(ParcRt *rt, const ParcConvSpec *s, const void *a, const void *b, void *out)
{
    char symbol[RT_SYMBOL];
    rt_conv_symbol(symbol, sizeof symbol, s->computes, rt_float_name(s->type),
                   rt_float_name(s->out));
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(threads_of(s), KERNEL_THREADS), KERNEL_THREADS, 0,
                   rt_pointer_bits(out), rt_pointer_bits(a), rt_pointer_bits(b), s->n, s->g, s->c,
                   s->k, s->image[0], s->image[1], s->kernel[0], s->kernel[1], s->result[0],
                   s->result[1], s->stride[0], s->stride[1], s->padding[0], s->padding[1],
                   s->dilation[0], s->dilation[1]);
}
