/* rt_cuda_conv.h: declares the implementations of convolutions on CUDA. */
#ifndef PARC_RT_CUDA_CONV_H
#define PARC_RT_CUDA_CONV_H

#include "parc_conv.h"

/* Enqueues the kernel of conv.cuh for a call, as parc_conv. */
void rt_conv_own(ParcRt *rt, const ParcConvSpec *s, const void *a, const void *b, void *out);

#endif
