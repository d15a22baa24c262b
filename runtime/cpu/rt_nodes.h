/* rt_nodes.h: declares collectives whose groups have ranks on several nodes. */
#ifndef PARC_RT_NODES_H
#define PARC_RT_NODES_H

#include "launch/world.h"
#include "rt.h"

/* Whether some of the group's ranks are on other nodes. */
bool rt_group_leaves_node(const ParcRt *rt, uint32_t axes);

/* The same collectives as those of parc_rt.h, for such groups. The caller has
 * passed the barrier of the group's ranks on this node, and passes another one
 * afterwards. */
void rt_nodes_all_gather(ParcRt *rt, int id, uint32_t axes,
                         const ParcPart *part);
void rt_nodes_reduce_scatter(ParcRt *rt, int id, uint32_t axes,
                             const ParcPart *part);
void rt_nodes_all_reduce(ParcRt *rt, int id, uint32_t axes, ParcReduce op,
                         const ParcPart *part);
void rt_nodes_all_to_all(ParcRt *rt, int id, uint32_t axes, const ParcPart *part);
void rt_nodes_shift(ParcRt *rt, int id, uint32_t axes, const ParcPart *part);
/* Sends bytes at an offset of the arena to a rank on another node, or receives
 * them from it. */
void rt_nodes_transfer(ParcRt *rt, int id, uint32_t axes, int rank, bool send,
                       int64_t offset, int64_t bytes);

#endif
