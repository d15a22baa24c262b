/* auto_mesh.h: chooses the sizes of mesh axes for --mesh auto.
 *
 * Axes of `parallelize` split tensors inside a node; the other axes split the
 * batch and shard the parameters, across nodes:
 *
 *   --mesh auto --ranks 64 --node-size 8        dp=8,tp=8
 *   --mesh tp=4,dp=auto --ranks 64              dp=16,tp=4
 *
 * Of several automatic tensor axes only the last is chosen, the others have one
 * rank; of two automatic axes of the batch the first has one rank or numbers the
 * nodes; an automatic axis of a pipeline, or of a context, has as few ranks as fit
 * --device-memory.
 * With --machine the mesh of the least time by forecast is chosen, among all ways to
 * divide the ranks (auto_time.c), at most --search of them. Without it these rules apply:
 * candidates are tried until ten compile, with several stages only those of one tensor
 * size. Of those that compile and fit, the first in this order is chosen: the fewest
 * stages, groups of the tensor axis inside a node, then the largest tensor axis, then
 * the fewest parts of sequences, then the most replicas of a hybrid sharding.
 */
#ifndef PARC_DRIVER_AUTO_MESH_H
#define PARC_DRIVER_AUTO_MESH_H

#include "driver/options/options.h"
#include "report/replan.h"

/* Whether --mesh has a size "auto". */
bool auto_mesh_requested(const Options *o);

/* Meshes that lost by time or memory, the best first. */
enum { MOST_OTHER_MESHES = 3 };
typedef struct OtherMeshes {
    int n;
    const char *mesh[MOST_OTHER_MESHES];
} OtherMeshes;

/* The mesh as text for --mesh, "dp=8,tp=8"; NULL after an error. `p`: the model
 * with axes of size 1. Notes report the choice and the candidates that lost. *others: the
 * best ones of these with --machine. any_memory: if no mesh fits, the one for which a rank
 * needs the least memory is chosen, and *others are the next ones: --plan auto changes the
 * plan. */
const char *auto_mesh_choose(const Program *p, const PlanSource *from, const Options *o,
                             Diag *d, bool any_memory, OtherMeshes *others);

#endif
