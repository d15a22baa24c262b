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

/* random(x): uniform numbers in [0, 1) in the shape of x, in f32. */
Datum builtin_random(const BuiltinCall *c)
{
    Lower *l = c->l;
    Value *x;
    if (!builtin_tensor(c, 0, &x))
        return datum_poison();
    Attr attr[MAX_ATTRS] = {{.i = l->sites++}, {.l = {.n = x->type.ndim}}};
    for (int d = 0; d < x->type.ndim; d++)
        attr[1].l.v[d] = x->type.dim[d];
    attr[2] = attr[1];
    Datum key = lower_key(l);
    return lower_op(l, c->call->loc, "draw", OP_random, 1, &key, attr);
}
