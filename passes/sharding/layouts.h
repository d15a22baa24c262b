/* layouts.h: finds what the plan's styles require at a boundary.
 *
 * A port is one input or output of a module: in0, out1. A style's pair
 * (from, to) at a port means: the value arrives as `from` and becomes `to`. The
 * op `boundary` marks a port. The result of a forward boundary is placed as
 * `to`. The result of the boundary of its gradient is placed as the dual of
 * `from`: the gradient of a Partial is Replicate, that of a Shard the same
 * Shard. If both are Replicate the gradient is not constrained, so that it may
 * stay a Partial sum until a boundary that requires another placement.
 */
#ifndef PARC_PASSES_SHARDING_LAYOUTS_H
#define PARC_PASSES_SHARDING_LAYOUTS_H

#include "ir/plan/styles.h"

/* The requirement of a boundary for one axis. */
typedef struct Constraint {
    const Style *style; /* NULL: no requirement */
    AxisPlace to;       /* placement of the result; its order is 0: see
                         * place_override */
    AxisPlace from;     /* preferred placement of the operand, which may have
                         * any: what the style says that it arrives as; for the
                         * gradient of a Replicate a Partial */
} Constraint;

/* Fills by_axis[0 … mesh.n-1] for an op `boundary`. Axes of size 1 have no
 * requirement. */
void layout_of_boundary(const Program *p, const Op *op,
                        Constraint by_axis[MAX_AXES]);

/* The style's pair for a port; both LAYOUT_NONE if it has none. */
void style_port(const Style *s, Port port, Layout *from, Layout *to);

/* "input 0" or "output 1": the port of an op `boundary`, for messages. */
const char *port_text(Arena *a, const Op *op);

/* base, with the axes of the set `axes` replaced by those of `with`; a Shard
 * that is added to a dim is minor there. Normalized for the type's dims. */
Placement place_override(const Mesh *m, const Type *t, const Placement *base,
                         uint32_t axes, const AxisPlace with[MAX_AXES]);

/* "ColwiseParallel on layers.*.attention.wq" */
const char *style_text(Arena *a, const Style *s);

#endif
