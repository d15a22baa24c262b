/* attention.c: finds the operands of attention; see attention.h. */
#include "ir/analysis/attention.h"

bool attention_is_backward(OpKind kind)
{
    return kind != OP_attention && kind != OP_attention_step;
}

uint32_t attention_ring(const Program *p, const Op *op)
{
    enum { SEQUENCE = 1 };
    const Type *k = &op->arg[attention_operands(op).q + 1]->type;
    uint32_t axes = 0;
    for (int a = 0; a < p->mesh.n; a++)
        if (k->place.ax[a].kind == AX_S && k->place.ax[a].dim == SEQUENCE)
            axes |= 1u << a;
    return axes;
}

AttentionOperands attention_operands(const Op *op)
{
    bool grad = attention_is_backward(op->kind), step = op_is_attention_step(op->kind);
    AttentionOperands x = {.own = grad ? 6 : 3, .q = grad, .state = -1, .key = -1,
                           .query_segment = -1, .key_segment = -1, .bias = -1, .key_base = -1,
                           .query_base = -1, .base = -1};
    int at = x.own;
    if (step && !attr_first(op)) {
        x.state = at;
        at += grad ? 1 : 2;
    }
    if (attr_rate(op) > 0)
        x.key = at++;
    if (attr_segments(op)) {
        x.query_segment = at++;
        x.key_segment = at++;
    }
    if (attr_bias(op))
        x.bias = at++;
    if (step)
        x.key_base = at++;
    if (at < op->nargs)
        x.query_base = at++;
    if (at < op->nargs)
        x.base = at;
    return x;
}
