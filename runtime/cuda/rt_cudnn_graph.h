/* rt_cudnn_graph.h: graphs of cuDNN as tables, and plans made of them.
 *
 * A graph is a list of tensors and a list of operations that name them by their
 * numbers:
 *
 *   tensor  {DNN_MEMORY, RT_DNN_BF16, {2, 8, 64, 128}, {65536, 128, 1024, 1}}
 *   node    {DNN_MATMUL, .in = {Q, K}, .out = SCORE}
 *
 * becomes descriptors of the library, those an operation graph, that a plan: a
 * kernel or some with all that they need to know but addresses. Memory that a
 * plan works on is given where it runs, by tensor.
 */
#ifndef PARC_RT_CUDNN_GRAPH_H
#define PARC_RT_CUDNN_GRAPH_H

#include "api_cudnn.h"

enum { DNN_DIMS = 4, DNN_TENSORS = 48, DNN_NODES = 40, DNN_REASON = 256 };

typedef enum DnnPlace {
    DNN_NOWHERE, /* a tensor that this graph does not have */
    DNN_MEMORY,  /* the device's; a run gives the address */
    DNN_INNER,   /* between operations, never stored */
    DNN_NUMBER,  /* one number of the host's; a run gives its address */
} DnnPlace;

typedef struct DnnTensor {
    DnnPlace place;
    int64_t type; /* RT_DNN_BF16, … */
    int64_t dim[DNN_DIMS], stride[DNN_DIMS]; /* strides in elements */
} DnnTensor;

typedef enum DnnOperation {
    DNN_POINTWISE, /* out = mode(in[0], in[1], in[2]) */
    DNN_MATMUL,    /* out = in[0] in[1], of the last two dims */
    DNN_REDUCTION, /* out = in[0] over the dims of which out has one */
    DNN_RESHAPE,   /* out: in[0] by other strides */
} DnnOperation;

enum { DNN_NONE = -1 };
typedef struct DnnNode {
    DnnOperation kind;
    int mode; /* RT_DNN_MULTIPLY, … */
    int in[3], out; /* tensors; DNN_NONE ends the operands */
    int axis; /* RT_DNN_INDEX: whose index it is */
} DnnNode;

typedef struct DnnGraph {
    DnnTensor tensor[DNN_TENSORS];
    DnnNode node[DNN_NODES];
    int ntensors, nnodes;
    bool may_vary; /* an engine may compute other bits in another run */
} DnnGraph;

/* Where plans are to run: the library, and a handle on its device. Without a
 * handle: a description of a device that need not be there (RT_DNN_DEVICE);
 * such plans cannot run, tests make them. */
typedef struct DnnContext {
    const CudaDnn *call;
    DnnHandle handle;
    DnnDescriptor device;
} DnnContext;

typedef struct DnnPlan DnnPlan;

/* The plan that the library thinks best, of those which need no more than
 * `room` bytes of workspace and compute the same bits in every run, unless the
 * graph may vary. NULL, and in
 * `reason` why not, where there is none. */
DnnPlan *rt_cudnn_plan(const DnnContext *c, const DnnGraph *g, int64_t room,
                       char reason[DNN_REASON]);
void rt_cudnn_plan_free(DnnPlan *p);
/* Bytes that it does need. */
int64_t rt_cudnn_plan_workspace(const DnnPlan *p);
/* Of the library's engines for such graphs, which; for messages. */
int64_t rt_cudnn_plan_engine(const DnnPlan *p);

/* Queues the plan on the handle's stream. `at`: for each tensor, in the order
 * of the graph's, where its memory or number is; NULL for inner ones. Numbers
 * are read before it returns. */
DnnStatus rt_cudnn_run(DnnPlan *p, void *const at[DNN_TENSORS],
                       void *workspace);

#endif
