/* ops.c: holds the operator table, generated from ops.def, and answers questions
 * about kinds of ops. */
#include "ir/ops.h"

#include <string.h>

enum { C = 1, E = 2 }; /* the flags of ops.def */

static const OpInfo table[] = {
#define A(name) ATTR_##name,
#define NONE
#define OP(name, args, results, attrs, rule, linear, flags, meaning)           \
    {#name,  args,   results,          {attrs ATTR_none},                      \
     rule,   linear, ((flags)&E) != 0, ((flags)&C) != 0,                       \
     meaning},
#include "ir/ops.def"
#undef OP
#undef NONE
#undef A
};

const OpInfo *op_info(OpKind kind)
{
    return &table[kind];
}

OpKind op_by_name(const char *name)
{
    for (int k = 0; k < OP_COUNT; k++)
        if (strcmp(table[k].name, name) == 0)
            return (OpKind)k;
    return OP_COUNT;
}

bool op_is_collective(OpKind kind)
{
    return kind == OP_all_gather || kind == OP_all_reduce ||
           kind == OP_reduce_scatter || kind == OP_all_to_all;
}

bool op_is_conversion(OpKind kind)
{
    return op_is_collective(kind) || kind == OP_local_slice ||
           kind == OP_mask_to_partial;
}

bool op_is_elementwise(OpKind kind)
{
    const char *rule = table[kind].rule;
    return rule && strcmp(rule, "=") == 0;
}

bool op_is_einsum(OpKind kind)
{
    const char *rule = table[kind].rule;
    return rule && strncmp(rule, "@einsum", 7) == 0;
}

bool op_is_view(OpKind kind)
{
    return kind == OP_reshape || kind == OP_finish_grad || kind == OP_fold ||
           kind == OP_unfold;
}

bool op_is_schedule(OpKind kind)
{
    return kind == OP_early || kind == OP_start || kind == OP_record ||
           kind == OP_wait || kind == OP_barrier;
}

bool op_has_body(OpKind kind)
{
    return kind == OP_loop || kind == OP_fused || kind == OP_early;
}

bool op_is_attention(OpKind kind)
{
    return kind == OP_attention || kind == OP_attention_dropout;
}

bool op_is_attention_grad(OpKind kind)
{
    return kind == OP_attention_grad || kind == OP_attention_dropout_grad;
}
