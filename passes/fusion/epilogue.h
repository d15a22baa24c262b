/* epilogue.h: functions that the passes matmul and epilogue share.
 *
 *   matmul.c          before `recompute`: gives operands one type, adds biases
 *   epilogue.c        before `fuse`: adds tensors, GELU, its gradient, and the
 *                     gradients of biases
 */
#ifndef PARC_PASSES_FUSION_EPILOGUE_H
#define PARC_PASSES_FUSION_EPILOGUE_H

#include "ir/analysis/readers.h"
#include "passes/pass.h"

/* A spec with a third operand and a second result, each NULL for none: from
 * "abk,fk->abf" to "abk,fk,f->abf,abf". */
const char *epilogue_spec(Arena *a, const char *spec, const char *third,
                          const char *second);
/* The result's subscripts in a spec of two operands. */
const char *epilogue_result(const char *spec);

/* Adds an op before `einsum` that computes it with an epilogue, in the same
 * phase and module, and enters it into `r`; result i has the type types[i]. NULL
 * if the target has no such matmul, or if the placements exclude it: a bias is
 * added to a full sum only. */
Op *epilogue_make(Readers *r, Program *p, const TargetInfo *t,
                  const Op *einsum, OpKind kind, int nargs, Value *const *args,
                  const char *spec, const Type *types);

/* canonicalize.c: replaces every einsum that no matmul computes by one that
 * matmuls compute, with transposed operands or result. */
void canonicalize_einsums(Program *p, const TargetInfo *t);

/* Whether v is defined before `at`. */
bool epilogue_precedes(const Readers *r, const Value *v, const Op *at);

#endif
