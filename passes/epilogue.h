/* epilogue.h: between the passes that give a matmul more to do.
 *
 *   matmul.c          operands of one type, biases (before `recompute`)
 *   epilogue.c        sums, GELU, its gradient, bias gradients (before `fuse`)
 *   epilogue_gelu.c   how GELU is recognised
 */
#ifndef PARC_PASSES_EPILOGUE_H
#define PARC_PASSES_EPILOGUE_H

#include "passes/pass.h"

/* "abk,fk->abf" with a third operand and a second result, each NULL for none:
 * "abk,fk,f->abf,abf". */
const char *epilogue_spec(Arena *a, const char *spec, const char *third,
                          const char *second);
/* The result's letters in a spec of two operands. */
const char *epilogue_result(const char *spec);

/* An op in front of `einsum` that does as much and more, in its phase and its
 * place in the model; result i has the type types[i]. NULL where the target
 * has no such matmul, or where parts of the result on ranks do not allow it:
 * a bias is added to the whole sum. */
Op *epilogue_make(Program *p, const TargetInfo *t, const Op *einsum,
                  OpKind kind, int nargs, Value *const *args, const char *spec,
                  const Type *types);

/* Whether v is there where `at` stands. */
bool epilogue_precedes(const Value *v, const Op *at);

/* ---- epilogue_gelu.c ---- */

/* What elementwise ops of a region make of numbers: samples of one or two
 * values, followed through them. It knows the values that are there when it is
 * made. */
typedef struct Follow Follow;
Follow *follow_new(Program *p);
/* The value that is GELU (by tanh) of x and of nothing else; NULL: none. */
Value *follow_gelu(Follow *f, Value *x);
/* The value that is d times GELU's derivative at z; NULL: none. */
Value *follow_gelu_grad(Follow *f, Value *d, Value *z);

#endif
