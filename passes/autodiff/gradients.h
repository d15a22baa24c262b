/* gradients.h: the gradient rule of every operator.
 *
 * A table has a row for each kind of op: a rule that builds the gradients of
 * the op's operands from those of its results. The rules handle neither loops
 * nor sums of gradient terms nor parameters; autodiff.c does. The functions
 * at the end of this file are for rules.
 */
#ifndef PARC_PASSES_AUTODIFF_GRADIENTS_H
#define PARC_PASSES_AUTODIFF_GRADIENTS_H

#include "ir/ir.h"

typedef struct Gradient {
    Build *b;            /* where the backward ops go */
    const Op *op;        /* the forward op */
    Value *d;            /* the gradient of the first result; NULL: zero */
    Value *d1;           /* the gradient of the second result, if any */
    struct Frame *frame; /* private to autodiff_values.c */
} Gradient;

typedef void GradientRule(Gradient *g);

/* NULL: the results do not depend on the operands in a differentiable way (a
 * comparison, a detach), or the op has no operands. */
GradientRule *gradient_rule(OpKind kind);

/* Whether operand i can have a gradient: false for integers and conditions. */
bool gradient_passes(const Op *op, int i);

/* A zero of t's shape: a `full`; for a stacked tensor a loop of them. */
Value *gradient_zero(Build *b, const Type *t, DType dtype);

/* The letters of a spec: of both operands, then of the result (einsum.c). */
typedef char EinsumLetters[3][MAX_DIMS + 1];
void einsum_letters(const char *spec, EinsumLetters letter);

/* The einsum of x and y with its result in type t: sums and an elementwise
 * product where they suffice (einsum.c). */
Value *einsum_build(Build *b, const char *spec, DType t, Value *x, Value *y);

/* The rules of attention (attention.c). */
GradientRule gradient_attention, gradient_attention_sinks;

/* ---- functions of autodiff_values.c for the rules ---- */

/* Whether operand i needs a gradient. */
bool gradient_wanted(const Gradient *g, int i);
/* A value of the forward program (operand or result of g->op), in the form in
 * which the backward ops can read it. */
Value *gradient_use(Gradient *g, Value *forward);
/* The dtype to compute operand i's gradient in: its own, but f32 for the
 * low-precision copy of a parameter. */
DType gradient_dtype(const Gradient *g, int i);
/* Adds d to operand i's gradient. d may have the result's shape where the
 * operand was broadcast, and another dtype. */
void gradient_give(Gradient *g, int i, Value *d);

#endif
