/* gradients.c: holds the gradient rule of every operator, and their table; see
 * gradients.h.
 *
 * d is the gradient of the result y. A rule that can use either the operand or
 * the result uses the result, because the next op often saves it for its own
 * gradient. Every rule is linear in d, so that a Partial d gives Partial
 * gradients, which are reduced later.
 */
#include "passes/autodiff/gradients.h"

#include <string.h>

static Value *operand(Gradient *g, int i)
{
    return gradient_use(g, g->op->arg[i]);
}

static Value *result(Gradient *g)
{
    return gradient_use(g, g->op->out[0]);
}

static Value *with_factor(Build *b, OpKind kind, Value *x, double factor)
{
    Attr attr[MAX_ATTRS] = {{.f = factor}};
    return ir_value(b, kind, 1, &x, attr, NULL);
}

static Value *times(Gradient *g, Value *factor)
{
    return ir_binary(g->b, OP_mul, g->d, factor);
}

/* ---- two operands ---- */

static void gradient_add(Gradient *g)
{
    gradient_give(g, 0, g->d);
    gradient_give(g, 1, g->d);
}

static void gradient_sub(Gradient *g)
{
    gradient_give(g, 0, g->d);
    if (gradient_wanted(g, 1))
        gradient_give(g, 1, ir_unary(g->b, OP_neg, g->d));
}

static void gradient_mul(Gradient *g)
{
    if (g->op->arg[0] == g->op->arg[1]) { /* a square */
        Value *product = times(g, operand(g, 0));
        gradient_give(g, 0, with_factor(g->b, OP_scale, product, 2.0));
        return;
    }
    if (gradient_wanted(g, 0))
        gradient_give(g, 0, times(g, operand(g, 1)));
    if (gradient_wanted(g, 1))
        gradient_give(g, 1, times(g, operand(g, 0)));
}

/* d(x/z) = dx / z - (x/z) dz / z */
static void gradient_div(Gradient *g)
{
    if (!gradient_wanted(g, 0) && !gradient_wanted(g, 1))
        return;
    Value *quotient = ir_binary(g->b, OP_div, g->d, operand(g, 1));
    gradient_give(g, 0, quotient);
    if (gradient_wanted(g, 1)) {
        Value *dz = ir_binary(g->b, OP_mul, quotient, result(g));
        gradient_give(g, 1, ir_unary(g->b, OP_neg, dz));
    }
}

/* The gradient goes to the larger (or smaller) operand; equal operands get half
 * each, as in PyTorch. */
static void give_winner(Gradient *g, int i, bool larger)
{
    if (!gradient_wanted(g, i))
        return;
    Value *mine = operand(g, i), *other = operand(g, 1 - i);
    Value *won = larger ? ir_binary(g->b, OP_less, other, mine)
                        : ir_binary(g->b, OP_less, mine, other);
    Value *tie = ir_binary(g->b, OP_equal, mine, other);
    Value *half = with_factor(g->b, OP_scale, tie, 0.5);
    gradient_give(g, i, times(g, ir_binary(g->b, OP_add, won, half)));
}

static void gradient_maximum(Gradient *g)
{
    give_winner(g, 0, g->op->kind == OP_maximum);
    give_winner(g, 1, g->op->kind == OP_maximum);
}

static void gradient_select(Gradient *g)
{
    if (!gradient_wanted(g, 1) && !gradient_wanted(g, 2))
        return;
    Value *condition = operand(g, 0);
    Value *zero = ir_full(g->b, 0.0, g->d->type.dtype, 0, NULL);
    if (gradient_wanted(g, 1)) {
        Value *args[] = {condition, g->d, zero};
        gradient_give(g, 1, ir_value(g->b, OP_select, 3, args, NULL, NULL));
    }
    if (gradient_wanted(g, 2)) {
        Value *args[] = {condition, zero, g->d};
        gradient_give(g, 2, ir_value(g->b, OP_select, 3, args, NULL, NULL));
    }
}

