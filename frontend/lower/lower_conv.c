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
    Datum args[] = {c->arg[0], c->arg[1]};
    Attr attr[MAX_ATTRS] = {{.i = lower_common(c->l, c->call->loc, 2, args)}, {.l = stride}, {.l = padding}, {.l = dilation},
                            {.i = c->arg[5].integer}, {.l = size}};
    return lower_op(c->l, c->call->loc, "convolve", OP_conv, 2, args, attr);
}
