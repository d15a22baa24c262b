/* fuse_axes.h: unification of dims into axes; see fuse_space.h.
 *
 * A node represents a dim of a tensor. Two dims that an op pairs become one
 * node; a node that is paired with a product of others is split.
 */
#ifndef PARC_PASSES_FUSE_AXES_H
#define PARC_PASSES_FUSE_AXES_H

#include "passes/fuse_space.h"

typedef struct AxisNode {
    int parent;       /* -1: a representative (union-find) */
    int major, minor; /* -1: not split */
    int64_t size;
    bool pair;
} AxisNode;

typedef struct AxisValue {
    const Value *value;
    int ndim;
    int dim[SPACE_DIMS]; /* nodes; -1 for a dim of size 1 */
} AxisValue;

typedef struct AxisSolver {
    Arena *arena;
    const Program *p;
    VEC(AxisNode) node;
    VEC(AxisValue) value;
} AxisSolver;

enum { MAX_LEAVES = 2 * SPACE_AXES };

/* Pairs the dims of an op's operands and result by the op's semantics. */
bool axes_pair(AxisSolver *s, const Op *op);
/* The unsplit nodes of a value in memory order; -1: too many. */
int axes_leaves(const AxisSolver *s, const AxisValue *v, int *leaf);
/* The same for one of its dims. */
int axes_dim_leaves(const AxisSolver *s, const AxisValue *v, int dim,
                    int *leaf);

#endif
