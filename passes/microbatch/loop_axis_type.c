/* loop_axis_type.c: computes types without the loop axis (loop_axis.h): those
 * of one iteration's part, and of a stack of the parts of all iterations. */
#include <string.h>

#include "passes/microbatch/loop_axis.h"

Type loop_axis_part(const LoopAxis *t, Type whole)
{
    AxisPlace *at = &whole.place.ax[t->axis];
    if (at->kind == AX_S)
        whole.dim[at->dim] /= t->n;
    *at = (AxisPlace){0};
    type_normalize(&whole, &t->p->mesh);
    return whole;
}

Type loop_axis_stack(const LoopAxis *t, Type whole)
{
    Type part = loop_axis_part(t, whole);
    if (!type_push_stack(&part, t->n))
        ir_too_deep(t->p, t->p->train.loc);
    return part;
}

/* Updates attributes that repeat the size of the result. */
static void fit_attributes(Op *op)
{
    const Type *out = op->nouts ? &op->out[0]->type : NULL;
    if (op->kind == OP_full || op->kind == OP_zeros ||
        op->kind == OP_reshape || op->kind == OP_broadcast || op->kind == OP_random) {
        AttrList dims = *attr_dims(op);
        for (int d = 0; d < dims.n; d++)
            dims.v[d] = out->dim[d];
        set_attr_dims(op, dims);
    }
    if (op->kind == OP_iota)
        set_attr_n(op, out->dim[0]);
}

static void strip_value(const LoopAxis *t, Value *v)
{
    v->type = loop_axis_part(t, v->type);
    v->why[t->axis] = (Why){0};
}

void loop_axis_strip(const LoopAxis *t, Op *op)
{
    for (int i = 0; i < op->nouts; i++)
        strip_value(t, op->out[i]);
    fit_attributes(op);
    for (int i = 0; op->body && i < op->body->nargs; i++)
        strip_value(t, op->body->arg[i]);
    for (Op *o = op->body ? op->body->first : NULL; o; o = o->next)
        loop_axis_strip(t, o);
}
