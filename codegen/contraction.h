/* contraction.h: an einsum as strided matrix products.
 *
 * Letters fall into four roles: batch (in both operands and the result), m
 * (first operand and result), n (second operand and result), k (summed).
 * Neighbouring letters of one role whose strides nest are one. The library
 * wants one letter of each role; what is left of batch, m and n becomes loops
 * around the call. What does not fit at all (two sums that do not nest, a
 * batch letter that is innermost) is computed by a plain loop nest.
 *
 *   bsk,fk->bsf       m = b s (they nest), n = f, k = k: one call
 *   bsf,bsk->fk       k = b s: one call
 *   bhsd,bhtd->bhst   batch = b h, m = s, n = t, k = d: one call
 */
#ifndef PARC_CODEGEN_CONTRACTION_H
#define PARC_CODEGEN_CONTRACTION_H

#include "ir/ir.h"
#include "runtime/parc_rt.h"

enum { MAX_LETTERS = 2 * MAX_DIMS };

/* An index of the contraction: its size and how far one step moves in each
 * tensor, in elements; 0: the tensor does not have it. */
typedef struct Letter {
    int64_t size, a, b, c;
} Letter;

typedef struct Contraction {
    bool plain;          /* by parc_contract over `letter`, result's first */
    ParcMatmulSpec spec; /* else: sizes and strides, of an einsum_shard's rows
                            on one rank; the rest is zero */
    bool swapped;        /* a is the einsum's second operand */
    DType type[3];       /* of the call's a, b and c */
    int nletters;        /* loops around the call, or the whole nest */
    Letter letter[MAX_LETTERS];
} Contraction;

/* By rank-local types. Of an einsum_shard: what a rank makes of it; the whole
 * product. */
void contraction_of(const Program *p, const Op *einsum, Contraction *c);
void contraction_whole(const Program *p, const Op *einsum, Contraction *c);

/* What an epilogue is called and works with. */
typedef struct EpilogueInfo {
    const char *name;  /* "bias, gelu", for reports; "" for none */
    const char *macro; /* in emitted code */
    /* Which operand (from 0), or result (-2: number 1), each is; -1: none. */
    int vector, tensor;
} EpilogueInfo;
const EpilogueInfo *epilogue_info(ParcEpilogue e);
/* The op's value that such a number names; NULL for -1. */
Value *epilogue_value(const Op *op, int which);

#endif
