/* conv.h: finds the tensors of a convolution. Two of them are operands, the third is the
 * result; which, depends on the op. */
#ifndef PARC_IR_ANALYSIS_CONV_H
#define PARC_IR_ANALYSIS_CONV_H

#include "ir/ir.h"

/* x [n, gc, h, w], weight [gk, c, i, j], y [n, gk, r, s] or their gradients. */
typedef struct ConvTensors {
    Value *x, *weight, *y;
} ConvTensors;

/* `op` is conv or one of its gradients. */
ConvTensors conv_tensors(const Op *op);

#endif
