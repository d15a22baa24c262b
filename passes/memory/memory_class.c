/* memory_class.c: decides as which memory class (parameters, gradients, …) the
 * plan counts the bytes of a value. */
#include "ir/analysis/alias.h"
#include "ir/units.h"
#include "passes/memory/memory.h"


typedef struct Classes {
    const Program *p;
    bool *is_grad; /* by value id */
    const Op **store; /* by value id: the store that reads it on its way to a
                         parameter; NULL: none */
} Classes;

MemoryClass memory_class_of_param(const Param *pm)
{
    return pm->state_of >= 0 && pm->init.kind != INIT_COPY ? MEM_OPTIMIZER
                                                           : MEM_PARAMS;
}

/* ---- which values are gradients of parameters ---------------------------- */

static void mark_grad(Classes *m, Value *v)
{
    v = value_root(v);
    if (m->is_grad[v->id])
        return;
    m->is_grad[v->id] = true;
    const Op *def = v->def;
    if (!def)
        return;
    if (def->kind == OP_loop) {
        mark_grad(m, def->body->yield[v->index]);
        if (v->index < def->ncarry) /* a sum over microbatches */
            mark_grad(m, def->arg[v->index]);
    } else if (op_is_collective(def->kind) || def->kind == OP_local_slice) {
        mark_grad(m, def->arg[v->index]);
    }
}

/* Marks the gradients: an update's operands other than the parameter, its
 * states and scalars. */
static void mark_grads(Classes *m)
{
    const Mesh *mesh = &m->p->mesh;
    for (Op *op = m->p->step->first; op; op = op->next) {
        if (op->kind != OP_assign)
            continue;
        const Op *update = value_root(op->arg[0])->def;
        if (update && update->kind == OP_store)
            update = value_root(update->arg[0])->def;
        int64_t size = type_local_elements(&op->arg[0]->type, mesh);
        for (int i = 0; update && i < update->nargs; i++) {
            Value *root = value_root(update->arg[i]);
            if (root->def && root->def->kind != OP_param &&
                root->def->kind != OP_fetch &&
                root->def->kind != OP_scalar &&
                type_local_elements(&root->type, mesh) == size)
                mark_grad(m, root);
        }
    }
}

/* ---- values -------------------------------------------------------------- */

static MemoryClass class_of(const Classes *m, const Value *v)
{
    const Op *def = v->def;
    if (m->is_grad[v->id])
        return MEM_GRADS;
    if (!def)
        return MEM_ACTIVATIONS;
    if (op_gathers_unit(def))
        return MEM_GATHERED;
    /* a stack of values of a loop's layers */
    if (def->kind == OP_loop && v->index >= def->ncarry)
        return class_of(m, value_root(def->body->yield[v->index]));
    if (def->kind == OP_copy)
        return class_of(m, value_root(def->arg[0]));
    const Op *move = def->kind == OP_fetch || def->kind == OP_store
                         ? def
                         : m->store[v->id];
    const Param *pm = move ? transfer_param(m->p, move) : NULL;
    return pm ? memory_class_of_param(pm) : MEM_ACTIVATIONS;
}

static void set_classes(const Classes *m, const Region *r, MemoryClass *of)
{
    for (int i = 0; i < r->nargs; i++)
        of[r->arg[i]->id] = class_of(m, r->arg[i]);
    for (const Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nouts; i++)
            of[op->out[i]->id] = class_of(m, op->out[i]);
        if (op->kind == OP_loop)
            set_classes(m, op->body, of);
    }
}

const MemoryClass *memory_classes(const Program *p)
{
    Classes m = {.p = p, .is_grad = NEW_ARRAY(p->arena, bool, p->nvalues),
                 .store = NEW_ARRAY(p->arena, const Op *, p->nvalues)};
    for_ops(op, p->step) {
        const Value *root =
            op->kind == OP_store ? value_root(op->arg[0]) : NULL;
        if (root && !m.store[root->id] && root->region == op->region)
            m.store[root->id] = op;
    }
    MemoryClass *of = NEW_ARRAY(p->arena, MemoryClass, p->nvalues);
    mark_grads(&m);
    set_classes(&m, p->step, of);
    return of;
}
