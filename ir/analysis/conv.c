/* conv.c: finds the tensors of a convolution; see conv.h. */
#include "ir/analysis/conv.h"

ConvTensors conv_tensors(const Op *op)
{
    Value *const *arg = op->arg, *out = op->out[0];
    if (op->kind == OP_conv)
        return (ConvTensors){arg[0], arg[1], out};
    return op->kind == OP_conv_grad_x ? (ConvTensors){out, arg[1], arg[0]}
                                      : (ConvTensors){arg[1], out, arg[0]};
}
