/* fuse_space.h: the iteration space of a group of ops.
 *
 * A group can be one kernel if one set of axes indexes all of its tensors. The
 * axes are found by unification: dims that an op pairs (operand and result of
 * an elementwise op, both sides of a reshape) are the same axis; a reshape
 * splits axes where it must; dims of size 1 have none. Axes that are adjacent
 * in every tensor are joined, so that most kernels have one or two.
 *
 * Every axis has a role:
 *
 *   kept     independent units of work: [batch, seq] of a norm
 *   summed   reduced over units of work: [batch, seq] of a bias gradient
 *   column   the inner loop: the last axis, or the axes of row reductions
 *
 * kept x summed are the rows. A reduction over exactly the columns is a row
 * reduction: its result is available while the row is processed. A reduction
 * over the summed axes, with or without the columns, is accumulated; ops that
 * depend on its result are the epilogue, which runs after the last row.
 *
 * Sizes are those of one rank. The same space serves the pass `fuse` (which
 * asks whether a group is legal) and the kernel builder.
 */
#ifndef PARC_PASSES_FUSION_FUSE_SPACE_H
#define PARC_PASSES_FUSION_FUSE_SPACE_H

#include "ir/ir.h"

enum {
    SPACE_AXES = 16,
    SPACE_DIMS = MAX_STACK + MAX_DIMS,
    SPACE_BLOCK = 4096, /* elements of a block of a long column */
    SPACE_ROW = 1 << 16, /* elements of a row for each row, if it is reused */
    SPACE_LONG_ROW = 1 << 20, /* elements of one of many reused rows */
};

/* A tensor of the group: the axes that index it, and its stride along each in
 * elements (0: it does not vary). */
typedef struct SpaceValue {
    const Value *value;
    uint32_t axes;
    int64_t stride[SPACE_AXES];
    int64_t count[SPACE_AXES]; /* for random numbers: strides in the global
                                * tensor, which number its elements */
    int n; /* number of axes; `order` has them in memory order, major first */
    uint8_t order[SPACE_AXES];
} SpaceValue;

/* REDUCE_ROW: a row reduction. REDUCE_ROWS: accumulated over the rows. */
typedef enum ReduceKind { REDUCE_NONE, REDUCE_ROW, REDUCE_ROWS } ReduceKind;

typedef struct SpaceOp {
    const Op *op;
    bool stored;       /* read outside of the group */
    bool epilogue;     /* depends on accumulated sums */
    ReduceKind reduce; /* NONE also for a reduction over nothing */
    uint32_t reduced;  /* the axes that it reduces */
} SpaceOp;

typedef struct Space {
    int naxes;
    int64_t size[SPACE_AXES];           /* outermost first */
    uint32_t all, kept, summed, column; /* sets; column includes `pair` */
    int pair;     /* the axis of size 2 of rotated pairs, processed in one
                   * inner iteration; -1: none */
    bool reused;  /* a row is traversed again after a reduction over it */
    int block;    /* the axis that counts blocks of the column; -1: none */
    int64_t tail; /* elements in the last block; 0: it is full */
    int nops, nvalues;
    SpaceOp *op;
    SpaceValue *value;
} Space;

/* Whether the op can be part of a kernel. */
bool fuse_takes(const Op *op);
/* Whether the op is a view: its operand's memory in another shape. */
bool fuse_is_view(OpKind kind);
/* Whether the op's result should be stored rather than recomputed for each
 * row. */
bool fuse_is_expensive(OpKind kind);

/* The dims of a rank's part of a tensor, stack dims included; returns their
 * number. */
int fuse_local_dims(const Program *p, const Type *t, int64_t dim[SPACE_DIMS]);

/* The space of ops in program order; stored[i]: the result of ops[i] is read
 * outside. NULL, or the reason why they cannot be one kernel. */
const char *space_build(Arena *a, const Program *p, int nops, Op *const *ops,
                        const bool *stored, Space *s);

/* Whether an expensive op would be recomputed for every row. */
bool space_repeats_expensive(const Space *s);

/* Whether rows that must be traversed a second time are too few for their
 * length. One block processes a row, so that the sum of squares of a whole
 * matrix and the update that reads it would leave a GPU to one block. */
bool space_has_few_rows(const Space *s);

#endif
