/* layouts.h: what the plan's styles ask for at a boundary.
 *
 * A style's pair (from, to) at a port of a module means: the value comes as
 * `from` and becomes `to`. At a forward boundary the result is placed as
 * `to`; at the boundary of its gradient the result is placed as the dual of
 * `from` (Partial and Replicate swap roles: the gradient of a Partial is
 * Replicate, that of a Shard the same Shard). Where both are Replicate the
 * gradient is left alone, so that it may stay a Partial sum until the one
 * boundary that reduces it.
 */
#ifndef PARC_PASSES_LAYOUTS_H
#define PARC_PASSES_LAYOUTS_H

#include "ir/ir.h"

/* What a boundary asks of its result on one axis. */
typedef struct Constraint {
    const Style *style; /* NULL: nothing */
    AxisPlace to;       /* its order is 0: see place_override */
    AxisPlace from;     /* how its operand is best made: what the style says
                           that it comes as; a gradient of a Replicate comes
                           as a Partial. It may come as anything. */
} Constraint;

/* The style that splits a module's parameters on an axis, or NULL. */
const Style *style_of_path(const Program *p, const char *path, int axis);
/* The style that gives layouts to a port "in0" / "out1" of a module on an
 * axis, or NULL. */
const Style *style_of_port(const Program *p, const char *path,
                           const char *port, int axis);

/* The parameters of a module that a style splits, and along which dim. */
enum { MAX_STYLE_SPLITS = 2 };
typedef struct StyleSplit {
    int param, dim;
} StyleSplit;
int style_splits(const Program *p, const Style *s, const Module *m,
                 StyleSplit split[MAX_STYLE_SPLITS]);

/* Fills by_axis[0 … mesh.n-1] for an op `boundary`. Axes of size 1 ask for
 * nothing. */
void layout_of_boundary(const Program *p, const Op *op,
                        Constraint by_axis[MAX_AXES]);

/* The style's pair for a port "in0" / "out1"; both LAYOUT_NONE where it has
 * none. */
void style_port(const Style *s, const char *port, Layout *from, Layout *to);

/* "input 0" or "output 1": the port of an op `boundary`, for messages. */
const char *port_text(Arena *a, const Op *op);

/* base, with the axes of the set `axes` placed as in `with` instead; a Shard
 * that is added to a dim becomes its minor. Normalised for the type's dims. */
Placement place_override(const Mesh *m, const Type *t, const Placement *base,
                         uint32_t axes, const AxisPlace with[MAX_AXES]);

/* "ColwiseParallel on layers.*.attention.wq" */
const char *style_text(Arena *a, const Style *s);

#endif
