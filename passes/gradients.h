/* gradients.h: the gradient of every operator.
 *
 * One table with a row for each kind of op: a rule that, given the gradients
 * of the op's results, builds those of its operands. The rules know nothing
 * of loops, sums or parameters; autodiff.c does, and gives them the four
 * functions at the end of this file to build with.
 */
#ifndef PARC_PASSES_GRADIENTS_H
#define PARC_PASSES_GRADIENTS_H

#include "ir/ir.h"

typedef struct Gradient {
    Build *b;            /* where the backward ops go */
    const Op *op;        /* the forward op */
    Value *d;            /* the gradient of its first result; NULL: zero */
    Value *d1;           /* that of its second, where it has one */
    struct Frame *frame; /* the driver's own */
} Gradient;

typedef void GradientRule(Gradient *g);

/* NULL: the op's results do not depend on its operands in a differentiable
 * way (a comparison, a detach), or it has no operands. */
GradientRule *gradient_rule(OpKind kind);

/* Whether operand number `i` of such an op can have a gradient at all: false
 * for indices and conditions. */
bool gradient_passes(OpKind kind, int i);

/* d summed over the dims that were broadcast to get from t's shape to d's,
 * in t's dtype. */
Value *gradient_fit(Build *b, Value *d, const Type *t);

/* A zero of the type's shape: a `full`, or for a stack a loop of them. */
Value *gradient_zero(Build *b, const Type *t, DType dtype);

GradientRule gradient_add, gradient_sub, gradient_mul, gradient_div,
    gradient_maximum, gradient_minimum, gradient_select, gradient_neg,
    gradient_scale, gradient_offset, gradient_power, gradient_exp, gradient_log,
    gradient_sqrt, gradient_rsqrt, gradient_recip, gradient_tanh,
    gradient_sigmoid, gradient_erf, gradient_sin, gradient_cos, gradient_abs,
    gradient_relu, gradient_cast, gradient_boundary;
GradientRule gradient_sum, gradient_max, gradient_sumsq, gradient_reshape,
    gradient_broadcast, gradient_transpose, gradient_slice, gradient_pad,
    gradient_concat;
GradientRule gradient_einsum, gradient_embedding, gradient_rotary,
    gradient_attention;

/* ---- what autodiff.c gives the rules ---- */

/* Whether operand number `i` needs a gradient. */
bool gradient_wanted(const Gradient *g, int i);
/* A value of the forward program (operand or result of g->op), as it can be
 * read where the backward ops go. */
Value *gradient_use(Gradient *g, Value *forward);
/* The dtype in which operand i's gradient is best computed: its own, but f32
 * for a parameter's narrow copy. */
DType gradient_dtype(const Gradient *g, int i);
/* Adds d to operand i's gradient. d may have the result's shape where the
 * operand was broadcast, and another dtype. */
void gradient_give(Gradient *g, int i, Value *d);

#endif
