/* gradients_contract.c: holds the gradient rules (gradients.h) of einsum,
 * embedding, rotary and attention. */
#include <string.h>

#include "base/bug.h"
#include "passes/autodiff/gradients.h"

/* ---- einsum ---- */

/* For xs,ys->zs the gradient of xs is zs,ys->xs. A letter that only xs has was
 * summed alone: the einsum omits it and a broadcast restores it. */
static Value *einsum_gradient(Gradient *g, const char *result, const char *own,
                              const char *other, int i)
{
    Arena *a = g->b->p->arena;
    const Type *x = &g->op->arg[i]->type;
    char kept[MAX_DIMS + 1] = "";
    Type narrow = *x;
    int n = 0;

    for (int k = 0; own[k] != '\0'; k++)
        if (strchr(result, own[k]) || strchr(other, own[k]))
            kept[n++] = own[k];
        else
            narrow.dim[k] = 1;
    kept[n] = '\0';
    const char *spec = arena_printf(a, "%s,%s->%s", result, other, kept);
    Value *d = einsum_build(g->b, spec, gradient_dtype(g, i), g->d,
                            gradient_use(g, g->op->arg[1 - i]));
    if (n < x->ndim) {
        d = ir_reshape(g->b, d, narrow.ndim, narrow.dim);
        d = ir_broadcast(g->b, d, x->ndim, x->dim);
    }
    return d;
}

void gradient_einsum(Gradient *g)
{
    EinsumLetters s;

    einsum_letters(attr_spec(g->op), s);
    for (int i = 0; i < 2; i++)
        if (gradient_wanted(g, i))
            gradient_give(g, i, einsum_gradient(g, s[2], s[i], s[1 - i], i));
}

/* ---- indexing ---- */

void gradient_embedding(Gradient *g)
{
    if (!gradient_wanted(g, 0))
        return;
    const Type *table = &g->op->arg[0]->type;
    Attr attr[MAX_ATTRS] = {{.i = table->dim[0]}};
    Value *args[] = {g->d, gradient_use(g, g->op->arg[1])};
    gradient_give(g, 0, ir_value(g->b, OP_embedding_grad, 2, args, attr, NULL));
}

/* The inverse of a rotation is its transpose. */
void gradient_rotary(Gradient *g)
{
    if (gradient_wanted(g, 1) || gradient_wanted(g, 2)) {
        diag_error(g->b->p->diag, g->op->loc,
                   "a rotary embedding's angles cannot be trained");
        return;
    }
    Attr attr[MAX_ATTRS] = {{.i = attr_half(g->op)},
                            {.i = !attr_inverse(g->op)}};
    Value *args[] = {g->d, gradient_use(g, g->op->arg[1]),
                     gradient_use(g, g->op->arg[2])};
    gradient_give(g, 0, ir_value(g->b, OP_rotary, 3, args, attr, NULL));
}

/* ---- attention ---- */

void gradient_attention(Gradient *g)
{
    const Op *op = g->op;
    if (g->d1 != NULL || g->d == NULL) {
        diag_error(g->b->p->diag, op->loc,
                   "the loss depends on the second result of '%s', its row "
                   "sums, which have no gradient", op_info(op->kind)->name);
        return;
    }
    bool drops = op->kind == OP_attention_dropout;
    Value *args[] = {g->d,
                     gradient_use(g, op->arg[0]),
                     gradient_use(g, op->arg[1]),
                     gradient_use(g, op->arg[2]),
                     gradient_use(g, op->out[0]),
                     gradient_use(g, op->out[1]),
                     drops ? gradient_use(g, op->arg[3]) : NULL};
    /* The gradient op has the same attributes as the forward op. */
    Op *back = ir_op(g->b, drops ? OP_attention_dropout_grad
                                 : OP_attention_grad,
                     drops ? 7 : 6, args, op->attr, NULL);
    for (int i = 0; i < 3; i++)
        if (gradient_wanted(g, i))
            gradient_give(g, i, back->out[i]);
}
