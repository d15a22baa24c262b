/* producer.c: finds the op that computes the elements of a value; see
 * producer.h. */
#include "ir/analysis/producer.h"

bool op_contracts(const Op *op)
{
    return op_is_einsum(op->kind) || op_is_attention(op->kind) || op_is_conv(op->kind) ||
           op_is_grouped_matmul(op->kind) || op->kind == OP_embedding || op->kind == OP_embedding_grad;
}

bool op_passes_on(const Op *op)
{
    return op->kind == OP_cast || op->kind == OP_boundary ||
           op->kind == OP_fetch || op->kind == OP_copy ||
           op->kind == OP_transpose || op_is_view(op->kind) ||
           op_is_conversion(op->kind);
}

const Value *value_before_loops(const Value *v)
{
    while (!v->def && v->region->owner)
        v = v->region->owner->arg[v->index];
    return v;
}

const Value *value_outside(const Value *v)
{
    while (v && !v->def) {
        const Op *loop = v->region->owner;
        v = loop && v->index >= loop->ncarry ? loop->arg[v->index] : NULL;
    }
    return v;
}

int value_param(const Value *v)
{
    while ((v = value_outside(v)) && v->def->kind == OP_cast)
        v = v->def->arg[0];
    return v && v->def->kind == OP_param ? attr_param(v->def) : -1;
}

enum { MAX_STEPS = 10000 };

const Op *producer_of(const Value *v)
{
    for (int steps = 0; steps < MAX_STEPS; steps++) {
        v = value_before_loops(v);
        const Op *op = v->def;
        if (!op || op->nargs == 0 || op_contracts(op))
            return op;
        if (op->body) {
            v = op->body->yield[v->index];
            continue;
        }
        const Value *next = op->arg[0];
        for (int i = 1; i < op->nargs; i++)
            if (type_elements(&op->arg[i]->type) > type_elements(&next->type))
                next = op->arg[i];
        v = next;
    }
    return NULL;
}

const Value *parameter_of(const Value *v)
{
    for (int steps = 0; steps < MAX_STEPS; steps++) {
        v = value_before_loops(v);
        const Op *op = v->def;
        if (!op || op->kind == OP_param)
            return op ? v : NULL;
        if (op->kind == OP_loop)
            v = op->body->yield[v->index];
        else if (op_passes_on(op))
            v = op->arg[v->index < op->nargs ? v->index : 0];
        else
            return NULL;
    }
    return NULL;
}
