/* dim_classes.c: a union-find structure over the dims of a program; see dim_classes.h. */
#include "ir/rules/dim_classes.h"

void dim_classes_begin(DimClasses *c, Arena *a, const Program *p)
{
    *c = (DimClasses){.p = p, .nvalues = p->nvalues,
                      .n = ((int)p->nvalues + p->param.n) * MAX_DIMS};
    c->parent = NEW_ARRAY(a, int, c->n + 1);
    for (int i = 0; i < c->n; i++)
        c->parent[i] = i;
}

int dim_of_value(const Value *v, int d)
{
    return (int)v->id * MAX_DIMS + d;
}

int dim_of_param(const DimClasses *c, int param, int d)
{
    const Value *v = c->p->param.at[param].value;
    return v ? dim_of_value(v, d) : ((int)c->nvalues + param) * MAX_DIMS + d;
}

int dim_class(const DimClasses *c, int dim)
{
    while (c->parent[dim] != dim) {
        c->parent[dim] = c->parent[c->parent[dim]];
        dim = c->parent[dim];
    }
    return dim;
}

int dim_classes_join(DimClasses *c, int a, int b)
{
    a = dim_class(c, a);
    b = dim_class(c, b);
    int stays = a < b ? a : b;
    c->parent[a] = c->parent[b] = stays;
    return stays;
}

/* The states of an update may have one element for all of a dim. */
static void join_values(DimClasses *c, const Value *a, const Value *b)
{
    for (int d = 0; d < a->type.ndim && d < b->type.ndim; d++)
        if (a->type.dim[d] == b->type.dim[d])
            dim_classes_join(c, dim_of_value(a, d), dim_of_value(b, d));
}

static void join_loop(DimClasses *c, const Op *op)
{
    const Region *body = op->body;
    for (int i = 0; i < op->nargs; i++)
        join_values(c, op->arg[i], body->arg[i]);
    for (int i = 0; i < op->ncarry; i++)
        join_values(c, body->arg[i], body->yield[i]);
    for (int i = 0; i < op->nouts; i++)
        join_values(c, body->yield[i], op->out[i]);
}

bool dim_classes_join_structure(DimClasses *c, const Op *op)
{
    if (op->kind == OP_loop) {
        join_loop(c, op);
    } else if (op->kind == OP_finish_grad) {
        join_values(c, op->arg[0], op->out[0]);
    } else if (op->kind == OP_assign) {
        join_values(c, c->p->param.at[attr_param(op)].value, op->arg[0]);
    } else if (op->kind == OP_update) {
        for (int i = 1; i < op->nargs; i++)
            join_values(c, op->arg[0], op->arg[i]);
        for (int i = 0; i < op->nouts; i++)
            join_values(c, op->arg[0], op->out[i]);
    } else {
        return false;
    }
    return true;
}
