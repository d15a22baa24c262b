/* attention.c: finds the operands of attention; see attention.h. */
#include "ir/analysis/attention.h"

AttentionOperands attention_operands(const Op *op)
{
    bool grad = op->kind != OP_attention;
    AttentionOperands x = {.own = grad ? 6 : 3, .q = grad, .key = -1, .query_segment = -1,
                           .key_segment = -1, .bias = -1, .query_base = -1, .base = -1};
    int at = x.own;
    if (attr_rate(op) > 0)
        x.key = at++;
    if (attr_segments(op)) {
        x.query_segment = at++;
        x.key_segment = at++;
    }
    if (attr_bias(op))
        x.bias = at++;
    if (at < op->nargs)
        x.query_base = at++;
    if (at < op->nargs)
        x.base = at;
    return x;
}
