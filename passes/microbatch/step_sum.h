/* step_sum.h: adds outputs that sum up what ops of the forward pass count. */
#ifndef PARC_PASSES_MICROBATCH_STEP_SUM_H
#define PARC_PASSES_MICROBATCH_STEP_SUM_H

#include "ir/ir.h"

/* Adds the output `name` to a program of STAGE_GLOBAL without a backward pass: the sum of n >= 1
 * scalars f32[], over all iterations of the loops around each. Returns its operand. */
Value *step_sum(Program *p, Value *const *v, int n, const char *name);

#endif
