/* maxflow.c: maximum flow by Dinic's algorithm, O(V^2 E).
 *
 * It repeats two steps: breadth-first search from the source over edges with
 * residual capacity gives each node a level; depth-first search then pushes
 * flow along paths that climb one level per edge, and each node remembers which
 * of its edges are exhausted. Edges are stored in pairs: e and e^1 are each
 * other's reverse.
 */
#include "passes/recompute/maxflow.h"

#include <string.h>

typedef struct FlowEdge {
    int to, next; /* next edge of the same node; -1 ends the list */
    int64_t left; /* residual capacity */
} FlowEdge;

struct FlowGraph {
    Arena *arena;
    int nnodes;
    int *first; /* by node: its first edge; -1: none */
    /* By node: the distance from the source, -1: not reachable; the first edge
     * that is not exhausted. The queue is that of the breadth-first search. */
    int *level, *todo, *queue;
    bool *on_sink_side; /* by node: it is on the sink's side of the cut */
    VEC(FlowEdge) edge;
};

FlowGraph *flow_graph(Arena *a, int nnodes)
{
    FlowGraph *g = NEW(a, FlowGraph);

    g->arena = a;
    g->nnodes = nnodes;
    g->first = NEW_ARRAY(a, int, nnodes);
    g->level = NEW_ARRAY(a, int, nnodes);
    g->todo = NEW_ARRAY(a, int, nnodes);
    g->queue = NEW_ARRAY(a, int, nnodes);
    g->on_sink_side = NEW_ARRAY(a, bool, nnodes);
    for (int i = 0; i < nnodes; i++)
        g->first[i] = -1;
    return g;
}

void flow_edge(FlowGraph *g, int from, int to, int64_t capacity)
{
    FlowEdge there = {to, g->first[from], capacity};
    g->first[from] = g->edge.n;
    vec_push(g->arena, &g->edge, there);
    FlowEdge back = {from, g->first[to], 0};
    g->first[to] = g->edge.n;
    vec_push(g->arena, &g->edge, back);
}

/* Computes the levels; false if the sink is not reachable. */
static bool find_levels(FlowGraph *g, int source, int sink)
{
    int n = 0;

    for (int i = 0; i < g->nnodes; i++)
        g->level[i] = -1;
    g->level[source] = 0;
    g->queue[n++] = source;
    for (int k = 0; k < n; k++) {
        int node = g->queue[k];
        for (int e = g->first[node]; e >= 0; e = g->edge.at[e].next) {
            const FlowEdge *edge = &g->edge.at[e];
            if (edge->left > 0 && g->level[edge->to] < 0) {
                g->level[edge->to] = g->level[node] + 1;
                g->queue[n++] = edge->to;
            }
        }
    }
    return g->level[sink] >= 0;
}

/* Pushes up to `most` from the node to the sink; returns the amount. */
static int64_t push_flow(FlowGraph *g, int node, int sink, int64_t most)
{
    if (node == sink)
        return most;
    int64_t sent = 0;
    while (g->todo[node] >= 0) {
        int e = g->todo[node];
        FlowEdge *edge = &g->edge.at[e];
        if (edge->left > 0 && g->level[edge->to] == g->level[node] + 1) {
            int64_t limit = most - sent < edge->left ? most - sent : edge->left;
            int64_t went = push_flow(g, edge->to, sink, limit);
            edge->left -= went;
            g->edge.at[e ^ 1].left += went;
            sent += went;
            if (sent == most)
                return sent;
        }
        g->todo[node] = edge->next;
    }
    return sent;
}

/* Marks the nodes that can reach the sink in the residual graph. */
static void mark_sink_side(FlowGraph *g, int sink)
{
    int n = 0;

    g->on_sink_side[sink] = true;
    g->queue[n++] = sink;
    for (int k = 0; k < n; k++)
        for (int e = g->first[g->queue[k]]; e >= 0; e = g->edge.at[e].next) {
            int from = g->edge.at[e].to;
            if (g->edge.at[e ^ 1].left > 0 && !g->on_sink_side[from]) {
                g->on_sink_side[from] = true;
                g->queue[n++] = from;
            }
        }
}

int64_t flow_run(FlowGraph *g, int source, int sink)
{
    int64_t total = 0;

    while (total < FLOW_INFINITE && find_levels(g, source, sink)) {
        memcpy(g->todo, g->first, sizeof *g->todo * (size_t)g->nnodes);
        total += push_flow(g, source, sink, FLOW_INFINITE);
    }
    mark_sink_side(g, sink);
    return total;
}

bool flow_on_sink_side(const FlowGraph *g, int node)
{
    return g->on_sink_side[node];
}
