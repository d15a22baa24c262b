/* gradients.c: holds the table of gradient rules (gradients.h), and functions
 * that rules share: fitting a gradient to its operand's type, and zeros. */
#include "passes/autodiff/gradients.h"
#include "base/bug.h"

typedef struct GradientRow {
    GradientRule *rule;
    uint32_t blocked; /* bit i: operand i is an index or a condition */
} GradientRow;

#define ROW(kind) [OP_##kind] = {gradient_##kind, 0}

/* Kinds without a row have no rule. Ops of later passes (updates, collectives)
 * never reach autodiff, which differentiates loops itself. */
static const GradientRow gradient_table[OP_COUNT] = {
    ROW(add), ROW(sub), ROW(mul), ROW(div), ROW(maximum),
    [OP_minimum] = {gradient_maximum, 0},
    [OP_select] = {gradient_select, 1u << 0},
    ROW(neg), ROW(scale), ROW(power), ROW(exp), ROW(log), ROW(sqrt), ROW(rsqrt),
    ROW(recip), ROW(tanh), ROW(sigmoid), ROW(erf), ROW(gelu), ROW(sin), ROW(cos), ROW(abs),
    ROW(relu), ROW(boundary), ROW(sum), ROW(max), ROW(sumsq),
    [OP_offset] = {gradient_same, 0},
    [OP_cast] = {gradient_same, 0},
    [OP_broadcast] = {gradient_same, 0},
    ROW(reshape), ROW(transpose), ROW(slice), ROW(pad), ROW(concat),
    ROW(einsum), ROW(rotary), ROW(attention),
    [OP_embedding] = {gradient_embedding, 1u << 1},
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
