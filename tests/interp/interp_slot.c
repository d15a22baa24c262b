/* interp_slot.c: the storage of values, and iteration over their elements.
 *
 * A value has one Slot for the parts of all ranks; a value in a loop's body is
 * computed into the same slot in every iteration.
 */
#include "tests/interp/interp_impl.h"

#include <stdarg.h>
#include <string.h>

void interp_fail(Interp *in, const Op *op, const char *fmt, ...)
{
    if (in->error)
        return;
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(in->arena, fmt, ap);
    va_end(ap);
    if (op) {
        const char *value = op->nouts > 0 ? op->out[0]->name : "";
        text = arena_printf(in->arena, "%s%s%s: %s", op_info(op->kind)->name,
                            *value ? " %" : "", value, text);
    }
    in->error = text;
}

void interp_shape(const Interp *in, const Type *t, Shape *s)
{
    memset(s, 0, sizeof *s);
    s->nstack = t->nstack;
    s->flat = type_is_flat(t, &in->mesh);
    s->ndim = s->flat ? 1 : t->ndim;
    s->n = 1;
    for (int d = 0; d < s->nstack; d++)
        s->dim[d] = t->stack[d];
    for (int d = 0; d < s->ndim; d++)
        s->dim[s->nstack + d] = s->flat ? type_flat_run(t, &in->mesh)
                                        : type_local_dim(t, &in->mesh, d);
    for (int d = 0; d < s->nstack + s->ndim; d++)
        s->n *= s->dim[d];
}

Slot *interp_make(Interp *in, const Value *v)
{
    Slot *slot = &in->slot[v->id];
    if (!slot->at) {
        interp_shape(in, &v->type, &slot->shape);
        slot->at = NEW_ARRAY(in->arena, double, in->ranks * slot->shape.n + 1);
    } else {
        memset(slot->at, 0,
               sizeof *slot->at * (size_t)(in->ranks * slot->shape.n));
    }
    return slot;
}

Local interp_local(const Interp *in, const Value *v, int64_t rank)
{
    const Slot *slot = &in->slot[v->id];
    return (Local){&slot->shape, slot->at + rank * slot->shape.n};
}

/* ---- iterating over several tensors ------------------------------------- */

void interp_strides(const Shape *s, int64_t stride[MAX_SHAPE])
{
    int64_t step = 1;
    for (int d = s->nstack + s->ndim - 1; d >= 0; d--) {
        stride[d] = step;
        step *= s->dim[d];
    }
}

void interp_walk_start(Walk *w, int ndim, const int64_t *dim, int n)
{
    memset(w, 0, sizeof *w);
    w->ndim = ndim;
    w->n = n;
    w->left = 1;
    for (int d = 0; d < ndim; d++) {
        w->dim[d] = dim[d];
        w->left *= dim[d];
    }
}

void interp_walk_next(Walk *w)
{
    w->left--;
    for (int d = w->ndim - 1; d >= 0; d--) {
        for (int i = 0; i < w->n; i++)
            w->at[i] += w->stride[i][d];
        if (++w->index[d] < w->dim[d])
            return;
        for (int i = 0; i < w->n; i++)
            w->at[i] -= w->stride[i][d] * w->dim[d];
        w->index[d] = 0;
    }
}
