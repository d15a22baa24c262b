/* pad_classes.c: finds which dims of the program must have the same size.
 *
 * Two dims are in one class if an op's sharding rule has the same factor for
 * both, or if the structure connects them (a loop's carry and its yield, a
 * parameter and its optimizer states). A class keeps its size if one of its
 * dims is part of a product of factors, if an op needs the unsplit dim, or if
 * the size is 1 or that of an input.
 */
#include "base/bug.h"
#include "passes/pad/pad.h"

PadClass *pad_class(const PadClasses *c, const Value *v, int d)
{
    while (v && v->id >= c->dims.nvalues)
        v = value_map_get(&c->like, v);
    return v ? &c->of[dim_class(&c->dims, dim_of_value(v, d))] : NULL;
}

PadClass *pad_param_class(const PadClasses *c, int param, int d)
{
    return &c->of[dim_class(&c->dims, dim_of_param(&c->dims, param, d))];
}

int64_t pad_valid(const PadClasses *c, const Value *v, int d)
{
    const PadClass *k = pad_class(c, v, d);
    return k && k->padded > k->size ? k->size : 0;
}

static void set_block(PadClasses *c, int dim, const char *why, Loc loc)
{
    PadClass *k = &c->of[dim_class(&c->dims, dim)];
    if (!k->block.why)
        k->block = (PadBlock){why, loc};
}

/* The reason of the class with the lower number is kept. */
static void join_classes(PadClasses *c, int a, int b)
{
    a = dim_class(&c->dims, a);
    b = dim_class(&c->dims, b);
    int stays = dim_classes_join(&c->dims, a, b), goes = stays == a ? b : a;
    if (!c->of[stays].block.why)
        c->of[stays].block = c->of[goes].block;
}

/* ---- ops ----------------------------------------------------------------- */

static const char *conversion_text(const PadClasses *c, const Op *op)
{
    return arena_printf(c->p->arena, "%s turns it into %s here",
                        op_info(op->kind)->name,
                        type_text(c->p->arena, &op->out[0]->type,
                                  &c->p->mesh));
}

static void join_by_rule(PadClasses *c, const Op *op)
{
    Rule r;
    int first[MAX_FACTORS];
    rule_of(c->p, op, &r);
    for (int f = 0; f < r.nfactors; f++)
        first[f] = -1;
    for (int i = 0; i < r.nargs + r.nouts; i++) {
        const Value *v = rule_tensor(op, &r, i);
        for (int d = 0; d < v->type.ndim; d++) {
            const DimFactors *df = &r.dim[i][d];
            int dim = dim_of_value(v, d);
            if (df->n != 1) {
                if (df->n > 1)
                    set_block(c, dim, conversion_text(c, op), op->loc);
                continue;
            }
            int f = df->f[0];
            if (r.factor[f].whole) { /* it may have several sizes */
                set_block(c, dim, arena_printf(c->p->arena,
                          "%s cannot work on a part of it",
                          op_info(op->kind)->name), op->loc);
                continue;
            }
            if (first[f] < 0)
                first[f] = dim;
            else
                join_classes(c, first[f], dim);
        }
    }
    /* Block a factor that is alone in one dim and part of a product in
     * another. */
    for (int i = 0; i < r.nargs + r.nouts; i++) {
        const Value *v = rule_tensor(op, &r, i);
        for (int d = 0; d < v->type.ndim; d++)
            for (int k = 0; r.dim[i][d].n > 1 && k < r.dim[i][d].n; k++)
                if (first[r.dim[i][d].f[k]] >= 0)
                    set_block(c, first[r.dim[i][d].f[k]],
                              conversion_text(c, op), op->loc);
    }
}

static void join_op(PadClasses *c, Op *op)
{
    if (op_info(op->kind)->rule) {
        join_by_rule(c, op);
    } else if (op->kind == OP_input) {
        const Input *in = &c->p->input.at[attr_input(op)];
        for (int d = 0; d < in->type.ndim; d++)
            set_block(c, dim_of_value(op->out[0], d), arena_printf(c->p->arena,
                      "input '%s' has this size", in->name), in->loc);
    }
}

/* ---- all classes --------------------------------------------------------- */

static void see_value(PadClasses *c, const Value *v)
{
    for (int d = 0; d < v->type.ndim; d++) {
        PadClass *k = pad_class(c, v, d);
        if (k->size && k->size != v->type.dim[d])
            bug("dim %d of %%%s has size %lld, others of its class %lld", d,
                v->name, (long long)v->type.dim[d], (long long)k->size);
        k->size = v->type.dim[d];
        if (k->size == 1 && !k->block.why)
            k->block = (PadBlock){"a size of 1 is not split", v->loc};
    }
}

static void see_op(PadClasses *c, Op *op)
{
    for (int i = 0; i < op->nouts; i++)
        see_value(c, op->out[i]);
    for (int i = 0; op->body && i < op->body->nargs; i++)
        see_value(c, op->body->arg[i]);
}

PadClasses *pad_classes(Program *p)
{
    PadClasses *c = NEW(p->arena, PadClasses);
    c->p = p;
    dim_classes_begin(&c->dims, p->arena, p);
    c->of = NEW_ARRAY(p->arena, PadClass, c->dims.n + 1);
    for_ops(op, p->step)
        dim_classes_join_structure(&c->dims, op); /* before a class has a reason */
    for_ops(op, p->step)
        join_op(c, op);
    for_ops(op, p->step)
        see_op(c, op);
    for (int i = 0; i < p->param.n; i++) {
        const Type *t = &p->param.at[i].type;
        for (int d = 0; d < t->ndim; d++)
            pad_param_class(c, i, d)->size = t->dim[d];
    }
    for (int i = 0; i < c->dims.n; i++) {
        PadClass *k = &c->of[i];
        k->parts = k->align = 1;
        k->padded = k->size;
    }
    return c;
}
