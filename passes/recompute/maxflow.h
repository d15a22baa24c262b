/* maxflow.h: computes the maximum flow through a graph, and the minimum cut. */
#ifndef PARC_PASSES_RECOMPUTE_MAXFLOW_H
#define PARC_PASSES_RECOMPUTE_MAXFLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct FlowGraph FlowGraph;

/* Larger than any sum of finite capacities. */
#define FLOW_INFINITE (INT64_MAX / 4)

FlowGraph *flow_graph(Arena *a, int nnodes);
void flow_edge(FlowGraph *g, int from, int to, int64_t capacity);

/* The maximum flow, which is the capacity of the minimum cut. FLOW_INFINITE or
 * more: there is no cut. */
int64_t flow_run(FlowGraph *g, int source, int sink);

/* After flow_run: whether the node is on the sink's side of the minimum cut
 * nearest to the sink. */
bool flow_on_sink_side(const FlowGraph *g, int node);

#endif
