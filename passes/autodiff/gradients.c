/* gradients.c: holds the table of gradient rules (gradients.h), and functions
 * that rules share: fitting a gradient to its operand's type, and zeros. */
#include "passes/autodiff/gradients.h"
#include "base/bug.h"

typedef struct GradientRow {
    GradientRule *rule;
    uint32_t blocked; /* bit i: operand i is an index or a condition */
} GradientRow;

/* Kinds without a row have no rule. Ops of later passes (updates, collectives)
 * never reach autodiff, which differentiates loops itself. */
static const GradientRow gradient_table[OP_COUNT] = {
    [OP_add] = {gradient_add, 0},
    [OP_sub] = {gradient_sub, 0},
    [OP_mul] = {gradient_mul, 0},
    [OP_div] = {gradient_div, 0},
    [OP_maximum] = {gradient_maximum, 0},
    [OP_minimum] = {gradient_minimum, 0},
    [OP_select] = {gradient_select, 1u << 0},
    [OP_neg] = {gradient_neg, 0},
    [OP_scale] = {gradient_scale, 0},
    [OP_offset] = {gradient_offset, 0},
    [OP_power] = {gradient_power, 0},
    [OP_exp] = {gradient_exp, 0},
    [OP_log] = {gradient_log, 0},
    [OP_sqrt] = {gradient_sqrt, 0},
    [OP_rsqrt] = {gradient_rsqrt, 0},
    [OP_recip] = {gradient_recip, 0},
    [OP_tanh] = {gradient_tanh, 0},
    [OP_sigmoid] = {gradient_sigmoid, 0},
    [OP_erf] = {gradient_erf, 0},
    [OP_sin] = {gradient_sin, 0},
    [OP_cos] = {gradient_cos, 0},
    [OP_abs] = {gradient_abs, 0},
    [OP_relu] = {gradient_relu, 0},
    [OP_cast] = {gradient_cast, 0},
    [OP_boundary] = {gradient_boundary, 0},
    [OP_sum] = {gradient_sum, 0},
    [OP_max] = {gradient_max, 0},
    [OP_sumsq] = {gradient_sumsq, 0},
    [OP_reshape] = {gradient_reshape, 0},
    [OP_broadcast] = {gradient_broadcast, 0},
    [OP_transpose] = {gradient_transpose, 0},
    [OP_slice] = {gradient_slice, 0},
    [OP_pad] = {gradient_pad, 0},
    [OP_concat] = {gradient_concat, 0},
    [OP_einsum] = {gradient_einsum, 0},
    [OP_embedding] = {gradient_embedding, 1u << 1},
    [OP_rotary] = {gradient_rotary, 0},
    [OP_attention] = {gradient_attention, 0},
    [OP_attention_dropout] = {gradient_attention, 1u << 3},
};

GradientRule *gradient_rule(OpKind kind)
{
    return gradient_table[kind].rule;
}

bool gradient_passes(OpKind kind, int i)
{
    const GradientRow *row = &gradient_table[kind];
    return row->rule != NULL && (i >= 32 || !(row->blocked >> i & 1));
}

/* Casting a gradient to a narrow type and back only loses bits: the sum that
 * follows uses the wide value. */
static Value *cast_back(Build *b, Value *d, DType t)
{
    const Op *def = d->def;
    if (def && def->kind == OP_cast && def->arg[0]->type.dtype == t &&
        dtype_size(t) > dtype_size(d->type.dtype))
        return def->arg[0];
    return ir_cast(b, d, t);
}

Value *gradient_fit(Build *b, Value *d, const Type *t)
{
    AttrList dims = {0};
    int lead = d->type.ndim - t->ndim;

    if (lead < 0)
        bug("a gradient of rank %d for a value of rank %d", d->type.ndim,
            t->ndim);
    for (int i = 0; i < d->type.ndim; i++) {
        /* A leading dim of size 1 needs no sum: the reshape drops it. */
        bool repeated =
            i < lead ? d->type.dim[i] != 1 : d->type.dim[i] != t->dim[i - lead];
        if (repeated)
            dims.v[dims.n++] = i;
    }
    if (dims.n > 0)
        d = ir_sum(b, d, dims, lead == 0);
    bool same = d->type.ndim == t->ndim;
    for (int i = 0; same && i < t->ndim; i++)
        same = d->type.dim[i] == t->dim[i];
    if (!same)
        d = ir_reshape(b, d, t->ndim, t->dim);
    return cast_back(b, d, t->dtype);
}

Value *gradient_zero(Build *b, const Type *t, DType dtype)
{
    if (t->nstack == 0)
        return ir_full(b, 0.0, dtype, t->ndim, t->dim);

    Attr attr[MAX_ATTRS] = {{.i = t->stack[0]}, {.i = 0}};
    Op *loop = ir_open(b, OP_loop, 0, NULL, 0, 0, attr);
    Build inner = *b;
    inner.region = loop->body;
    inner.before = NULL;
    Type layer = *t;
    layer.nstack--;
    for (int i = 0; i < layer.nstack; i++)
        layer.stack[i] = t->stack[i + 1];
    Value *zero = gradient_zero(&inner, &layer, dtype);
    ir_yield(b->p, loop->body, 1, &zero);
    ir_close(b->p, loop);
    return loop->out[0];
}
