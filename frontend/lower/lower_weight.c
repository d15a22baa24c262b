/* lower_weight.c: records the weight of each module, and its biases, while the
 * module's forward is lowered.
 *
 * Each tensor has a Use that says whether it is the module's first input, a
 * parameter, or the result of the weight:
 *
 *   forward(x: [..., in_features]) {               x: input_of up
 *       y = einsum("...k, fk -> ...f", x, weight)  Weight: dim 1 -> dim 0 of
 *                                                  weight; y: result_of up
 *       y = y + bias                               a bias of that weight
 *
 * ColwiseParallel and RowwiseParallel split the weight. It is found by what the
 * forward does, not by the name of the class.
 */
#include <string.h>

#include "frontend/lower/lower.h"

/* The module whose forward is being lowered. */
static const Instance *current_module(const Lower *l)
{
    const Frame *f = l->frame;
    while (f && !f->instance)
        f = f->outer;
    return f ? f->instance : NULL;
}

static Use add_weight(Lower *l, const Instance *m, Weight weight)
{
    Module *module = &l->p->module.at[m->module];
    int i = 0;
    for (; i < module->weight.n; i++) {
        const Weight *w = &module->weight.at[i];
        if (w->param == weight.param && w->in_dim == weight.in_dim &&
            w->lookup == weight.lookup)
            break;
    }
    if (i == module->weight.n)
        vec_push(l->arena, &module->weight, weight);
    return (Use){.result_of = m, .weight = i};
}

/* The dim of the weight, tensor number i of two, that the einsum contracts with
 * the last dim of the other tensor, if the weight's other dim is the last of the
 * result; -1 if not. */
static int contracted_dim(const char *spec, int i)
{
    int nw, nx, nout;
    const char *w = spec_letters(spec, i, &nw);
    const char *x = spec_letters(spec, 1 - i, &nx);
    const char *out = spec_letters(spec, 2, &nout);
    if (nw != 2 || nx == 0 || nout == 0)
        return -1;
    int in = w[0] == x[nx - 1] ? 0 : 1;
    char summed = w[in], free = w[1 - in];
    bool fits = summed == x[nx - 1] && !memchr(out, summed, (size_t)nout) &&
                !memchr(x, free, (size_t)nx) && out[nout - 1] == free;
    return fits ? in : -1;
}

static Use use_of_einsum(Lower *l, const Instance *m, const Op *op,
                         const Datum *args)
{
    for (int i = 0; i < 2 && op->nargs == 2; i++) {
        const Use *w = &args[i].use, *x = &args[1 - i].use;
        int in = w->declared_by == m && x->input_of == m
                     ? contracted_dim(attr_spec(op), i) : -1;
        if (in >= 0)
            return add_weight(l, m, (Weight){.param = w->param, .in_dim = in,
                                             .out_dim = 1 - in});
    }
    return (Use){0};
}

/* A 1-D parameter of the module that has the result's last dim. One of size 1
 * is broadcast over it. */
static bool is_bias(const Lower *l, const Instance *m, const Op *op,
                    const Use *use)
{
    const Type *out = &op->out[0]->type;
    const Type *t = use->declared_by == m ? &l->p->param.at[use->param].type
                                          : NULL;
    return t && t->ndim == 1 && t->dim[0] > 1 &&
           t->dim[0] == out->dim[out->ndim - 1];
}

static void add_bias(Lower *l, const Op *op, const Use *result,
                     const Datum *args)
{
    const Instance *m = result->result_of;
    Weight *w = &l->p->module.at[m->module].weight.at[result->weight];
    for (int i = 0; i < op->nargs; i++) {
        bool known = w->nbiases == MAX_BIASES ||
                     !is_bias(l, m, op, &args[i].use);
        for (int k = 0; k < w->nbiases; k++)
            known = known || w->bias[k] == args[i].use.param;
        if (!known)
            w->bias[w->nbiases++] = args[i].use.param;
    }
}

/* The result of an elementwise op has the uses of its operands. */
static Use use_of_elementwise(Lower *l, const Instance *m, const Op *op,
                              const Datum *args)
{
    Use to = {0};
    if (op->kind == OP_cast) {
        to.declared_by = args[0].use.declared_by;
        to.param = args[0].use.param;
    }
    for (int i = 0; i < op->nargs; i++) {
        const Use *from = &args[i].use;
        if (from->input_of == m)
            to.input_of = m;
        if (from->result_of == m && !to.result_of) {
            to.result_of = m;
            to.weight = from->weight;
        }
    }
    if (to.result_of)
        add_bias(l, op, &to, args);
    return to;
}

/* Whether the op keeps the features, the last dim, of its operand: a sum over
 * other dims, or a reshape of them. */
static bool keeps_features(const Op *op)
{
    const Type *x = &op->arg[0]->type, *y = &op->out[0]->type;
    const AttrList *sum = op->kind == OP_sum ? attr_dims(op) : NULL;
    if (x->ndim == 0 || y->ndim == 0 || (!sum && op->kind != OP_reshape))
        return false;
    for (int i = 0; sum && i < sum->n; i++)
        if (sum->v[i] == x->ndim - 1)
            return false;
    return x->dim[x->ndim - 1] == y->dim[y->ndim - 1];
}

Use lower_use(Lower *l, const Op *op, const Datum *args)
{
    const Instance *m = current_module(l);
    if (!m || op->phase != PH_FORWARD || op->nouts != 1)
        return (Use){0};
    if (op->kind == OP_einsum)
        return use_of_einsum(l, m, op, args);
    const Use *first = &args[0].use;
    if (op->kind == OP_embedding && first->declared_by == m &&
        args[1].use.input_of == m)
        return add_weight(l, m, (Weight){.param = first->param, .lookup = true,
                                         .in_dim = 0, .out_dim = 1});
    if (op_is_elementwise(op->kind))
        return use_of_elementwise(l, m, op, args);
    return (Use){.input_of = op->nargs == 1 && keeps_features(op)
                                 ? first->input_of : NULL};
}
