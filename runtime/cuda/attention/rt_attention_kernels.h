/* rt_attention_kernels.h: declares attention with parc's own kernels
 * (rt_attention.c). The arguments are those of parc_attention and
 * parc_attention_grad.
 */
#ifndef PARC_RT_ATTENTION_KERNELS_H
#define PARC_RT_ATTENTION_KERNELS_H

#include "parc_rt.h"
#include "rt.h"

void rt_attention_kernels(ParcRt *rt, const ParcAttention *a, void *o,
                          float *lse, const void *q, const void *k,
                          const void *v, float *scratch);
void rt_attention_grad_kernels(ParcRt *rt, const ParcAttention *a, void *dq,
                               void *dk, void *dv, const void *d_o,
                               const void *q, const void *k, const void *v,
                               const void *o, const float *lse, float *scratch);

#endif
