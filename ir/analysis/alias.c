/* alias.c: finds which values use one memory; see alias.h. */
#include "ir/analysis/alias.h"
#include "ir/units.h"

Value *value_root(Value *v)
{
    while (v->def && op_is_view(v->def->kind))
        v = v->def->arg[0];
    return v;
}

const Address *value_address(const Value *v)
{
    static const Address nowhere = {.block = -1};
    const Address *at = value_root((Value *)v)->address;
    return at ? at : &nowhere;
}

/* Whether v is the stored shard of a parameter that stays gathered, or a layer
 * of it. */
static bool stays_gathered(const Program *p, const Value *v)
{
    while (!v->def) {
        const Op *loop = v->region->owner;
        if (!loop || loop->kind != OP_loop || v->index < loop->ncarry)
            return false;
        v = loop->arg[v->index];
    }
    return v->def->kind == OP_param &&
           p->param.at[attr_param(v->def)].gathered &&
           type_is_flat(&v->type, &p->mesh);
}

Value *value_gathered_from(const Program *p, Value *v)
{
    const Op *def = v->def;
    if (!def)
        return NULL;
    if (def->kind == OP_all_gather)
        return stays_gathered(p, def->arg[v->index]) ? def->arg[v->index]
                                                     : NULL;
    if (def->kind != OP_loop || v->index < def->ncarry)
        return NULL;
    const Value *shard =
        value_gathered_from(p, value_root(def->body->yield[v->index]));
    /* Only a layer of this loop: a parameter gathered in every iteration is not
     * a stack. */
    bool slice = shard && !shard->def && shard->index >= def->ncarry &&
                 shard->index < def->ncarry + def->nstack;
    return slice ? def->arg[shard->index] : NULL;
}

Value *value_gathered_shard(const Program *p, Value *v)
{
    v = value_root(v);
    while (!v->def && !stays_gathered(p, v)) {
        const Op *loop = v->region->owner;
        if (!loop || loop->kind != OP_loop || v->index < loop->ncarry)
            return NULL;
        v = value_root(loop->arg[v->index]);
    }
    return stays_gathered(p, v) ? v : value_gathered_from(p, v);
}

/* The parameter that a result of a loop or of the step is assigned to. */
static const Param *assigned(const Program *p, const Value *v)
{
    const Op *loop = v->region->owner;
    for (const Op *op = v->region->first; op; op = op->next)
        if (op->kind == OP_assign && op->arg[0] == v)
            return &p->param.at[attr_param(op)];
    for (int i = loop ? loop->ncarry : 0; loop && i < loop->nouts; i++)
        if (loop->body->yield[i] == v)
            return assigned(p, loop->out[i]);
    return NULL;
}

const Param *transfer_param(const Program *p, const Op *transfer)
{
    if (transfer->kind == OP_store)
        return assigned(p, transfer->out[0]);
    const Value *v = transfer->arg[0];
    while (!v->def)
        v = v->region->owner->arg[v->index];
    return &p->param.at[attr_param(v->def)];
}

/* Whether op reads v, directly or through other ops of the region. */
static bool feeds(const Value *v, const Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        const Value *root = value_root(op->arg[i]);
        const Op *def = root->def;
        if (root == v || (def && def->region == op->region &&
                          def->kind != OP_loop &&
                          (!op_is_collective(def->kind) ||
                           op_is_part_gather(def)) && feeds(v, def)))
            return true;
    }
    return false;
}

const Op *fetch_gather(const Op *fetch)
{
    for (const Op *op = fetch->next; op; op = op->next)
        if (op_is_unit_gather(op) && feeds(fetch->out[0], op))
            return op;
    return NULL;
}