/* ---- one operand ---- */

static void gradient_neg(Gradient *g)
{
    gradient_give(g, 0, ir_unary(g->b, OP_neg, g->d));
}

static void gradient_scale(Gradient *g)
{
    double by = attr_by(g->op);
    gradient_give(g, 0, with_factor(g->b, OP_scale, g->d, by));
}

static void gradient_same(Gradient *g)
{
    gradient_give(g, 0, g->d);
}

static void gradient_power(Gradient *g)
{
    double e = attr_exponent(g->op);
    Value *x = operand(g, 0);
    Value *lower = e == 2.0 ? x : with_factor(g->b, OP_power, x, e - 1.0);
    gradient_give(g, 0, with_factor(g->b, OP_scale, times(g, lower), e));
}

static void gradient_exp(Gradient *g)
{
    gradient_give(g, 0, times(g, result(g)));
}

static void gradient_log(Gradient *g)
{
    gradient_give(g, 0, ir_binary(g->b, OP_div, g->d, operand(g, 0)));
}

static void gradient_sqrt(Gradient *g)
{
    Value *ratio = ir_binary(g->b, OP_div, g->d, result(g));
    gradient_give(g, 0, with_factor(g->b, OP_scale, ratio, 0.5));
}

/* y = x^(-1/2): dy/dx = -1/2 y^3 */
static void gradient_rsqrt(Gradient *g)
{
    Value *y = result(g);
    Value *square = ir_binary(g->b, OP_mul, y, y);
    Value *cube = ir_binary(g->b, OP_mul, square, y);
    gradient_give(g, 0, with_factor(g->b, OP_scale, times(g, cube), -0.5));
}

static void gradient_recip(Gradient *g)
{
    Value *y = result(g);
    Value *dx = times(g, ir_binary(g->b, OP_mul, y, y));
    gradient_give(g, 0, ir_unary(g->b, OP_neg, dx));
}

/* 1 - x */
static Value *complement(Gradient *g, Value *x)
{
    Value *negative = ir_unary(g->b, OP_neg, x);
    return with_factor(g->b, OP_offset, negative, 1.0);
}

static void gradient_tanh(Gradient *g)
{
    Value *y = result(g);
    Value *square = ir_binary(g->b, OP_mul, y, y);
    gradient_give(g, 0, times(g, complement(g, square)));
}

static void gradient_sigmoid(Gradient *g)
{
    Value *y = result(g);
    Value *slope = ir_binary(g->b, OP_mul, y, complement(g, y));
    gradient_give(g, 0, times(g, slope));
}

/* 2 / sqrt(pi) e^(-x^2) */
static void gradient_erf(Gradient *g)
{
    const double two_over_sqrt_pi = 1.1283791670955125739;
    Value *x = operand(g, 0);
    Value *square = ir_binary(g->b, OP_mul, x, x);
    Value *bell = ir_unary(g->b, OP_exp, ir_unary(g->b, OP_neg, square));
    Value *dx = times(g, bell);
    gradient_give(g, 0, with_factor(g->b, OP_scale, dx, two_over_sqrt_pi));
}

static void gradient_gelu(Gradient *g)
{
    Value *dx = ir_binary(g->b, OP_gelu_grad, g->d, operand(g, 0));
    gradient_give(g, 0, dx);
}

static void gradient_sin(Gradient *g)
{
    gradient_give(g, 0, times(g, ir_unary(g->b, OP_cos, operand(g, 0))));
}

static void gradient_cos(Gradient *g)
{
    Value *dx = times(g, ir_unary(g->b, OP_sin, operand(g, 0)));
    gradient_give(g, 0, ir_unary(g->b, OP_neg, dx));
}

