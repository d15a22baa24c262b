/* rt_cudnn_graph.h: declares cuDNN's graphs as tables, the graphs of attention
 * (rt_cudnn_attention.c), and plans that are built from graphs.
 *
 * A graph is a list of tensors and a list of operations that refer to tensors
 * by index:
 *
 *   tensor  {DNN_MEMORY, RT_DNN_BF16, {2, 8, 64, 128}, {65536, 128, 1024, 1}}
 *   node    {DNN_MATMUL, .in = {Q, K}, .out = SCORE}
 *
 * Tensors and operations become descriptors of the library, these an operation
 * graph, and the graph a plan: one or more kernels with all their parameters
 * except addresses. A run passes the address of each tensor.
 */
#ifndef PARC_RT_CUDNN_GRAPH_H
#define PARC_RT_CUDNN_GRAPH_H

#include "cuda/api/api_cudnn.h"
#include "parc_attention.h"

enum { DNN_DIMS = 4, DNN_TENSORS = 48, DNN_NODES = 40, DNN_REASON = 256 };

typedef enum DnnPlace {
    DNN_NOWHERE, /* the graph lacks this tensor */
    DNN_MEMORY,  /* in device memory; a run passes the address */
    DNN_INNER,   /* between operations, never stored */
    DNN_NUMBER,  /* one number in host memory; a run passes its address */
} DnnPlace;

typedef struct DnnTensor {
    DnnPlace place;
    int64_t type; /* RT_DNN_BF16, … */
    int64_t dim[DNN_DIMS], stride[DNN_DIMS]; /* strides in elements */
} DnnTensor;

typedef enum DnnOperation {
    DNN_POINTWISE, /* out = mode(in[0], in[1], in[2]) */
    DNN_MATMUL,    /* out = in[0] in[1], over the last two dims */
    DNN_REDUCTION, /* out = in[0] reduced over the dims in which out has size
                      1 */
    DNN_RESHAPE,   /* out = in[0] with other strides */
} DnnOperation;

enum { DNN_NONE = -1 };
typedef struct DnnNode {
    DnnOperation kind;
    int mode; /* RT_DNN_MULTIPLY, … */
    int in[3], out; /* tensors; DNN_NONE ends the operands */
    int axis; /* RT_DNN_INDEX: the dim whose index it is */
} DnnNode;

typedef struct DnnGraph {
    DnnTensor tensor[DNN_TENSORS];
    DnnNode node[DNN_NODES];
    int ntensors, nnodes;
    bool may_vary; /* results may differ between runs in the last bits */
} DnnGraph;

/* ---- attention ---- */

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

/* ---- plans ---- */

/* Where plans run: the library and a handle on its device. Without a handle:
 * the description of a device (RT_DNN_DEVICE), which need not exist. Such
 * plans cannot run; tests create them. */
typedef struct DnnContext {
    const CudaDnn *call;
    DnnHandle handle;
    DnnDescriptor device;
} DnnContext;

typedef struct DnnPlan DnnPlan;

/* The library's best plan among those that need at most `limit` bytes of
 * workspace and compute the same bits in every run, unless the graph may vary.
 * NULL and a `reason` if there is none. */
DnnPlan *rt_cudnn_plan(const DnnContext *c, const DnnGraph *g, int64_t limit,
                       char reason[DNN_REASON]);
void rt_cudnn_plan_free(DnnPlan *p);
/* The number of the plan's engine, for messages. */
int64_t rt_cudnn_plan_engine(const DnnPlan *p);

/* Enqueues the plan on the handle's stream. `at`: the address of each tensor
 * or number, in the order of the graph; NULL for inner tensors. Numbers are
 * read before the call returns. */
DnnStatus rt_cudnn_run(DnnPlan *p, void *const at[DNN_TENSORS],
                       void *workspace);

#endif
