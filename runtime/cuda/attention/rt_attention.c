/* rt_attention.c: implements the attention functions that train.c calls
 * (parc_rt.h). A call runs on cuDNN or on parc's own kernels
 * (rt_attention_own.c), as init has chosen for its shape
 * (parc_attention_ready). */
#include "cuda/attention/rt_attention_workspace.h"
#include "cuda/attention/rt_cudnn.h"
#include "rt.h"

/* Removes const: a graph's table lists inputs and outputs. */
static void *address(const void *p)
{
    return (void *)(uintptr_t)p;
}

void parc_attention_ready(ParcRt *rt, const ParcAttention *a, bool backward,
                          int64_t scratch_bytes)
{
    if (rt_attention_library(a) && !rt_cudnn_find(rt, a, backward))
        rt_cudnn_choose(rt, rt_cudnn_use(rt, a, backward, scratch_bytes));
}

void parc_attention(ParcRt *rt, const ParcAttention *a, void *o, float *lse,
                    const void *q, const void *k, const void *v, float *scratch)
{
    const CudnnUse *u = rt_cudnn_find(rt, a, false);
    DnnCall c = {.at = {[DNN_Q] = address(q), [DNN_K] = address(k),
                        [DNN_V] = address(v), [DNN_O] = o, [DNN_LSE] = lse},
                 .scratch = (char *)scratch};
    if (u && rt_cudnn_takes(u, &c))
        rt_cudnn_call(rt, u, &c);
    else
        rt_attention_own(rt, a, false, &c);
}

void parc_attention_grad(ParcRt *rt, const ParcAttention *a, void *dq, void *dk,
                         void *dv, const void *d_o, const void *q,
                         const void *k, const void *v, const void *o,
                         const float *lse, float *scratch)
{
    const CudnnUse *u = rt_cudnn_find(rt, a, true);
    DnnCall c = {.at = {[DNN_Q] = address(q), [DNN_K] = address(k),
                        [DNN_V] = address(v), [DNN_O] = address(o),
                        [DNN_LSE] = address(lse), [DNN_DO] = address(d_o),
                        [DNN_DQ] = dq, [DNN_DK] = dk, [DNN_DV] = dv},
                 .scratch = (char *)scratch};
    if (u && rt_cudnn_takes(u, &c))
        rt_cudnn_call(rt, u, &c);
    else
        rt_attention_own(rt, a, true, &c);
}
