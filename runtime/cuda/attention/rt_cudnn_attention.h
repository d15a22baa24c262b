/* rt_cudnn_attention.h: declares the graphs of attention. */
#ifndef PARC_RT_CUDNN_ATTENTION_H
#define PARC_RT_CUDNN_ATTENTION_H

#include "cuda/dnn/rt_cudnn_graph.h"
#include "parc_attention.h"

/* The tensors of both graphs of attention that have an address, in the layout
 * of parc_attention's. The fused engines of the library recognize the operations
 * and store no others. lse is the maximum of a row's scores +
 * log(sum(e^(score - maximum))), as in parc's kernels: either pass may run on
 * the library and the other on parc's kernels. */
enum {
    DNN_Q, DNN_K, DNN_V, DNN_O, DNN_LSE,
    DNN_SCALE, DNN_LEAST, DNN_ONE, /* numbers: the scale, the score of masked
                                      keys, 1 */
    DNN_DO, DNN_DQ, DNN_DK, DNN_DV,
    DNN_DELTA, /* f32 [b, heads, s]: rowsum(d_o * o) */
    DNN_NAMED,
    DNN_DQ_SUM = DNN_NAMED, /* f32 [b, heads, s, d] of a piece: the sum of dq,
                               in a backward pass that is not deterministic */
    DNN_ADDRESSED,
};

/* The graph of a call's forward or backward pass, for `b` of its sequences and
 * `kv` KV heads of each. requires: 16 bits, no dropout. */
void rt_cudnn_attention_graph(DnnGraph *g, const ParcAttention *a, int64_t b,
                              int64_t kv, bool backward);

#endif
