/* fuse_space.h: the iteration space of a group of ops.
 *
 * A group can be one kernel when all of its tensors are indexed by one set of
 * axes. The axes are found by unification: dims that an op pairs (operand and
 * result of an elementwise op, both sides of a reshape) are the same axis, a
 * reshape splits axes where it must, dims of size 1 have none. Axes that
 * always go together are joined, so that most kernels have one or two.
 *
 * Every axis then has a role:
 *
 *   kept     the kernel's independent units: [batch, seq] of a norm
 *   summed   reduced away over units of work: [batch, seq] of a bias gradient
 *   column   the inner loop: the last axis, or what row reductions reduce
 *
 * kept x summed are the rows. A reduction over exactly the columns is a row
 * reduction: its result is there while the row is still being worked on. One
 * over the summed axes, with or without the columns, is accumulated; what is
 * computed from its result is the epilogue, which runs when all is summed.
 *
 * Sizes are those of one rank. The same space serves the pass `fuse` (which
 * asks whether a group is legal) and the kernel builder.
 */
#ifndef PARC_PASSES_FUSE_SPACE_H
#define PARC_PASSES_FUSE_SPACE_H

#include "ir/ir.h"

enum {
    SPACE_AXES = 16,
    SPACE_DIMS = MAX_STACK + MAX_DIMS,
    SPACE_BLOCK = 4096, /* elements that a long column is cut into */
};

/* A tensor of the group: which axes index it, and the distance in elements
 * from one index to the next (0: it does not vary). */
typedef struct SpaceValue {
    const Value *value;
    uint32_t axes;
    int64_t stride[SPACE_AXES];
    int64_t count[SPACE_AXES]; /* of random numbers: the same in the whole
                                  tensor, where it counts its elements */
    int n; /* axes in memory order, major first */
    uint8_t order[SPACE_AXES];
} SpaceValue;

typedef enum ReduceKind { REDUCE_NONE, REDUCE_ROW, REDUCE_ROWS } ReduceKind;

typedef struct SpaceOp {
    const Op *op;
    bool stored;       /* its result is needed outside */
    bool epilogue;     /* computed from accumulated sums */
    ReduceKind reduce; /* NONE also where a reduction has nothing to do */
    uint32_t reduced;  /* the axes that it reduces */
} SpaceOp;

typedef struct Space {
    int naxes;
    int64_t size[SPACE_AXES];           /* outermost first */
    uint32_t all, kept, summed, column; /* sets of axes; column has `pair` */
    int pair;     /* the axis of size 2 of rotated pairs, worked on in one
                     turn of the inner loop; -1: none */
    int block;    /* the axis that counts blocks of the column; -1: none */
    int64_t tail; /* elements in the last block; 0: as many as in others */
    int nops, nvalues;
    SpaceOp *op;
    SpaceValue *value;
} Space;

/* Ops that can be part of a kernel. */
bool fuse_takes(const Op *op);
/* Ops that cost nothing by themselves: the same memory, seen differently. */
bool fuse_is_view(OpKind kind);
/* Ops worth storing the result of, rather than computing it for each row. */
bool fuse_is_expensive(OpKind kind);

/* The dims of what a rank holds, stack and all; returns how many. */
int fuse_local_dims(const Program *p, const Type *t, int64_t dim[SPACE_DIMS]);

/* The space of ops in program order; stored[i] says whether the result of
 * ops[i] is needed outside. NULL, or why they cannot be one kernel. */
const char *space_build(Arena *a, const Program *p, int nops, Op *const *ops,
                        const bool *stored, Space *s);

const SpaceValue *space_value(const Space *s, const Value *v);

/* Whether some op computes what is expensive again for every row. */
bool space_repeats_expensive(const Space *s);

#endif
