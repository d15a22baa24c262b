/* contraction.h: expresses an einsum as strided matrix products.
 *
 * The letters of the spec have one of four roles: batch (in both operands and
 * the result), m (first operand and result), n (second operand and result), k
 * (summed in both operands). Letters of one role are merged if their strides
 * nest in every tensor: the outer stride is the inner stride times the inner
 * size. The library takes one letter of each role; the other letters of batch,
 * m and n become loops around the call. An einsum that does not fit (two summed
 * letters that do not nest, a batch letter that is innermost) is rewritten by
 * the pass `matmul`. The header also declares the table of matmul epilogues.
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

/* A letter of the spec: its size, and its stride in each tensor (operands a and
 * b, result c) in elements; 0: the tensor does not have the letter. */
typedef struct Letter {
    int64_t size, a, b, c;
} Letter;

typedef struct Contraction {
    ParcMatmulSpec spec; /* types, epilogue, sizes and strides of the call */
    bool swapped;        /* a is the einsum's second operand */
    DType type[3];       /* types of the call's a, b and c */
    int nletters;        /* number of loops around the call */
    Letter letter[MAX_LETTERS];
} Contraction;

/* Describes an einsum with rank-local types. False: it does not fit a matmul. */
bool contraction_of(const Program *p, const Op *einsum, Contraction *c);

/* Name, macro and operands of an epilogue. */
typedef struct EpilogueInfo {
    const char *name;  /* "bias, gelu", for reports; "" for none */
    const char *macro; /* its constant in emitted code */
    /* Index of the operand (from 0) or result (-2: result 1); -1: none. */
    int vector, tensor;
} EpilogueInfo;
const EpilogueInfo *epilogue_info(ParcEpilogue e);
/* The op's value for an index `vector` or `tensor` of EpilogueInfo; NULL for
 * -1. */
Value *epilogue_value(const Op *op, int which);

/* The runtime's constant for an element type. */
ParcType runtime_type(DType t);

#endif
