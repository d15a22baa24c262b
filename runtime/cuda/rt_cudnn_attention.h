/* rt_cudnn_attention.h: attention as graphs of cuDNN.
 *
 * The operations are those that the library's fused engines know as attention;
 * nothing but what the tables of rt_cudnn_attention.c name as DNN_MEMORY is
 * stored. Tensors lie as parc_attention's do. What forward leaves in lse is the
 * maximum of a row's scores + log(sum(e^(score - maximum))): parc's own, so that
 * either pass may be the library's and the other ours.
 */
#ifndef PARC_RT_CUDNN_ATTENTION_H
#define PARC_RT_CUDNN_ATTENTION_H

#include "parc_rt.h"
#include "rt_cudnn_graph.h"

/* Tensors of both graphs that have an address. */
enum {
    DNN_Q, DNN_K, DNN_V, DNN_O, DNN_LSE,
    DNN_SCALE, DNN_LEAST, DNN_ONE, /* numbers: the scale, what hidden keys'
                                      scores are, 1 */
    DNN_DO, DNN_DQ, DNN_DK, DNN_DV,
    DNN_DELTA, /* f32 [b, heads, s]: of rows of d_o and o, the sum of products */
    DNN_NAMED,
    DNN_DQ_SUM = DNN_NAMED, /* f32 [b, heads, s, d] of a piece: what a backward
                             * pass that is not deterministic adds up dq in */
    DNN_ADDRESSED,
};

/* The graph of a call's forward or backward pass, without dropout, in 16 bits:
 * for `b` of its sequences and `kv` of the heads of keys of each. */
void rt_cudnn_attention_graph(DnnGraph *g, const ParcAttention *a, int64_t b,
                              int64_t kv, bool backward);

#endif
