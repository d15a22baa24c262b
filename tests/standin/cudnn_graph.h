/* cudnn_graph.h: evaluates cuDNN graphs on the host, for cudnn.c. */
#ifndef STANDIN_CUDNN_GRAPH_H
#define STANDIN_CUDNN_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

enum { GRAPH_DIMS = 4, GRAPH_TENSORS = 64, GRAPH_NODES = 64, GRAPH_NAMED = 24 };

/* `named`: the index of the address that a run passes for the tensor; -1: the
 * tensor exists only between nodes. */
typedef struct HostTensor {
    int64_t uid, type, dim[GRAPH_DIMS], stride[GRAPH_DIMS];
    bool inner, by_value;
    int named;
} HostTensor;

typedef struct HostNode {
    unsigned kind;  /* kind of descriptor: RT_DNN_OPERATION_MATMUL, … */
    int mode, axis;
    int in[3], out; /* tensors; -1: none */
    int64_t stride[2], padding[2], dilation[2]; /* of a convolution */
} HostNode;

typedef struct HostGraph {
    HostTensor tensor[GRAPH_TENSORS];
    HostNode node[GRAPH_NODES];
    int ntensors, nnodes, nnamed;
} HostGraph;

/* NULL, or the graph's fault: sizes do not match, or a node reads a tensor
 * before it is computed. */
const char *graph_fault(const HostGraph *g);

/* Computes all nodes in order, in f32, and rounds each tensor to its type.
 * `at`: addresses by `named`. */
void graph_compute(const HostGraph *g, void *const at[GRAPH_NAMED]);

/* Bytes from a tensor's first element to the end of its last. */
int64_t graph_tensor_bytes(const HostTensor *t);

#endif
