/* flops.h: floating-point operations, counted from the operator's rule.
 *
 * Forward and backward, only contractions count, as is the custom: 2 for each multiply-add of an
 * einsum; attention's two products (half of them where the mask is causal),
 * and 2.5 times as many for its gradient, which forms five. In the optimizer
 * every arithmetic op on an element counts one. Sizes are global;
 * a program's sum is for one step on all ranks together. Numbers are doubles:
 * a step of a large model goes beyond 64 bits.
 */
#ifndef PARC_IR_FLOPS_H
#define PARC_IR_FLOPS_H

#include "ir/ir.h"

/* One run of the op, all ranks together. */
double op_flops(const Program *p, const Op *op);

/* All ops of the phase, loops counted as often as they run. */
double program_flops(const Program *p, Phase phase);

/* Those of the backward pass that only repeat forward ops: what `checkpoint`
 * costs. The model's own work is without them. */
double program_flops_again(const Program *p);

#endif
