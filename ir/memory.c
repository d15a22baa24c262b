/* memory.c: questions about the memory plan and the places of values. */
#include "ir/memory.h"

const char *const memory_class_words[] = {
    "params",      "grads",     "optimizer", "gathered",
    "activations", "workspace", NULL};

bool address_equal(const Address *a, const Address *b)
{
    bool same = a->block == b->block && a->nstrides == b->nstrides;
    for (int i = 0; same && i < a->nstrides; i++)
        same = a->loop[i] == b->loop[i] && a->stride[i] == b->stride[i] &&
               a->modulo[i] == b->modulo[i];
    return same && a->rotation == b->rotation && a->cut == b->cut &&
           a->run == b->run;
}

int64_t address_modulo(const MemoryPlan *m, const Address *at, int i, int stage)
{
    return at->rotation && at->loop[i]->staged
               ? m->rotation[at->rotation - 1].buffers[stage]
               : at->modulo[i];
}

bool place_is_operands(const MemoryPlan *m, const Op *op, int i)
{
    bool gather = op->kind == OP_all_gather;
    if (!gather && op->kind != OP_copy && op->kind != OP_embedding_add)
        return false;
    const Address *to = op->out[i]->address, *from = op->arg[i]->address;
    if (!to || !from || to->block < 0)
        return false;
    return gather ? to->block == from->block && m->block[to->block].shared
                  : address_equal(to, from);
}

bool value_in_place(const Value *v)
{
    return v->address && v->address->in_place;
}

bool gather_in_place(const Op *op)
{
    if (op->kind != OP_all_gather)
        return false;
    for (int i = 0; i < op->nouts; i++)
        if (!value_in_place(op->out[i]))
            return false;
    return true;
}
