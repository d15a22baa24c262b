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
