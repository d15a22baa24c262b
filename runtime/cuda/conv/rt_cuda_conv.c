/* rt_cuda_conv.c: implements the convolutions of train.c (parc_conv.h) with parc's own kernels
 * (rt_conv_own.c).
 */
#include <stdlib.h>

#include "cuda/conv/rt_cuda_conv.h"
#include "cuda/core/rt_cuda.h"
#include "launch/world.h"
#include "rt.h"

struct ParcConv {
    ParcConvSpec spec;
    ParcConv *next;
};

ParcConv *parc_conv_new(ParcRt *rt, const ParcConvSpec *spec)
{
    ParcConv *c = rt_allocate(sizeof *c);
    c->spec = *spec;
    c->next = rt->convs;
    rt->convs = c;
    return c;
}

void parc_conv(ParcRt *rt, ParcConv *conv, const void *a, const void *b, void *out)
{
    rt_conv_own(rt, &conv->spec, a, b, out);
}

void rt_cuda_conv_close(ParcRt *rt)
{
    while (rt->convs) {
        ParcConv *c = rt->convs;
        rt->convs = c->next;
        free(c);
    }
}
