/* rt_conv_own.c: launches parc's own kernels of convolutions (conv.cuh). */
#include "common/type.h"
#include "cuda/conv/rt_conv_workspace.h"
#include "cuda/conv/rt_cuda_conv.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"

void rt_conv_own(ParcRt *rt, const ParcConvSpec *s, const void *a, const void *b, void *out)
{
    char symbol[RT_SYMBOL];
    int64_t threads = rt_conv_elements(s, s->computes);
    if (s->computes == PARC_CONV_WEIGHT) /* a warp for each element */
        threads *= PARC_WARP;
    rt_conv_symbol(symbol, sizeof symbol, s->computes, rt_float_name(s->type),
                   rt_float_name(s->out));
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(threads, KERNEL_THREADS), KERNEL_THREADS, 0,
                   rt_pointer_bits(out), rt_pointer_bits(a), rt_pointer_bits(b), s->n, s->g, s->c,
                   s->k, s->image[0], s->image[1], s->kernel[0], s->kernel[1], s->result[0],
                   s->result[1], s->stride[0], s->stride[1], s->padding[0], s->padding[1],
                   s->dilation[0], s->dilation[1]);
}

void rt_conv_widen(ParcRt *rt, ParcType type, void *out, const void *narrow, int64_t n)
{
    char symbol[RT_SYMBOL];
    rt_conv_symbol(symbol, sizeof symbol, RT_CONV_WIDEN, rt_float_name(type),
                   rt_float_name(PARC_F32));
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(n, KERNEL_THREADS), KERNEL_THREADS, 0,
                   rt_pointer_bits(out), rt_pointer_bits(narrow), n);
}
