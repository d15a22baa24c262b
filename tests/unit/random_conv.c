/* random_conv.c: builds the convolutions of a random model. */
#include "tests/unit/random.h"

static Value *slice(Build *b, Value *x, int64_t dim, int64_t start, int64_t size)
{
    Attr attr[MAX_ATTRS] = {{.i = dim}, {.i = start}, {.i = size}};
    return ir_value(b, OP_slice, 1, &x, attr, NULL);
}

/* The largest divisor of n that is at most `most`. */
static int64_t divisor_below(int64_t n, int64_t most)
{
    while (n % most)
        most--;
    return most;
}

/* A convolution over the tokens, whose channels are the columns: an image of one row. With
 * groups, each has some of the channels. Stride 2 leaves every second token, which two tokens
 * get. */
Value *random_conv(Model *m, Value *h)
{
    Build *b = model_at(m);
    int64_t batch = h->type.dim[0];
    int64_t width = 1 + rng_below(m->r, m->seq < 3 ? m->seq : 3), seq = m->seq;
    int64_t dilation = width > 1 && rng_chance(m->r, 30) ? 2 : 1, span = dilation * (width - 1);
    int64_t stride = seq % 2 == 0 && rng_chance(m->r, 30) ? 2 : 1;
    int64_t groups = rng_chance(m->r, 50) ? divisor_below(m->dim, 1 + rng_below(m->r, m->dim)) : 1;
    int64_t out = groups > 1 && rng_chance(m->r, 50) ? 2 * m->dim : m->dim;
    int64_t dims[] = {out, m->dim / groups, 1, width};
    int w = model_param(m, model_name(m, "kernel"), 4, dims);
    Value *x = ir_transpose(b, h, (AttrList){3, {0, 2, 1}});
    x = ir_reshape(b, x, 4, (int64_t[]){batch, m->dim, 1, seq});
    Value *args[] = {x, ir_cast(b, model_param_value(m, w), x->type.dtype)};
    int64_t have = (seq + 2 * span - span - 1) / stride + 1;
    Attr attr[MAX_ATTRS] = {{.i = x->type.dtype}, {.l = {2, {1, stride}}}, {.l = {2, {0, span}}},
                            {.l = {2, {1, dilation}}}, {.i = groups}, {.l = {2, {1, have}}}};
    x = ir_value(b, OP_conv, 2, args, attr, "conv");
    x = ir_reshape(b, slice(b, x, 3, 0, seq / stride), 4,
                   (int64_t[]){batch, out, seq / stride, 1});
    x = ir_broadcast(b, x, 4, (int64_t[]){batch, out, seq / stride, stride});
    x = ir_reshape(b, x, 3, (int64_t[]){batch, out, seq});
    if (out > m->dim)
        x = ir_binary(b, OP_add, slice(b, x, 1, 0, m->dim),
                      slice(b, x, 1, m->dim, m->dim));
    x = ir_transpose(b, x, (AttrList){3, {0, 2, 1}});
    return ir_binary(b, OP_add, h, ir_unary(b, OP_tanh, x));
}