/* The sign of x; at 0 it is 0. */
static void gradient_abs(Gradient *g)
{
    Value *x = operand(g, 0);
    Value *above = ir_unary(g->b, OP_step, x);
    Value *below = ir_unary(g->b, OP_step, ir_unary(g->b, OP_neg, x));
    gradient_give(g, 0, times(g, ir_binary(g->b, OP_sub, above, below)));
}

static void gradient_relu(Gradient *g)
{
    gradient_give(g, 0, times(g, ir_unary(g->b, OP_step, result(g))));
}

static void gradient_boundary(Gradient *g)
{
    const char *path = attr_path(g->op);
    Value *d = ir_boundary(g->b, g->d, path, attr_port(g->op), true);
    set_attr_styles(d->def, *attr_styles(g->op));
    gradient_give(g, 0, d);
}

/* ---- reductions ---- */

/* Every summed element gets the gradient of the sum: the dropped dims are
 * restored with size 1, then broadcast. */
static void gradient_sum(Gradient *g)
{
    const Type *x = &g->op->arg[0]->type;
    AttrList dims = *attr_dims(g->op);
    Type kept = *x;

    if (!gradient_wanted(g, 0))
        return;
    for (int i = 0; i < dims.n; i++)
        kept.dim[dims.v[i]] = 1;
    Value *d = ir_cast(g->b, g->d, x->dtype);
    if (d->type.ndim != kept.ndim)
        d = ir_reshape(g->b, d, kept.ndim, kept.dim);
    gradient_give(g, 0, ir_broadcast(g->b, d, x->ndim, x->dim));
}

static void gradient_max(Gradient *g)
{
    if (!gradient_wanted(g, 0))
        return;
    Diag *diag = g->b->p->diag;
    diag_error(diag, g->op->loc, "'max' has no gradient");
    diag_help(diag, "write detach(max(…)) where the gradient may be taken as "
                    "zero");
}

static void gradient_sumsq(Gradient *g)
{
    Attr two[MAX_ATTRS] = {{.f = 2.0}};
    Value *x = gradient_use(g, g->op->arg[0]);
    Value *product = ir_binary(g->b, OP_mul, x, g->d);
    gradient_give(g, 0, ir_value(g->b, OP_scale, 1, &product, two, NULL));
}

/* ---- shape ---- */

static void gradient_reshape(Gradient *g)
{
    const Type *x = &g->op->arg[0]->type;
    gradient_give(g, 0, ir_reshape(g->b, g->d, x->ndim, x->dim));
}

static void gradient_transpose(Gradient *g)
{
    AttrList perm = *attr_perm(g->op), inverse = {.n = perm.n};

    for (int i = 0; i < perm.n; i++)
        inverse.v[perm.v[i]] = i;
    gradient_give(g, 0, ir_transpose(g->b, g->d, inverse));
}

static Value *slice(Build *b, Value *x, int64_t dim, int64_t start,
                    int64_t size)
{
    Attr attr[MAX_ATTRS] = {{.i = dim}, {.i = start}, {.i = size}};
    return ir_value(b, OP_slice, 1, &x, attr, NULL);
}

static void gradient_slice(Gradient *g)
{
    int64_t dim = attr_dim(g->op);
    int64_t start = attr_start(g->op);
    int64_t size = attr_size(g->op);
    int64_t after = g->op->arg[0]->type.dim[dim] - start - size;
    Attr attr[MAX_ATTRS] = {{.i = dim}, {.i = start}, {.i = after}};

    gradient_give(g, 0, ir_value(g->b, OP_pad, 1, &g->d, attr, NULL));
}

static void gradient_pad(Gradient *g)
{
    int64_t dim = attr_dim(g->op);
    int64_t before = attr_before(g->op);
    int64_t size = g->op->arg[0]->type.dim[dim];

    gradient_give(g, 0, slice(g->b, g->d, dim, before, size));
}

