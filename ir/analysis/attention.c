/* attention.c: finds the operands of attention; see attention.h. */
#include "ir/analysis/attention.h"

bool attention_is_backward(OpKind kind)
{
    return kind != OP_attention && kind != OP_attention_step;
}

/* Bytes of a rank's part of a tensor whose sequences are split over n ranks. */
static double part_bytes(const Program *p, const Type *t, int64_t n)
{
    int64_t parts = n;
    for (int a = 0; a < p->mesh.n; a++)
        if (t->place.ax[a].kind == AX_S && !(p->plan.context.axes >> a & 1))
            parts *= p->mesh.size[a];
    return (double)type_elements(t) * (double)dtype_size(t->dtype) / (double)parts;
}

double attention_sent(const Program *p, const Op *op, Exchange by)
{
    int64_t n = mesh_group(&p->mesh, p->plan.context.axes);
    const Type *q = &op->arg[0]->type, *k = &op->arg[1]->type, *v = &op->arg[2]->type;
    double keys = part_bytes(p, k, n) + part_bytes(p, v, n);
    double queries = part_bytes(p, q, n) * (1 + (double)v->dim[3] / (double)q->dim[3]);
    double rest = (double)(n - 1), sum = (double)dtype_size(DT_F32) / (double)dtype_size(k->dtype);
    switch (by) {
    case EXCHANGE_HEADS: /* q, k, v and o; their gradients */
        return 2 * (queries + keys) * rest / (double)n;
    case EXCHANGE_GATHER: /* k and v, twice; their gradients */
        return 3 * keys * rest;
    case EXCHANGE_RING: /* the same, in n - 1 steps; their gradients in f32, which return */
        return 2 * keys * rest + keys * sum * (double)n;
    case EXCHANGE_AUTO: break;
    }
    return 0;
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
