/* conv_call.c: describes a rank's call of a convolution; see conv_call.h. */
#include "codegen/conv_call.h"

#include <string.h>

#include "codegen/contraction.h"
#include "ir/analysis/conv.h"

/* Neither the last two dims of a tensor nor pairs are split. */
static void copy_pair(int64_t to[2], const int64_t *from)
{
    memcpy(to, from, 2 * sizeof *to);
}

ParcConvSpec conv_call(const Program *p, const Op *op)
{
    const Mesh *m = &p->mesh;
    ConvTensors t = conv_tensors(op);
    const Type *x = &t.x->type, *weight = &t.weight->type, *y = &t.y->type;
    int64_t c = type_local_dim(weight, m, 1), groups = type_local_dim(x, m, 1) / c;
    ParcConvSpec s = {.computes = op->kind == OP_conv          ? PARC_CONV_Y
                                  : op->kind == OP_conv_grad_x ? PARC_CONV_X
                                                               : PARC_CONV_WEIGHT,
                      .n = type_local_dim(x, m, 0), .g = groups, .c = c,
                      .k = type_local_dim(weight, m, 0) / groups,
                      .type = runtime_type(op->arg[0]->type.dtype),
                      .out = runtime_type(op->out[0]->type.dtype)};
    copy_pair(s.image, x->dim + 2);
    copy_pair(s.kernel, weight->dim + 2);
    copy_pair(s.result, y->dim + 2);
    copy_pair(s.stride, attr_stride(op)->v);
    copy_pair(s.padding, attr_padding(op)->v);
    copy_pair(s.dilation, attr_dilation(op)->v);
    return s;
}
