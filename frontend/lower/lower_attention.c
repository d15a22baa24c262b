/* lower_attention.c: lowers attention. */
#include <math.h>

#include "frontend/lower/lower.h"

static bool attention_fits(const Type *q, const Type *k, const Type *v)
{
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
        return false;
    return q->dim[0] == k->dim[0] && k->dim[0] == v->dim[0] &&
           k->dim[1] == v->dim[1] && k->dim[2] == v->dim[2] &&
           q->dim[3] == k->dim[3] && q->dim[2] % k->dim[2] == 0;
}

/* Reads the argument window: 0 for none, or if it excludes no key. */
static bool read_window(const BuiltinCall *c, const Type *q, const Type *k, int64_t *window)
{
    enum { WINDOW = 6 };
    Datum d = c->arg[WINDOW];
    *window = 0;
    if (d.kind == DATUM_NONE || d.kind == DATUM_POISON)
        return d.kind == DATUM_NONE;
    if (d.kind != DATUM_INT || d.integer < 1)
        return lower_error(c->l, builtin_loc(c, WINDOW), NULL, "the window must be an integer "
                           "of at least 1, not %s", datum_text(c->l->arena, d));
    if (q->dim[1] != k->dim[1])
        return lower_error(c->l, builtin_loc(c, WINDOW), NULL, "a window needs as many queries "
                           "as keys, not %lld and %lld", (long long)q->dim[1],
                           (long long)k->dim[1]);
    *window = d.integer < k->dim[1] ? d.integer : 0;
    return true;
}

Datum builtin_attention(const BuiltinCall *c)
{
    Value *q, *k, *v;
    bool causal;
    int64_t window;
    double scale, rate, softcap;
    if (!builtin_tensor(c, 0, &q) || !builtin_tensor(c, 1, &k) ||
        !builtin_tensor(c, 2, &v) || !builtin_flag(c, 3, false, &causal) ||
        !builtin_number(c, 4, 0, &scale) || !builtin_number(c, 5, 0, &rate) ||
        !builtin_number(c, 7, 0, &softcap))
        return datum_poison();
    if (rate < 0 || rate >= 1)
        return lower_poison(c->l, builtin_loc(c, 5), NULL, "the probability of "
                            "dropout must be at least 0 and below 1");
    if (c->arg[7].kind != DATUM_NONE && softcap <= 0)
        return lower_poison(c->l, builtin_loc(c, 7), NULL, "the softcap must be above 0, "
                            "not %g", softcap);
    if (!attention_fits(&q->type, &k->type, &v->type))
        return lower_poison(c->l, c->call->loc, "q is [b, s, heads, d], k and "
                            "v are [b, t, kv_heads, d]; kv_heads divides heads",
                            "cannot attend from %s to %s and %s",
                            builtin_shape(c, q), builtin_shape(c, k),
                            builtin_shape(c, v));
    if (!read_window(c, &q->type, &k->type, &window))
        return datum_poison();
    if (c->arg[4].kind == DATUM_NONE)
        scale = 1 / sqrt((double)q->type.dim[3]);
    Attr attr[MAX_ATTRS] = {{.i = causal}, {.f = scale}, {.f = rate}};
    if (rate <= 0 || c->l->p->purpose != FOR_TRAINING) {
        attr[2].i = window;
        attr[3].f = softcap;
        return lower_op(c->l, c->call->loc, "attend from", OP_attention, 3,
                        c->arg, attr);
    }
    attr[5].i = window;
    attr[6].f = softcap;
    attr[3].i = c->l->sites++;
    attr[4].l = (AttrList){3, {q->type.dim[0], k->type.dim[2],
                               q->type.dim[2] / k->type.dim[2]}};
    Datum args[] = {c->arg[0], c->arg[1], c->arg[2], lower_key(c->l)};
    return lower_op(c->l, c->call->loc, "attend from", OP_attention_dropout, 4,
                    args, attr);
}
