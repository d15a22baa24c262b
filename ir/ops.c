/* ops.c: holds the operator table, generated from ops.def, answers questions
 * about kinds of ops, and names origins, phases and styles. */
#include <string.h>

#include "base/bug.h"
#include "ir/internal.h"

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

static int find_attr(OpKind kind, AttrName name)
{
    for (int i = 0; table[kind].attr[i]; i++)
        if (table[kind].attr[i] == name)
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
        bug("op %s has no attribute %s", table[kind].name, attr_text(name));
    return index;
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

const char *stream_name(int stream)
{
    static const char *const name[STREAMS] = {"compute", "tensor", "data",
                                              "host"};
    return name[stream];
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

Op *op_loop(const Op *op)
{
    Op *owner = op->region->owner;
    while (owner && owner->kind != OP_loop)
        owner = owner->region->owner;
    return owner;
}

Op *op_early(const Op *op)
{
    Op *owner = op->region->owner;
    return owner && owner->kind == OP_early ? owner : NULL;
}

bool op_reads(const Op *op, const Op *of)
{
    for (int i = 0; i < op->nargs; i++)
        if (op->arg[i]->def == of)
            return true;
    return false;
}

bool op_is_zero(const Op *op)
{
    return op && (op->kind == OP_zeros ||
                  (op->kind == OP_full && attr_value(op) == 0));
}

bool op_is_attention(OpKind kind)
{
    return kind == OP_attention || kind == OP_attention_dropout;
}

bool op_is_attention_grad(OpKind kind)
{
    return kind == OP_attention_grad || kind == OP_attention_dropout_grad;
}

const char *origin_name(Origin o)
{
    static const char *const name[ORIGINS] = {"",          "style", "unit",
                                              "gradient",  "loss",
                                              "optimizer", "implied"};
    return name[o];
}

const char *phase_name(Phase p)
{
    static const char *const name[] = {"init", "forward", "backward",
                                       "optimizer"};
    return name[p];
}

static const struct {
    uint32_t sides;
    const char *name;
} styles[] = {
    [STYLE_COLWISE] = {STYLE_INPUTS | STYLE_OUTPUTS, "ColwiseParallel"},
    [STYLE_ROWWISE] = {STYLE_INPUTS | STYLE_OUTPUTS, "RowwiseParallel"},
    [STYLE_SEQUENCE] = {STYLE_INPUTS | STYLE_OUTPUTS, "SequenceParallel"},
    [STYLE_PREPARE_INPUT] = {STYLE_INPUTS, "PrepareModuleInput"},
    [STYLE_PREPARE_OUTPUT] = {STYLE_OUTPUTS, "PrepareModuleOutput"},
    [STYLE_PREPARE_INPUT_OUTPUT] = {STYLE_INPUTS | STYLE_OUTPUTS,
                                    "PrepareModuleInputOutput"},
    [STYLE_PARAMETER] = {0, "Parameter"},
};

uint32_t style_sides(StyleKind k)
{
    return styles[k].sides;
}

const char *style_name(StyleKind k)
{
    return styles[k].name;
}
