/* attention.h: finds the operands of attention and of its gradients, some of which exist
 * only for some attributes. */
#ifndef PARC_IR_ANALYSIS_ATTENTION_H
#define PARC_IR_ANALYSIS_ATTENTION_H

#include "ir/ir.h"

/* The dims of a bias, as bits of the attribute. */
enum { BIAS_BATCH = 1, BIAS_HEADS = 2, BIAS_QUERIES = 4, BIAS_KEYS = 8, BIAS_DIMS = 4 };

/* Indices of operands; -1: the op has none. */
typedef struct AttentionOperands {
    int own; /* those that every call has: q, k, v; or do, q, k, v, o, lse */
    int q;   /* k and v follow */
    int state; /* of a step: o and lse, or dq, that it continues */
    int key; /* of the random numbers */
    int query_segment, key_segment;
    int bias;
    int key_base;   /* of a step */
    int query_base; /* the base of the queries; those for random numbers follow */
    int base;       /* the first of these */
} AttentionOperands;

/* `op` is attention, one of its gradients, or a step of either. */
AttentionOperands attention_operands(const Op *op);
/* Whether it is a gradient. */
bool attention_is_backward(OpKind kind);
/* Bytes that a rank sends for an attention, or the first step of a ring, and for its gradient,
 * with an exchange over the axis of the context. */
double attention_sent(const Program *p, const Op *op, Exchange by);
/* The axes over which the keys of an attention are split: a ring of ranks passes them on. */
uint32_t attention_ring(const Program *p, const Op *op);

#endif
