/* flops.h: counts floating-point operations, from sharding rules.
 *
 * In the forward and backward pass only contractions count, as is common: 2 for
 * each multiply-add of an einsum, the two products of attention (half of them
 * for a causal mask), and 2.5 times as many for its gradient, which has five.
 * In the optimizer every arithmetic op counts one per element, and contractions
 * as in the other phases. Sizes are global; a program's total is for one step on all ranks. Numbers are doubles,
 * because a step of a large model exceeds 64 bits.
 */
#ifndef PARC_IR_ANALYSIS_FLOPS_H
#define PARC_IR_ANALYSIS_FLOPS_H

#include "ir/ir.h"

/* One execution of the op on all ranks. */
double op_flops(const Program *p, const Op *op);

/* Those of the rank that has most, relative to the average of all ranks: with a causal mask
 * the last queries have most keys, if ranks have parts of the queries. */
double op_flops_imbalance(const Program *p, const Op *op);

/* All ops of the phase, multiplied by trip counts. */
double program_flops(const Program *p, Phase phase);

/* The part of the backward pass that recomputes forward ops: the cost of
 * `checkpoint`. */
double program_flops_recomputed(const Program *p);

/* All flops that a step executes, for the utilization of the hardware (HFU). */
double program_flops_executed(const Program *p);
/* The convention of model flops (MFU): without recomputation, with attention's
 * gradient counted as 2 times its forward pass, whatever is recomputed in it, and
 * without the contractions of the optimizer. */
double program_flops_model(const Program *p);

#endif
