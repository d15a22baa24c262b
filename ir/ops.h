/* ops.h: the kinds of ops. ops.def is the table of their properties. */
#ifndef PARC_IR_OPS_H
#define PARC_IR_OPS_H

#include "ir/attrs.h"

typedef enum OpKind {
#define OP(name, ...) OP_##name,
#include "ir/ops.def"
#undef OP
    OP_COUNT
} OpKind;

enum { SPEC_LETTERS = 26 }; /* for the dims in specs of einsums and in rules */

typedef struct OpInfo {
    const char *name;
    int nargs, nouts;    /* -1: any number */
    AttrName attr[MAX_ATTRS + 1]; /* in their order; ATTR_none ends them */
    const char *rule;    /* sharding rule, see rules.h; NULL: structural */
    const char *linear;  /* the operands in which it is linear, see rules.h */
    bool effect;         /* not removed if its results are unused */
    bool cheap;          /* elementwise or a small reduction: may be recomputed
                          * instead of saved */
    const char *meaning;
} OpInfo;
const OpInfo *op_info(OpKind kind);
OpKind op_by_name(const char *name); /* OP_COUNT: none */
/* Whether ops of the kind have the attribute; its position among theirs, bug()
 * if they do not have it. */
bool op_has_attr(OpKind kind, AttrName name);
int op_attr_index(OpKind kind, AttrName name);

bool op_is_collective(OpKind kind); /* moves data between ranks */
bool op_is_conversion(
    OpKind kind); /* collectives, local_slice, mask_to_partial */
/* What one stage of a pipeline has goes to another. */
bool op_is_hand_over(OpKind kind); /* move, receive, send */
bool op_is_elementwise(OpKind kind); /* rule "=" */
bool op_is_einsum(OpKind kind); /* with or without an epilogue */
bool op_is_attention(OpKind kind); /* attention and its gradients, and their steps */
bool op_is_attention_step(OpKind kind); /* attention_step, attention_grad_step */
bool op_is_conv(OpKind kind);      /* conv and its gradients */
bool op_is_grouped_matmul(OpKind kind); /* grouped_matmul and its gradients */
/* The letters of tensor i of an einsum's spec, operands first; *n: their number. */
const char *spec_letters(const char *spec, int i, int *n);
/* Whether the result is the operand's memory: reshape, fold, unfold,
 * finish_grad. */
bool op_is_view(OpKind kind);
/* Ops that only say when others run: early, start, record, wait, barrier. */
bool op_is_schedule(OpKind kind);
/* Whether the op has a region: loop, fused, early. */
bool op_has_body(OpKind kind);

#endif
