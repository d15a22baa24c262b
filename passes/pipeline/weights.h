/* weights.h: divides the backward pass of a staged loop in two actions. */
#ifndef PARC_PASSES_PIPELINE_WEIGHTS_H
#define PARC_PASSES_PIPELINE_WEIGHTS_H

#include "ir/ir.h"

/* Gives ops of the loop's body, of the backward pass, the phase PH_WEIGHTS: those that
 * only gradients of weights depend on. The loop's transfers are explicit. */
void weights_divide(Program *p, Op *staged);

#endif
