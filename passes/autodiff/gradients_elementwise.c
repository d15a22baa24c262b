/* gradients_elementwise.c: holds the gradient rules (gradients.h) of
 * elementwise ops.
 *
 * d is the gradient of the result y. A rule that can use either the operand or
 * the result uses the result, because the next op often saves it for its own
 * gradient. Every rule is linear in d, so that a Partial d gives Partial
 * gradients, which are reduced later.
 */
#include "passes/autodiff/gradients.h"

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

void gradient_add(Gradient *g)
{
    gradient_give(g, 0, g->d);
    gradient_give(g, 1, g->d);
}

void gradient_sub(Gradient *g)
{
    gradient_give(g, 0, g->d);
    if (gradient_wanted(g, 1))
        gradient_give(g, 1, ir_unary(g->b, OP_neg, g->d));
}

void gradient_mul(Gradient *g)
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
void gradient_div(Gradient *g)
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

void gradient_maximum(Gradient *g)
{
    give_winner(g, 0, g->op->kind == OP_maximum);
    give_winner(g, 1, g->op->kind == OP_maximum);
}

void gradient_select(Gradient *g)
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

void gradient_neg(Gradient *g)
{
    gradient_give(g, 0, ir_unary(g->b, OP_neg, g->d));
}

void gradient_scale(Gradient *g)
{
    double by = attr_by(g->op);
    gradient_give(g, 0, with_factor(g->b, OP_scale, g->d, by));
}

void gradient_same(Gradient *g)
{
    gradient_give(g, 0, g->d);
}

void gradient_power(Gradient *g)
{
    double e = attr_exponent(g->op);
    Value *x = operand(g, 0);
    Value *lower = e == 2.0 ? x : with_factor(g->b, OP_power, x, e - 1.0);
    gradient_give(g, 0, with_factor(g->b, OP_scale, times(g, lower), e));
}

void gradient_exp(Gradient *g)
{
    gradient_give(g, 0, times(g, result(g)));
}

void gradient_log(Gradient *g)
{
    gradient_give(g, 0, ir_binary(g->b, OP_div, g->d, operand(g, 0)));
}

void gradient_sqrt(Gradient *g)
{
    Value *ratio = ir_binary(g->b, OP_div, g->d, result(g));
    gradient_give(g, 0, with_factor(g->b, OP_scale, ratio, 0.5));
}

/* y = x^(-1/2): dy/dx = -1/2 y^3 */
void gradient_rsqrt(Gradient *g)
{
    Value *y = result(g);
    Value *square = ir_binary(g->b, OP_mul, y, y);
    Value *cube = ir_binary(g->b, OP_mul, square, y);
    gradient_give(g, 0, with_factor(g->b, OP_scale, times(g, cube), -0.5));
}

void gradient_recip(Gradient *g)
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

void gradient_tanh(Gradient *g)
{
    Value *y = result(g);
    Value *square = ir_binary(g->b, OP_mul, y, y);
    gradient_give(g, 0, times(g, complement(g, square)));
}

void gradient_sigmoid(Gradient *g)
{
    Value *y = result(g);
    Value *slope = ir_binary(g->b, OP_mul, y, complement(g, y));
    gradient_give(g, 0, times(g, slope));
}

/* 2 / sqrt(pi) e^(-x^2) */
void gradient_erf(Gradient *g)
{
    const double two_over_sqrt_pi = 1.1283791670955125739;
    Value *x = operand(g, 0);
    Value *square = ir_binary(g->b, OP_mul, x, x);
    Value *bell = ir_unary(g->b, OP_exp, ir_unary(g->b, OP_neg, square));
    Value *dx = times(g, bell);
    gradient_give(g, 0, with_factor(g->b, OP_scale, dx, two_over_sqrt_pi));
}

void gradient_gelu(Gradient *g)
{
    Value *dx = ir_binary(g->b, OP_gelu_grad, g->d, operand(g, 0));
    gradient_give(g, 0, dx);
}

void gradient_sin(Gradient *g)
{
    gradient_give(g, 0, times(g, ir_unary(g->b, OP_cos, operand(g, 0))));
}

void gradient_cos(Gradient *g)
{
    Value *dx = times(g, ir_unary(g->b, OP_sin, operand(g, 0)));
    gradient_give(g, 0, ir_unary(g->b, OP_neg, dx));
}

/* The sign of x; at 0 it is 0. */
void gradient_abs(Gradient *g)
{
    Value *x = operand(g, 0);
    Value *above = ir_unary(g->b, OP_step, x);
    Value *below = ir_unary(g->b, OP_step, ir_unary(g->b, OP_neg, x));
    gradient_give(g, 0, times(g, ir_binary(g->b, OP_sub, above, below)));
}

void gradient_relu(Gradient *g)
{
    gradient_give(g, 0, times(g, ir_unary(g->b, OP_step, result(g))));
}

void gradient_boundary(Gradient *g)
{
    const char *path = attr_path(g->op);
    Value *d = ir_boundary(g->b, g->d, path, attr_port(g->op), true);
    set_attr_styles(d->def, *attr_styles(g->op));
    gradient_give(g, 0, d);
}
