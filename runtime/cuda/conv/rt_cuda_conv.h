/* rt_cuda_conv.h: declares the implementations of convolutions on CUDA. */
#ifndef PARC_RT_CUDA_CONV_H
#define PARC_RT_CUDA_CONV_H

#include "cuda/dnn/rt_cudnn_graph.h"
#include "parc_conv.h"

/* Which tensor operand i of a call is: PARC_CONV_Y …. */
int rt_conv_operand(const ParcConvSpec *s, int i);
/* The graph of a call, whose tensors have the numbers of ParcConvResult. All of them have the
 * type of the operands. `exact`: operands in f32 are not rounded to TF32. */
void rt_conv_graph(DnnGraph *g, const ParcConvSpec *s, bool exact);

/* Prints a line for each shape for --dry-run. */
void rt_cuda_conv_print(const ParcRt *rt);
void rt_cuda_conv_close(ParcRt *rt);

/* Enqueues the kernel of conv.cuh for a call, as parc_conv. */
void rt_conv_own(ParcRt *rt, const ParcConvSpec *s, const void *a, const void *b, void *out);
/* Enqueues the conversion of n elements of a 16-bit type to f32. */
void rt_conv_widen(ParcRt *rt, ParcType type, void *out, const void *narrow, int64_t n);

#endif
