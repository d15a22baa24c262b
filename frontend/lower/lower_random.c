/* lower_random.c: lowers random numbers and their keys.
 *
 * Each use in the model is a site with a unique number. Its numbers depend on
 * the step's key, which a loop splits into one key for each layer:
 *
 *   %key = scalar{name="random"} : i64[]
 *   %keys = split_key{n=4, first=0, step=1} %key : i64[4 x]
 *   … loop … stack(%key.2 = %keys) {
 *     %u = random{site=0, dims=[8, 16, 64]} %key.2 : f32[8, 16, 64]
 */
#include "frontend/lower/lower.h"

/* Sets the insertion point to a level, before its open loop if it has one. */
static Build enter_level(Lower *l, const Level *level, Op *loop)
{
    Build saved = l->b;
    l->b.region = level->region;
    l->b.before = loop;
    l->b.phase = PH_FORWARD;
    l->b.path = "";
    return saved;
}

/* The key at a level; `inner` is the open loop of that level, or NULL. */
static Value *key_at(Lower *l, Level *at, Op *inner)
{
    if (at->key)
        return at->key;
    if (!at->outer) {
        Build saved = enter_level(l, at, inner);
        Attr attr[MAX_ATTRS] = {{.s = "random"}};
        at->key = ir_value(&l->b, OP_scalar, 0, NULL, attr, "key");
        l->b = saved;
        return at->key;
    }
    Value *key = key_at(l, at->outer, at->loop);
    Build saved = enter_level(l, at->outer, at->loop);
    Attr attr[MAX_ATTRS] = {{.i = loop_trips(at->loop)},
                            {.i = at->array->range.first},
                            {.i = at->array->range.step}};
    Value *keys = ir_value(&l->b, OP_split_key, 1, &key, attr, "keys");
    l->b = saved;
    return at->key = ir_loop_add_stack(l->p, at->loop, keys);
}

Datum lower_key(Lower *l)
{
    return datum_tensor(key_at(l, l->level, NULL));
}

/* The shape of random(x), in which dims that `dim` does not list have size 1, or of
 * random(n, m, …). */
static bool random_shape(const BuiltinCall *c, AttrList *shape)
{
    if (c->arg[0].kind != DATUM_TENSOR)
        return c->arg[1].kind == DATUM_NONE
                   ? builtin_sizes(c, 0, false, shape)
                   : builtin_wrong(c, 0, "a tensor with 'dim='");
    if (c->bound.nextra)
        return lower_error(c->l, c->bound.extra[0]->range, "write random(x), or the sizes "
                           "of all dims", "'random' takes one tensor");
    const Type *x = &c->arg[0].tensor->type;
    AttrList dims;
    if (!builtin_dims(c, 1, x->ndim, &dims))
        return false;
    shape->n = x->ndim;
    for (int d = 0; d < x->ndim; d++)
        shape->v[d] = 1;
    for (int i = 0; i < dims.n; i++)
        shape->v[dims.v[i]] = x->dim[dims.v[i]];
    return true;
}

/* random(x, dim=), random(sizes...): uniform numbers in [0, 1), in f32. */
Datum builtin_random(const BuiltinCall *c)
{
    Lower *l = c->l;
    Attr attr[MAX_ATTRS] = {{.i = l->sites}};
    if (!random_shape(c, &attr[1].l))
        return datum_poison();
    l->sites++;
    attr[2] = attr[1];
    Datum key = lower_key(l);
    return lower_op(l, c->call->loc, "draw", OP_random, 1, &key, attr);
}