static void gradient_concat(Gradient *g)
{
    int64_t dim = attr_dim(g->op), start = 0;

    for (int i = 0; i < g->op->nargs; i++) {
        int64_t size = g->op->arg[i]->type.dim[dim];
        if (gradient_wanted(g, i))
            gradient_give(g, i, slice(g->b, g->d, dim, start, size));
        start += size;
    }
}

/* ---- einsum ---- */

/* For xs,ys->zs the gradient of xs is zs,ys->xs. A letter that only xs has was
 * summed alone: the einsum omits it and a broadcast restores it. */
static Value *einsum_gradient(Gradient *g, const char *result, const char *own,
                              const char *other, int i)
{
    Arena *a = g->b->p->arena;
    const Type *x = &g->op->arg[i]->type;
    char kept[MAX_DIMS + 1] = "";
    Type narrow = *x;
    int n = 0;

    for (int k = 0; own[k] != '\0'; k++)
        if (strchr(result, own[k]) || strchr(other, own[k]))
            kept[n++] = own[k];
        else
            narrow.dim[k] = 1;
    kept[n] = '\0';
    const char *spec = arena_printf(a, "%s,%s->%s", result, other, kept);
    Value *d = einsum_build(g->b, spec, gradient_dtype(g, i), g->d,
                            gradient_use(g, g->op->arg[1 - i]));
    if (n < x->ndim) {
        d = ir_reshape(g->b, d, narrow.ndim, narrow.dim);
        d = ir_broadcast(g->b, d, x->ndim, x->dim);
    }
    return d;
}

static void gradient_einsum(Gradient *g)
{
    EinsumLetters s;

    einsum_letters(attr_spec(g->op), s);
    for (int i = 0; i < 2; i++)
        if (gradient_wanted(g, i))
            gradient_give(g, i, einsum_gradient(g, s[2], s[i], s[1 - i], i));
}

/* ---- convolution ---- */

static void give_conv_gradient(Gradient *g, int i, OpKind kind)
{
    if (!gradient_wanted(g, i))
        return;
    const Type *t = &g->op->arg[i]->type;
    Attr attr[MAX_ATTRS];
    memcpy(attr, g->op->attr, sizeof attr);
    attr[op_attr_index(kind, ATTR_type)].i = gradient_dtype(g, i);
    attr[op_attr_index(kind, ATTR_dims)].l = (AttrList){2, {t->dim[2], t->dim[3]}};
    Value *args[] = {g->d, gradient_use(g, g->op->arg[1 - i])};
    gradient_give(g, i, ir_value(g->b, kind, 2, args, attr, NULL));
}

static void gradient_conv(Gradient *g)
{
    give_conv_gradient(g, 0, OP_conv_grad_x);
    give_conv_gradient(g, 1, OP_conv_grad_weight);
}

/* ---- indexing ---- */

static void gradient_embedding(Gradient *g)
{
    if (!gradient_wanted(g, 0))
        return;
    const Type *table = &g->op->arg[0]->type;
    Attr attr[MAX_ATTRS] = {{.i = table->dim[0]}};
    Value *args[] = {g->d, gradient_use(g, g->op->arg[1])};
    gradient_give(g, 0, ir_value(g->b, OP_embedding_grad, 2, args, attr, NULL));
}

/* The elements that were chosen get the gradients of their values. */
static void gradient_topk(Gradient *g)
{
    const Type *x = &g->op->arg[0]->type;
    Attr attr[MAX_ATTRS] = {{.i = x->dim[x->ndim - 1]}};
    Value *args[] = {g->d, gradient_use(g, g->op->out[1])};
    gradient_give(g, 0, ir_value(g->b, OP_topk_grad, 2, args, attr, NULL));
}

/* Tokens and rows, pairs and their rows: the gradient goes the other way. */
static void give_rows(Gradient *g, OpKind kind)
{
    if (!gradient_wanted(g, 0))
        return;
    Value *args[] = {g->d, gradient_use(g, g->op->arg[1]), gradient_use(g, g->op->arg[2])};
    gradient_give(g, 0, ir_value(g->b, kind, 3, args, NULL, NULL));
}

