/* canonicalize.h: rewrites einsums as matmuls, by transposes of operands or
 * results (part of the pass `matmul`). */
#ifndef PARC_PASSES_FUSION_CANONICALIZE_H
#define PARC_PASSES_FUSION_CANONICALIZE_H

#include "passes/pass.h"

/* Replaces every einsum that the target computes by a plain loop nest by one
 * that it computes by matmuls, with transposed operands or result. Warns of the
 * einsums that sum a letter of one operand alone, once per line of the model. */
void canonicalize_einsums(Program *p, const TargetInfo *t);

#endif
