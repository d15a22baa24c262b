/* rt_cudnn_graph.h: declares cuDNN's graphs as tables, and plans that are built from graphs.
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
    DNN_CONV,      /* out = the convolution of in[0] with the weights in[1] */
    DNN_CONV_GRAD_X, /* its gradients: of in[0], out, from that of the result, in[0], and the
                        weights in[1] */
    DNN_CONV_GRAD_WEIGHT, /* … of the weights, from that of the result, in[0], and in[1] */
} DnnOperation;

/* How a kernel moves over the last two dims of an image. */
typedef struct DnnWindow {
    int64_t stride[2], padding[2], dilation[2];
} DnnWindow;

enum { DNN_NONE = -1 };
typedef struct DnnNode {
    DnnOperation kind;
    int mode; /* RT_DNN_MULTIPLY, … */
    int in[3], out; /* tensors; DNN_NONE ends the operands */
    int axis; /* RT_DNN_INDEX: the dim whose index it is */
    DnnWindow window; /* of a convolution */
} DnnNode;

typedef struct DnnGraph {
    DnnTensor tensor[DNN_TENSORS];
    DnnNode node[DNN_NODES];
    int ntensors, nnodes;
    uint32_t refuses; /* engines with one of these numerical notes: bits 1 << RT_DNN_… */
} DnnGraph;

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
 * workspace and have no numerical note that the graph refuses. NULL and a `reason` if there is
 * none. */
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