static void gradient_gather_rows(Gradient *g)
{
    give_rows(g, OP_combine_rows);
}

static void gradient_combine_rows(Gradient *g)
{
    give_rows(g, OP_gather_rows);
}

static void gradient_gather_pairs(Gradient *g)
{
    give_rows(g, OP_scatter_pairs);
}

static void gradient_scatter_pairs(Gradient *g)
{
    give_rows(g, OP_gather_pairs);
}

static void gradient_grouped_matmul(Gradient *g)
{
    static const OpKind kind[] = {OP_grouped_matmul_grad_rows, OP_grouped_matmul_grad_weight};
    for (int i = 0; i < 2; i++) {
        if (!gradient_wanted(g, i))
            continue;
        Attr attr[MAX_ATTRS] = {{.i = gradient_dtype(g, i)}};
        Value *args[] = {g->d, gradient_use(g, g->op->arg[1 - i]),
                         gradient_use(g, g->op->arg[2])};
        gradient_give(g, i, ir_value(g->b, kind[i], 3, args, attr, NULL));
    }
}

/* The inverse of a rotation is its transpose. */
static void gradient_rotary(Gradient *g)
{
    if (gradient_wanted(g, 1) || gradient_wanted(g, 2)) {
        diag_error(g->b->p->diag, g->op->loc,
                   "a rotary embedding's angles cannot be trained");
        return;
    }
    Attr attr[MAX_ATTRS] = {{.i = attr_half(g->op)},
                            {.i = !attr_inverse(g->op)}};
    Value *args[] = {g->d, gradient_use(g, g->op->arg[1]),
                     gradient_use(g, g->op->arg[2])};
    gradient_give(g, 0, ir_value(g->b, OP_rotary, 3, args, attr, NULL));
}

/* ---- the table ---- */

typedef struct GradientRow {
    GradientRule *rule;
    uint32_t blocked; /* bit i: operand i is a condition */
} GradientRow;

#define ROW(kind) [OP_##kind] = {gradient_##kind, 0}

/* Kinds without a row have no rule. Ops of later passes (updates, collectives)
 * never reach autodiff, which differentiates loops itself. */
static const GradientRow gradient_table[OP_COUNT] = {
    ROW(add), ROW(sub), ROW(mul), ROW(div), ROW(maximum),
    [OP_minimum] = {gradient_maximum, 0},
    [OP_select] = {gradient_select, 1u << 0},
    ROW(neg), ROW(scale), ROW(power), ROW(exp), ROW(log), ROW(sqrt), ROW(rsqrt),
    ROW(recip), ROW(tanh), ROW(sigmoid), ROW(erf), ROW(gelu), ROW(sin), ROW(cos),
    ROW(abs), ROW(relu), ROW(boundary), ROW(sum), ROW(max), ROW(sumsq),
    [OP_offset] = {gradient_same, 0},
    [OP_cast] = {gradient_same, 0},
    [OP_broadcast] = {gradient_same, 0},
    ROW(reshape), ROW(transpose), ROW(slice), ROW(pad), ROW(concat),
    ROW(einsum), ROW(conv), ROW(rotary), ROW(topk),
    ROW(gather_rows), ROW(combine_rows), ROW(gather_pairs), ROW(scatter_pairs),
    ROW(grouped_matmul),
    ROW(embedding), ROW(attention), ROW(attention_sinks),
};

GradientRule *gradient_rule(OpKind kind)
{
    return gradient_table[kind].rule;
}

bool gradient_passes(const Op *op, int i)
{
    const GradientRow *row = &gradient_table[op->kind];
    return row->rule != NULL && dtype_is_float(op->arg[i]->type.dtype) &&
           (i >= 32 || !(row->blocked >> i & 1));
}
