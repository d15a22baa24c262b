/* split_axis.h: splits an axis of the mesh into two.
 *
 * The parts' names extend the axis's, and its index is that of the first part:
 *
 *   before   mesh dp=2 tp=4          unit axes={dp}
 *   after    mesh dp=2 tp.kv=2 tp.rep=2
 *
 * split_kv_axis does so before placements are propagated, when only styles and
 * units name axes; split_node_axis afterwards, when all types have placements.
 */
#ifndef PARC_PASSES_SHARDING_SPLIT_AXIS_H
#define PARC_PASSES_SHARDING_SPLIT_AXIS_H

#include "ir/ir.h"

typedef struct AxisPart {
    const char *suffix; /* ".kv" */
    int64_t size;
    int64_t stride;     /* of Mesh.stride */
} AxisPart;

/* Whether the mesh may have one more axis; else an error at `loc`, which begins
 * with `why` and has the help `advice`. */
bool split_axis_fits(Program *p, Loc loc, const char *why, const char *advice);

/* Replaces the axis in the mesh and in units. The caller then calls one of the
 * functions below. */
void split_axis(Program *p, int axis, const AxisPart part[2]);

/* Gives each style of the axis to both parts. The caller calls styles_attach
 * when it has changed the styles. */
void split_axis_styles(Program *p, int axis);
/* Replaces the axis in all types and collectives: Shard, flat or Partial over it
 * is the same over both parts, the first one major. */
void split_axis_types(Program *p, int axis);

#endif
