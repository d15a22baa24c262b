/* lower_conv.c: lowers convolutions. */
#include "frontend/lower/lower.h"

/* Reads argument i, a pair of integers of at least `least`. */
static bool read_pair(const BuiltinCall *c, int i, int64_t least, AttrList *to)
{
    Datum d = c->arg[i];
    bool fits = d.kind == DATUM_TUPLE && d.nitems == 2;
    *to = (AttrList){.n = 2};
    for (int k = 0; k < 2 && fits; k++) {
        if (d.item[k].kind == DATUM_POISON)
            return false;
        fits = d.item[k].kind == DATUM_INT && d.item[k].integer >= least;
        to->v[k] = d.item[k].integer;
    }
    return fits || lower_error(c->l, builtin_loc(c, i), NULL, "'%s' needs a pair of integers of at "
                               "least %lld, not %s", c->call->name, (long long)least,
                               datum_text(c->l->arena, d));
}

/* convolution(x, weight, stride, padding, dilation, groups, size): of x [batch, channels,
 * height, width] and weight [out, channels / groups, height, width]; pairs of integers, and
 * an integer `groups`. `size` has the height and the width of the result. The prelude's conv2d
 * computes it, and has checked how the arguments fit together. */
Datum builtin_convolution(const BuiltinCall *c)
{
    Value *x, *weight;
    AttrList stride, padding, dilation, size;
    if (!builtin_tensor(c, 0, &x) || !builtin_tensor(c, 1, &weight) ||
        !read_pair(c, 2, 1, &stride) || !read_pair(c, 3, 0, &padding) ||
        !read_pair(c, 4, 1, &dilation) || !read_pair(c, 6, 1, &size))
        return datum_poison();
    if (c->arg[5].kind != DATUM_INT) {
        builtin_wrong(c, 5, "the number of groups");
        return datum_poison();
    }
    Datum args[] = {lower_narrow(c->l, c->arg[0]), lower_narrow(c->l, c->arg[1])};
    DType wider = args[0].tensor->type.dtype;
    if (wider != args[1].tensor->type.dtype) /* one of them is f32 */
        wider = DT_F32;
    for (int i = 0; i < 2; i++) {
        Attr to[MAX_ATTRS] = {{.i = wider}};
        if (args[i].tensor->type.dtype != wider)
            args[i] = lower_op(c->l, c->call->loc, "cast", OP_cast, 1, &args[i], to);
    }
    Attr attr[MAX_ATTRS] = {{.i = wider}, {.l = stride}, {.l = padding}, {.l = dilation},
                            {.i = c->arg[5].integer}, {.l = size}};
    return lower_op(c->l, c->call->loc, "convolve", OP_conv, 2, args, attr);
}
