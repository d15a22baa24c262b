/* ops.c: holds the tables of operators and attributes, generated from ops.def and
 * attrs.def, answers questions about kinds of ops, and reads and sets the
 * attributes of ops. */
#include "ir/ops.h"

#include <string.h>

#include "base/bug.h"
#include "ir/ir.h"

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
           kind == OP_reduce_scatter || kind == OP_all_to_all ||
           kind == OP_shift || op_is_hand_over(kind);
}

bool op_is_hand_over(OpKind kind)
{
    return kind == OP_move || kind == OP_receive || kind == OP_send;
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

bool op_is_conv(OpKind kind)
{
    return kind == OP_conv || kind == OP_conv_grad_x || kind == OP_conv_grad_weight;
}

bool op_is_grouped_matmul(OpKind kind)
{
    return kind == OP_grouped_matmul || kind == OP_grouped_matmul_grad_rows ||
           kind == OP_grouped_matmul_grad_weight;
}

bool op_is_attention(OpKind kind)
{
    return kind == OP_attention || kind == OP_attention_grad ||
           kind == OP_attention_bias_grad || op_is_attention_step(kind);
}

bool op_is_attention_step(OpKind kind)
{
    return kind == OP_attention_step || kind == OP_attention_grad_step;
}

const char *spec_letters(const char *spec, int i, int *n)
{
    for (; i > 0; i--)
        spec += strcspn(spec, ",>") + 1;
    *n = (int)strcspn(spec, ",-");
    return spec;
}

bool op_is_view(OpKind kind)
{
    return kind == OP_reshape || kind == OP_finish_grad || kind == OP_fold ||
           kind == OP_unfold;
}

bool op_is_schedule(OpKind kind)
{
    return kind == OP_early || kind == OP_start || kind == OP_record ||
           kind == OP_wait || kind == OP_barrier || kind == OP_join ||
           kind == OP_post || kind == OP_await;
}

bool op_has_body(OpKind kind)
{
    return kind == OP_loop || kind == OP_fused || kind == OP_early;
}

/* ---- attributes ---------------------------------------------------------- */

const char *attr_text(AttrName name)
{
    static const char *const text[] = {
        [ATTR_none] = "",
#define ATTR(type, name) [ATTR_##name] = #name,
#include "ir/attrs.def"
#undef ATTR
    };
    return text[name];
}

AttrType attr_type_of(AttrName name)
{
    static const AttrType types[] = {
#define ATTR(type, name) [ATTR_##name] = ATTR_TYPE_##type,
#include "ir/attrs.def"
#undef ATTR
    };
    return types[name];
}

bool attr_equal(AttrType type, const Attr *x, const Attr *y)
{
    if (type == ATTR_TYPE_TEXT)
        return !strcmp(x->s ? x->s : "", y->s ? y->s : "");
    if (type == ATTR_TYPE_LIST)
        return x->l.n == y->l.n &&
               !memcmp(x->l.v, y->l.v, sizeof *x->l.v * (size_t)x->l.n);
    return type == ATTR_TYPE_PORT ? port_equal(x->port, y->port)
                                  : x->i == y->i;
}

static int find_attr(OpKind kind, AttrName name)
{
    const AttrName *attr = op_info(kind)->attr;
    for (int i = 0; attr[i]; i++)
        if (attr[i] == name)
            return i;
    return -1;
}

bool op_has_attr(OpKind kind, AttrName name)
{
    return find_attr(kind, name) >= 0;
}

int op_attr_index(OpKind kind, AttrName name)
{
    int index = find_attr(kind, name);
    if (index < 0)
        bug("op %s has no attribute %s", op_info(kind)->name, attr_text(name));
    return index;
}

#define DEFINE(get, set, address, field, name)                                 \
    get attr_##name(const Op *op)                                              \
    {                                                                          \
        return address op->attr[op_attr_index(op->kind, ATTR_##name)].field;   \
    }                                                                          \
    void set_attr_##name(Op *op, set value)                                    \
    {                                                                          \
        op->attr[op_attr_index(op->kind, ATTR_##name)].field = value;          \
    }
#define ATTR(type, name) ATTR_APPLY(DEFINE, ATTR_##type, name)
#include "ir/attrs.def"
#undef ATTR
