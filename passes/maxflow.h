/* maxflow.h: maximum flow through a small graph, and the cut it proves. */
#ifndef PARC_PASSES_MAXFLOW_H
#define PARC_PASSES_MAXFLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct FlowGraph FlowGraph;

/* More than any sum of capacities that are not it. */
#define FLOW_INFINITE (INT64_MAX / 4)

FlowGraph *flow_graph(Arena *a, int nnodes);
void flow_edge(FlowGraph *g, int from, int to, int64_t capacity);

/* The largest flow, which is the capacity of the least cut. FLOW_INFINITE or
 * more: there is no cut. */
int64_t flow_run(FlowGraph *g, int source, int sink);

/* After flow_run: whether a node lies behind the cut. Of all least cuts it is
 * the one nearest to the sink. */
bool flow_behind(const FlowGraph *g, int node);

#endif
