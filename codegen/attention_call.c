/* attention_call.c: describes a rank's call of attention; see attention_call.h. */
#include "codegen/attention_call.h"

#include "codegen/contraction.h"
#include "ir/analysis/attention.h"

/* Whether a gradient of attention must have the same bits in every call:
 * `train` asks for it, or several ranks compute the same gradient, which must
 * stay equal on all of them. */
static bool repeats_attention(const Program *p, const Op *grad)
{
    const Mesh *m = &p->mesh;
    const Placement *q = &grad->arg[1]->type.place;
    for (int a = 0; a < m->n - m->nloop; a++)
        if (m->size[a] > 1 && q->ax[a].kind != AX_S)
            return true;
    return p->train.deterministic;
}

ParcAttention attention_call(const Program *p, const Op *op)
{
    bool grad = attention_is_backward(op->kind), step = op_is_attention_step(op->kind);
    AttentionOperands at = attention_operands(op);
    Value *const *qkv = op->arg + at.q;
    const Mesh *m = &p->mesh;
    const Type *q = &qkv[0]->type, *k = &qkv[1]->type, *v = &qkv[2]->type;
    int64_t kv = type_local_dim(k, m, 2);
    return (ParcAttention){
        .b = type_local_dim(q, m, 0), .s = type_local_dim(q, m, 1),
        .t = type_local_dim(k, m, 1), .kv = kv,
        .g = type_local_dim(q, m, 2) / kv, .d = type_local_dim(q, m, 3),
        .e = type_local_dim(v, m, 3), .causal = attr_causal(op) != 0,
        .deterministic = grad && repeats_attention(p, op),
        .scale = (float)attr_scale(op), .type = runtime_type(q->dtype),
        .drop = (float)attr_rate(op), .window = attr_window(op),
        .softcap = (float)attr_softcap(op),
        .segments = attr_segments(op) != 0, .bias_dims = (int)attr_bias(op),
        .all_s = q->dim[1], .all_t = step ? k->dim[1] : 0,
        .key_pieces = step ? type_local_dim(&op->arg[at.key_base]->type, m, 0) : 0};
}
