/* pieces.h: declarations that the files of the pass async_tp share.
 *
 *   pieces_mark.c  decides which values are cut, and along which dim
 *   async_tp.c     makes the ops of the pieces
 */
#ifndef PARC_PASSES_MICROBATCH_PIECES_H
#define PARC_PASSES_MICROBATCH_PIECES_H

#include "passes/microbatch/loop_axis.h"
#include "ir/rules/rules.h"

enum {
    WHOLE = -1,
    PIECES_MOST_DIMS = MAX_DIMS - 2, /* of tensors of which rows are sliced */
};

typedef struct Pieces {
    Program *p;
    Region *step;    /* the step, or the body of the loop over microbatches */
    int64_t n;       /* pieces of a microbatch */
    uint32_t nvalues; /* length of `dim` */
    int *dim;        /* by value id: the dim along which it is cut, or WHOLE */
    bool failed;     /* an error was reported */
} Pieces;

/* The dim of v that is cut; WHOLE: none, or a value that the pass has made. */
static inline int pieces_dim(const Pieces *c, const Value *v)
{
    return v->id < c->nvalues ? c->dim[v->id] : WHOLE;
}

/* Fills c->dim: inputs are cut along dim 0, and what is computed from them by the
 * sharding rules of its ops. False after a user error. */
bool pieces_mark(Pieces *c);

/* The factor of the op's rule that dim d of tensor i (operands, then results) is cut
 * by: the major factor of each dim that has it, so that a piece is contiguous in a
 * rank's part. -1: the dim cannot be cut. */
int pieces_factor(const Pieces *c, const Op *op, const Rule *r, int i, int d);

#endif
