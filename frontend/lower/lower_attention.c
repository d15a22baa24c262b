/* lower_attention.c: lowers attention, rotary embedding and constants.
 *
 * The tables of sines and cosines are computed in the INIT phase, before all
 * loops. Uses with the same arguments share them; the body of a loop reads them
 * as free operands.
 */
#include <math.h>
#include <string.h>

#include "frontend/lower/lower.h"

/* ---- constants ----------------------------------------------------------- */

/* INIT ops are inserted at the start of the step. */
static Build enter_init(Lower *l, Level **level)
{
    Build saved = l->b;
    *level = l->level;
    l->level = &l->step;
    l->b.region = l->p->step;
    l->b.before = l->init_end;
    l->b.phase = PH_INIT;
    return saved;
}

static void leave_init(Lower *l, Build saved, Level *level)
{
    l->b = saved;
    l->level = level;
}

/* Among members: an initializer (start, start + 1, …). In a forward or a
 * buffer: the tensor 0, 1, …, n - 1. */
Datum builtin_arange(const BuiltinCall *c)
{
    Lower *l = c->l;
    if (l->frame->members) {
        Datum d = {.kind = DATUM_INIT, .init = {.kind = INIT_ARANGE}};
        return builtin_number(c, 0, 0, &d.init.a) ? d : datum_poison();
    }
    if (c->arg[0].kind != DATUM_INT || c->arg[0].integer < 1)
        return lower_poison(l, builtin_loc(c, 0), NULL,
                            "'arange' needs the number of elements: arange(n)");
    Level *level;
    Build saved = enter_init(l, &level);
    Attr attr[MAX_ATTRS] = {{.i = c->arg[0].integer}};
    Datum d = lower_op(l, c->call->loc, "count", OP_iota, 0, c->arg, attr);
    leave_init(l, saved, level);
    return d;
}

/* ---- attention ----------------------------------------------------------- */

static bool attention_fits(const Type *q, const Type *k, const Type *v)
{
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
        return false;
    return q->dim[0] == k->dim[0] && k->dim[0] == v->dim[0] &&
           k->dim[1] == v->dim[1] && k->dim[2] == v->dim[2] &&
           q->dim[3] == k->dim[3] && q->dim[2] % k->dim[2] == 0;
}

Datum builtin_attention(const BuiltinCall *c)
{
    Value *q, *k, *v;
    bool causal;
    double scale, rate;
    if (!builtin_tensor(c, 0, &q) || !builtin_tensor(c, 1, &k) ||
        !builtin_tensor(c, 2, &v) || !builtin_flag(c, 3, false, &causal) ||
        !builtin_number(c, 4, 0, &scale) || !builtin_number(c, 5, 0, &rate))
        return datum_poison();
    if (rate < 0 || rate >= 1)
        return lower_poison(c->l, builtin_loc(c, 5), NULL, "the probability of "
                            "dropout must be at least 0 and below 1");
    if (!attention_fits(&q->type, &k->type, &v->type))
        return lower_poison(c->l, c->call->loc, "q is [b, s, heads, d], k and "
                            "v are [b, t, kv_heads, d]; kv_heads divides heads",
                            "cannot attend from %s to %s and %s",
                            builtin_shape(c, q), builtin_shape(c, k),
                            builtin_shape(c, v));
    if (c->arg[4].kind == DATUM_NONE)
        scale = 1 / sqrt((double)q->type.dim[3]);
    Attr attr[MAX_ATTRS] = {{.i = causal}, {.f = scale}, {.f = rate}};
    if (rate <= 0 || c->l->p->purpose != FOR_TRAINING)
        return lower_op(c->l, c->call->loc, "attend from", OP_attention, 3,
                        c->arg, attr);
    attr[3].i = c->l->sites++;
    attr[4].l = (AttrList){3, {q->type.dim[0], k->type.dim[2],
                               q->type.dim[2] / k->type.dim[2]}};
    Datum args[] = {c->arg[0], c->arg[1], c->arg[2], lower_key(c->l)};
    return lower_op(c->l, c->call->loc, "attend from", OP_attention_dropout, 4,
                    args, attr);
}

/* ---- rotary embedding ---------------------------------------------------- */

/* cos and sin of position * theta^(-2 i / d), [seq, d / 2]; uses with the same
 * arguments share one table. */
static const RopeTable *rope_table(Lower *l, int64_t seq, int64_t dim,
                                   double theta)
{
    for (int i = 0; i < l->rope.n; i++) {
        const RopeTable *t = &l->rope.at[i];
        if (t->seq == seq && t->dim == dim && t->theta == theta)
            return t;
    }
    Level *level;
    Build saved = enter_init(l, &level);
    Build *b = &l->b;
    Attr rows[MAX_ATTRS] = {{.i = seq}}, columns[MAX_ATTRS] = {{.i = dim / 2}};
    Attr step[MAX_ATTRS] = {{.f = -2 * log(theta) / (double)dim}};
    Value *i = ir_value(b, OP_iota, 0, NULL, columns, "pair");
    i = ir_value(b, OP_scale, 1, &i, step, "log_frequency");
    Value *frequency = ir_value(b, OP_exp, 1, &i, NULL, "frequency");
    Value *position = ir_value(b, OP_iota, 0, NULL, rows, "position");
    position = ir_reshape(b, position, 2, (int64_t[]){seq, 1});
    Value *angle = ir_value(b, OP_mul, 2, (Value *[]){position, frequency},
                            NULL, "angle");
    RopeTable t = {seq, dim, theta, NULL, NULL};
    t.cos = ir_value(b, OP_cos, 1, &angle, NULL, "rope_cos");
    t.sin = ir_value(b, OP_sin, 1, &angle, NULL, "rope_sin");
    leave_init(l, saved, level);
    vec_push(l->arena, &l->rope, t);
    return &l->rope.at[l->rope.n - 1];
}

Datum builtin_rope(const BuiltinCall *c)
{
    Lower *l = c->l;
    Value *x;
    double theta;
    Datum style = c->arg[2];
    bool half = style.kind == DATUM_WORD && strcmp(style.text, "half") == 0;
    if (!builtin_tensor(c, 0, &x) ||
        !builtin_number(c, 1, DEFAULT_THETA, &theta))
        return datum_poison();
    if (theta <= 0)
        return lower_poison(l, builtin_loc(c, 1), NULL, "the base of rope's "
                            "frequencies must be above 0, not %g", theta);
    if (x->type.ndim != 4 || x->type.dim[3] % 2 != 0)
        return lower_poison(l, c->call->loc,
                            "rope(heads(x, n), theta): [batch, seq, heads, "
                            "even]", "cannot rotate %s", builtin_shape(c, x));
    if (style.kind != DATUM_NONE && !half &&
        !(style.kind == DATUM_WORD &&
          strcmp(style.text, "interleaved") == 0))
        return lower_poison(l, builtin_loc(c, 2), NULL,
                            "the style of rope must be interleaved or half, "
                            "not %s", datum_text(l->arena, style));
    l->b.loc = lower_user_loc(l, c->call->loc);
    const RopeTable *t =
        rope_table(l, x->type.dim[1], x->type.dim[3], theta);
    Datum args[3] = {c->arg[0], datum_tensor(t->cos), datum_tensor(t->sin)};
    Attr attr[MAX_ATTRS] = {{.i = half}, {.i = false}};
    return lower_op(l, c->call->loc, "rotate", OP_rotary, 3, args, attr);
}
