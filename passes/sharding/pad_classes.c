/* pad_classes.c: finds which dims of the program must have the same size.
 *
 * Two dims are in one class if an op's sharding rule has the same factor for
 * both, or if the structure connects them (a loop's carry and its yield, a
 * parameter and its optimizer states). A class keeps its size if one of its
 * dims is part of a product of factors, if an op needs the unsplit dim, or if
 * the size is 1 or that of an input.
 */
#include "base/bug.h"
#include "ir/rules/rules.h"
#include "passes/sharding/pad.h"

static int find(const PadClasses *c, int i)
{
    while (c->parent[i] != i) {
        c->parent[i] = c->parent[c->parent[i]];
        i = c->parent[i];
    }
    return i;
}

static int node_of(const Value *v, int d)
{
    return (int)v->id * MAX_DIMS + d;
}

static int param_node(const PadClasses *c, int param, int d)
{
    const Value *v = c->p->param.at[param].value;
    return v ? node_of(v, d)
             : ((int)c->nvalues + param) * MAX_DIMS + d;
}

PadClass *pad_class(const PadClasses *c, const Value *v, int d)
{
    while (v && v->id >= c->nvalues)
        v = value_map_get(&c->like, v);
    return v ? &c->of[find(c, node_of(v, d))] : NULL;
}

PadClass *pad_param_class(const PadClasses *c, int param, int d)
{
    return &c->of[find(c, param_node(c, param, d))];
}

int64_t pad_valid(const PadClasses *c, const Value *v, int d)
{
    const PadClass *k = pad_class(c, v, d);
    return k && k->padded > k->size ? k->size : 0;
}

static void set_block(PadClasses *c, int node, const char *why, Loc loc)
{
    PadClass *k = &c->of[find(c, node)];
    if (!k->block.why)
        k->block = (PadBlock){why, loc};
}

static void join_classes(PadClasses *c, int a, int b)
{
    a = find(c, a);
    b = find(c, b);
    if (a == b)
        return;
    /* The lower node is the representative, so that the result does not depend
     * on the order; it belongs to the first value. */
    int stays = a < b ? a : b, goes = a < b ? b : a;
    if (!c->of[stays].block.why)
        c->of[stays].block = c->of[goes].block;
    c->parent[goes] = stays;
}

static void join_values(PadClasses *c, const Value *a, const Value *b)
{
    for (int d = 0; d < a->type.ndim && d < b->type.ndim; d++)
        join_classes(c, node_of(a, d), node_of(b, d));
}

/* ---- ops ----------------------------------------------------------------- */

static const Value *tensor(const Op *op, const Rule *r, int i)
{
    return i < r->nargs ? op->arg[i] : op->out[i - r->nargs];
}

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
        const Value *v = tensor(op, &r, i);
        for (int d = 0; d < v->type.ndim; d++) {
            const DimFactors *df = &r.dim[i][d];
            int node = node_of(v, d);
            if (df->n != 1) {
                if (df->n > 1)
                    set_block(c, node, conversion_text(c, op), op->loc);
                continue;
            }
            int f = df->f[0];
            if (r.factor[f].whole) { /* it may have several sizes */
                set_block(c, node, arena_printf(c->p->arena,
                          "%s cannot work on a part of it",
                          op_info(op->kind)->name), op->loc);
                continue;
            }
            if (first[f] < 0)
                first[f] = node;
            else
                join_classes(c, first[f], node);
        }
    }
    /* Block a factor that is alone in one dim and part of a product in
     * another. */
    for (int i = 0; i < r.nargs + r.nouts; i++) {
        const Value *v = tensor(op, &r, i);
        for (int d = 0; d < v->type.ndim; d++)
            for (int k = 0; r.dim[i][d].n > 1 && k < r.dim[i][d].n; k++)
                if (first[r.dim[i][d].f[k]] >= 0)
                    set_block(c, first[r.dim[i][d].f[k]],
                              conversion_text(c, op), op->loc);
    }
}

static void join_loop(PadClasses *c, const Op *op)
{
    const Region *body = op->body;
    for (int i = 0; i < op->nargs; i++)
        join_values(c, op->arg[i], body->arg[i]);
    for (int i = 0; i < op->ncarry; i++)
        join_values(c, body->arg[i], body->yield[i]);
    for (int i = 0; i < op->nouts; i++)
        join_values(c, body->yield[i], op->out[i]);
}

static void join_op(PadClasses *c, Op *op)
{
    if (op->kind == OP_loop) {
        join_loop(c, op);
    } else if (op_info(op->kind)->rule) {
        join_by_rule(c, op);
    } else if (op->kind == OP_finish_grad) {
        join_values(c, op->arg[0], op->out[0]);
    } else if (op->kind == OP_assign) {
        const Value *v = c->p->param.at[attr_param(op)].value;
        join_values(c, v, op->arg[0]);
    } else if (op->kind == OP_update) {
        for (int i = 1; i < op->nargs; i++)
            join_values(c, op->arg[0], op->arg[i]);
        for (int i = 0; i < op->nouts; i++)
            join_values(c, op->arg[0], op->out[i]);
    } else if (op->kind == OP_input) {
        const Input *in = &c->p->input.at[attr_input(op)];
        for (int d = 0; d < in->type.ndim; d++)
            set_block(c, node_of(op->out[0], d), arena_printf(c->p->arena,
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
    int n = ((int)p->nvalues + p->param.n) * MAX_DIMS;
    *c = (PadClasses){.p = p, .nvalues = p->nvalues};
    c->parent = NEW_ARRAY(p->arena, int, n + 1);
    c->of = NEW_ARRAY(p->arena, PadClass, n + 1);
    for (int i = 0; i < n; i++)
        c->parent[i] = i;
    for_ops(op, p->step)
        join_op(c, op);
    for_ops(op, p->step)
        see_op(c, op);
    for (int i = 0; i < p->param.n; i++) {
        const Type *t = &p->param.at[i].type;
        for (int d = 0; d < t->ndim; d++)
            pad_param_class(c, i, d)->size = t->dim[d];
    }
    for (int i = 0; i < n; i++) {
        PadClass *k = &c->of[i];
        k->parts = k->align = 1;
        k->padded = k->size;
    }
    return c;
}
