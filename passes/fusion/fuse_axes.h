/* fuse_axes.h: finds the axes of a kernel's iteration space (fuse_space.h) by
 * unification.
 *
 * A node represents a dim of a tensor. Two dims that an op pairs become one
 * node; a node that is paired with a product of others is split. The unsplit
 * nodes are the axes.
 */
#ifndef PARC_PASSES_FUSION_FUSE_AXES_H
#define PARC_PASSES_FUSION_FUSE_AXES_H

#include "passes/fusion/fuse_space.h"

typedef struct AxisNode {
    int parent;       /* -1: a representative (union-find) */
    int major, minor; /* -1: not split */
    int64_t size;
    bool pair; /* the two elements of a rotated pair: never split */
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
/* The unsplit nodes of dim `dim` of a value; -1: too many. */
int axes_dim_leaves(const AxisSolver *s, const AxisValue *v, int dim,
                    int *leaf);

#endif
