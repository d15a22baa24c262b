/* gradients_shape.c: holds the gradient rules (gradients.h) of reductions and
 * of ops that move elements. */
#include "passes/autodiff/gradients.h"

/* ---- reductions ---- */

/* Every summed element gets the gradient of the sum: the dropped dims are
 * restored with size 1, then broadcast. */
void gradient_sum(Gradient *g)
{
    const Type *x = &g->op->arg[0]->type;
    AttrList dims = *attr_dims(g->op);
    Type kept = *x;

    if (!gradient_wanted(g, 0))
        return;
    for (int i = 0; i < dims.n; i++)
        kept.dim[dims.v[i]] = 1;
    Value *d = ir_cast(g->b, g->d, x->dtype);
    if (d->type.ndim != kept.ndim)
        d = ir_reshape(g->b, d, kept.ndim, kept.dim);
    gradient_give(g, 0, ir_broadcast(g->b, d, x->ndim, x->dim));
}

void gradient_max(Gradient *g)
{
    if (!gradient_wanted(g, 0))
        return;
    Diag *diag = g->b->p->diag;
    diag_error(diag, g->op->loc, "'max' has no gradient");
    diag_help(diag, "write detach(max(…)) where the gradient may be taken as "
                    "zero");
}

void gradient_sumsq(Gradient *g)
{
    Attr two[MAX_ATTRS] = {{.f = 2.0}};
    Value *x = gradient_use(g, g->op->arg[0]);
    Value *product = ir_binary(g->b, OP_mul, x, g->d);
    gradient_give(g, 0, ir_value(g->b, OP_scale, 1, &product, two, NULL));
}

/* ---- shape ---- */

void gradient_reshape(Gradient *g)
{
    const Type *x = &g->op->arg[0]->type;
    gradient_give(g, 0, ir_reshape(g->b, g->d, x->ndim, x->dim));
}

void gradient_transpose(Gradient *g)
{
    AttrList perm = *attr_perm(g->op), inverse = {.n = perm.n};

    for (int i = 0; i < perm.n; i++)
        inverse.v[perm.v[i]] = i;
    gradient_give(g, 0, ir_transpose(g->b, g->d, inverse));
}

static Value *slice(Build *b, Value *x, int64_t dim, int64_t start,
                    int64_t size)
{
    Attr attr[MAX_ATTRS] = {{.i = dim}, {.i = start}, {.i = size}};
    return ir_value(b, OP_slice, 1, &x, attr, NULL);
}

void gradient_slice(Gradient *g)
{
    int64_t dim = attr_dim(g->op);
    int64_t start = attr_start(g->op);
    int64_t size = attr_size(g->op);
    int64_t after = g->op->arg[0]->type.dim[dim] - start - size;
    Attr attr[MAX_ATTRS] = {{.i = dim}, {.i = start}, {.i = after}};

    gradient_give(g, 0, ir_value(g->b, OP_pad, 1, &g->d, attr, NULL));
}

void gradient_pad(Gradient *g)
{
    int64_t dim = attr_dim(g->op);
    int64_t before = attr_before(g->op);
    int64_t size = g->op->arg[0]->type.dim[dim];

    gradient_give(g, 0, slice(g->b, g->d, dim, before, size));
}

void gradient_concat(Gradient *g)
{
    int64_t dim = attr_dim(g->op), start = 0;

    for (int i = 0; i < g->op->nargs; i++) {
        int64_t size = g->op->arg[i]->type.dim[dim];
        if (gradient_wanted(g, i))
            gradient_give(g, i, slice(g->b, g->d, dim, start, size));
        start += size;
    }
}
