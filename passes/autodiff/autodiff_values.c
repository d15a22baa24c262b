/* autodiff_values.c: holds the gradient terms of values, and brings forward values
 * into the backward region.
 *
 *   autodiff_give(f, %w, %d1); autodiff_give(f, %w, %d2)
 *   autodiff_collect(f, %w)      %dw = add %d1, %d2
 */
#include <string.h>

#include "base/bug.h"
#include "ir/analysis/producer.h"
#include "passes/autodiff/autodiff.h"

/* ---- forward values in the backward body ---- */

static Value *save(Frame *f, Value *v)
{
    Program *p = f->a->p;
    Value *stacked = ir_loop_add_yield(p, f->forward, v);
    Value *outside = autodiff_use(f->outer, stacked);
    return ir_loop_add_stack(p, f->backward, outside);
}

static Value *use_argument(Frame *f, Value *v)
{
    Program *p = f->a->p;
    const Op *loop = f->forward;

    if (v->index < loop->ncarry)
        return save(f, v);
    Value *outside = autodiff_use(f->outer, loop->arg[v->index]);
    if (v->index < loop->ncarry + loop->nstack)
        return ir_loop_add_stack(p, f->backward, outside);
    return ir_loop_add_free(p, f->backward, outside);
}

/* Whether v is a parameter, or one layer of a stacked parameter. */
static bool is_param(const Value *v)
{
    v = value_outside(v);
    return v != NULL && v->def->kind == OP_param;
}

/* Whether the backward body recomputes an op instead of saving its result:
 * constants, random numbers and low-precision copies of parameters. */
static bool is_repeated(const Op *op)
{
    if (op->kind == OP_random)
        return true;
    if (op->phase == PH_INIT || op->nargs == 0)
        return op->body == NULL;
    return op->kind == OP_cast && is_param(op->arg[0]);
}

static Value *repeat(Frame *f, Value *v)
{
    const Op *op = v->def;
    Value **args = NEW_ARRAY(f->a->p->arena, Value *, op->nargs + 1);

    for (int i = 0; i < op->nargs; i++)
        args[i] = autodiff_use(f, op->arg[i]);
    Build b = f->b;
    b.loc = op->loc;
    b.path = op->path;
    Op *copy = ir_op(&b, op->kind, op->nargs, args, op->attr, v->name);
    return copy->out[v->index];
}

Value *autodiff_use(Frame *f, Value *v)
{
    if (f->outer == NULL)
        return v;
    Value *seen = value_map_get(&f->seen, v);
    if (seen != NULL)
        return seen;
    if (v->def == NULL)
        seen = use_argument(f, v);
    else if (is_repeated(v->def))
        seen = repeat(f, v);
    else
        seen = save(f, v);
    value_map_set(f->a->p, &f->seen, v, seen);
    return seen;
}

/* ---- gradient terms ---- */

/* Casting a gradient to a narrow type and back only loses bits: the sum that
 * follows uses the wide value. */
static Value *cast_back(Build *b, Value *d, DType t)
{
    const Op *def = d->def;
    if (def && def->kind == OP_cast && def->arg[0]->type.dtype == t &&
        dtype_size(t) > dtype_size(d->type.dtype))
        return def->arg[0];
    return ir_cast(b, d, t);
}

/* Sums d over the dims that were broadcast from t's shape to d's, and casts the
 * sum to t's dtype. */
static Value *fit_type(Build *b, Value *d, const Type *t)
{
    AttrList dims = {0};
    int leading = d->type.ndim - t->ndim;

    if (leading < 0)
        bug("a gradient of rank %d for a value of rank %d", d->type.ndim,
            t->ndim);
    for (int i = 0; i < d->type.ndim; i++) {
        /* A leading dim of size 1 needs no sum: the reshape drops it. */
        bool repeated = i < leading ? d->type.dim[i] != 1
                                    : d->type.dim[i] != t->dim[i - leading];
        if (repeated)
            dims.v[dims.n++] = i;
    }
    if (dims.n > 0)
        d = ir_sum(b, d, dims, leading == 0);
    bool same = d->type.ndim == t->ndim;
    for (int i = 0; same && i < t->ndim; i++)
        same = d->type.dim[i] == t->dim[i];
    if (!same)
        d = ir_reshape(b, d, t->ndim, t->dim);
    return cast_back(b, d, t->dtype);
}

Value *gradient_zero(Build *b, const Type *t, DType dtype)
{
    if (t->nstack == 0)
        return ir_full(b, 0.0, dtype, t->ndim, t->dim);

    Attr attr[MAX_ATTRS] = {{.i = t->stack[0]}, {.i = 0}};
    Op *loop = ir_open(b, OP_loop, 0, NULL, 0, 0, attr);
    Build inner = *b;
    inner.region = loop->body;
    inner.before = NULL;
    Type layer = *t;
    type_pop_stack(&layer);
    Value *zero = gradient_zero(&inner, &layer, dtype);
    ir_yield(b->p, loop->body, 1, &zero);
    ir_close(b->p, loop);
    return loop->out[0];
}

void autodiff_name(Frame *f, Value *d, const Value *of)
{
    Program *p = f->a->p;

    if (d->id < f->a->nvalues || d->def == NULL || d->def->body != NULL)
        return;
    const char *plain = op_info(d->def->kind)->name;
    if (strncmp(d->name, plain, strlen(plain)) == 0)
        d->name = ir_unique_name(p, arena_printf(p->arena, "d_%s", of->name));
}

/* Whether v is a parameter cast to the compute type. */
static bool is_param_copy(const Value *v)
{
    return v->def != NULL && v->def->kind == OP_cast &&
           is_param(v->def->arg[0]);
}

void autodiff_give(Frame *f, Value *v, Value *d)
{
    Autodiff *a = f->a;

    if (!a->flows[v->id])
        return;
    /* A low-precision copy passes its gradient on in f32, so that it is not
     * rounded and widened. */
    if (is_param_copy(v))
        v = v->def->arg[0];
    if (!type_same_shape(&d->type, &v->type) || d->type.dtype != v->type.dtype)
        d = fit_type(&f->b, d, &v->type);
    autodiff_name(f, d, v);
    vec_push(a->p->arena, &a->terms[v->id], d);
}

Value *autodiff_collect(Frame *f, Value *v)
{
    if (v->id >= f->a->nvalues) /* a saved value: no gradient */
        return NULL;
    Terms *t = &f->a->terms[v->id];
    if (t->n == 0)
        return NULL;
    Value *sum = t->at[0];
    for (int i = 1; i < t->n; i++)
        sum = ir_binary(&f->b, OP_add, sum, t->at[i]);
    if (t->n > 1)
        autodiff_name(f, sum, v);
    t->at[0] = sum;
    t->n = 1;
    return sum;
}

bool gradient_wanted(const Gradient *g, int i)
{
    return g->frame->a->flows[g->op->arg[i]->id];
}

DType gradient_dtype(const Gradient *g, int i)
{
    const Value *v = g->op->arg[i];
    return is_param_copy(v) ? v->def->arg[0]->type.dtype : v->type.dtype;
}

void gradient_give(Gradient *g, int i, Value *d)
{
    autodiff_give(g->frame, g->op->arg[i], d);
}

Value *gradient_use(Gradient *g, Value *forward)
{
    return autodiff_use(g->frame, forward);
}
