/* fuse_kernels.c: compiles and runs emitted kernels of typical training shapes
 * and compares them with the interpreter. */
#include "tests/unit/fuse_tools.h"

#define BATCH 4
#define SEQ 24
#define DIM 96

static Value *mul(FuseTest *t, Value *x, Value *y)
{
    return ir_binary(&t->b, OP_mul, x, y);
}

static Value *add(FuseTest *t, Value *x, Value *y)
{
    return ir_binary(&t->b, OP_add, x, y);
}

static Value *sub(FuseTest *t, Value *x, Value *y)
{
    return ir_binary(&t->b, OP_sub, x, y);
}

static Value *activation(FuseTest *t, const char *name)
{
    return fuse_param(t, name, DIMS(BATCH, SEQ, DIM), 0, 1);
}

static Value *inverse_rms(FuseTest *t, Value *x)
{
    Value *s = fuse_sum(t, mul(t, x, x), 2, true);
    s = fuse_factor(t, OP_scale, s, 1.0 / DIM);
    return ir_unary(&t->b, OP_rsqrt, fuse_factor(t, OP_offset, s, 1e-5));
}

/* h = x + a; y = norm(h) w: one kernel with two results. */
static void norm(Check *c)
{
    FuseTest t = fuse_test(PH_FORWARD);
    Value *h = add(&t, activation(&t, "x"), activation(&t, "a"));
    Value *w = fuse_param(&t, "w", DIMS(DIM), 1, 0.5);
    Value *y = mul(&t, mul(&t, h, inverse_rms(&t, h)), w);
    fuse_keep(&t, h);
    fuse_keep(&t, y);
    fuse_run(c, &t, "norm", 1);
}

/* dx and dw of a norm, with r recomputed: one kernel. */
static void norm_grad(Check *c)
{
    FuseTest t = fuse_test(PH_BACKWARD);
    Value *x = activation(&t, "x"), *dy = activation(&t, "dy");
    Value *w = fuse_param(&t, "w", DIMS(DIM), 1, 0.5);
    Value *r = inverse_rms(&t, x), *n = mul(&t, x, r);
    Value *dw = ir_sum(&t.b, mul(&t, dy, n), (AttrList){2, {0, 1}}, false);
    Value *dn = mul(&t, dy, w);
    Value *s = fuse_sum(&t, mul(&t, dn, n), 2, true);
    s = fuse_factor(&t, OP_scale, s, 1.0 / DIM);
    Value *dx = mul(&t, sub(&t, dn, mul(&t, n, s)), r);
    fuse_keep(&t, dx);
    fuse_keep(&t, dw);
    fuse_run(c, &t, "norm_grad", 1);
}

/* A layer norm: two row sums, one after the other. */
static void layer_norm(Check *c)
{
    FuseTest t = fuse_test(PH_FORWARD);
    Value *x = activation(&t, "x");
    Value *mean =
        fuse_factor(&t, OP_scale, fuse_sum(&t, x, 2, true), 1.0 / DIM);
    Value *d = sub(&t, x, mean);
    Value *y = mul(&t, d, inverse_rms(&t, d));
    y = mul(&t, y, fuse_param(&t, "w", DIMS(DIM), 1, 0.5));
    y = add(&t, y, fuse_param(&t, "b", DIMS(DIM), 0, 0.5));
    fuse_keep(&t, y);
    fuse_run(c, &t, "layer_norm", 1);
}

static void silu(Check *c)
{
    FuseTest t = fuse_test(PH_FORWARD);
    Value *x = activation(&t, "x"), *y = activation(&t, "y");
    Value *z = mul(&t, mul(&t, x, ir_unary(&t.b, OP_sigmoid, x)), y);
    fuse_keep(&t, z);
    fuse_run(c, &t, "silu", 1);
}

static void silu_grad(Check *c)
{
    FuseTest t = fuse_test(PH_BACKWARD);
    Value *x = activation(&t, "x"), *y = activation(&t, "y");
    Value *dz = activation(&t, "dz");
    Value *s = ir_unary(&t.b, OP_sigmoid, x), *a = mul(&t, x, s);
    Value *one = ir_scalar_const(&t.b, 1);
    Value *slope = mul(&t, s, add(&t, one, mul(&t, x, sub(&t, one, s))));
    fuse_keep(&t, mul(&t, dz, a));
    fuse_keep(&t, mul(&t, mul(&t, dz, y), slope));
    fuse_run(c, &t, "silu_grad", 1);
}

/* The loss and its gradient in one kernel; rows of `vocab`. */
static void cross_entropy(Check *c, int64_t rows, int64_t vocab)
{
    FuseTest t = fuse_test(PH_FORWARD);
    Value *x = fuse_param(&t, "x", DIMS(2, rows, vocab), 0, 4);
    Value *labels = fuse_index(&t, "labels", DIMS(2, rows), vocab);
    Attr attr[MAX_ATTRS] = {{.i = vocab}};
    Value *pick = ir_value(&t.b, OP_onehot, 1, &labels, attr, NULL);
    Value *d = sub(&t, x, fuse_max(&t, x, 2, true));
    Value *e = ir_unary(&t.b, OP_exp, d);
    Value *sum = fuse_sum(&t, e, 2, true);
    Value *target = fuse_sum(&t, mul(&t, d, pick), 2, true);
    Value *loss = sub(&t, ir_unary(&t.b, OP_log, sum), target);
    loss = ir_sum(&t.b, loss, (AttrList){3, {0, 1, 2}}, false);
    loss = fuse_factor(&t, OP_scale, loss, 1.0 / (double)(2 * rows));
    fuse_keep(&t, loss);
    t.b.phase = PH_BACKWARD;
    Value *dx = sub(&t, ir_binary(&t.b, OP_div, e, sum), pick);
    dx = fuse_factor(&t, OP_scale, dx, 1.0 / (double)(2 * rows));
    fuse_keep(&t, dx);
    fuse_run(c, &t, "cross_entropy", 1);
}

static void rotary(Check *c, bool half, bool inverse)
{
    FuseTest t = fuse_test(PH_FORWARD);
    Value *x = fuse_param(&t, "x", DIMS(2, 6, 48), 0, 1);
    Value *tables[3] = {ir_reshape(&t.b, x, DIMS(2, 6, 3, 16)),
                        fuse_param(&t, "cos", DIMS(6, 8), 0, 1),
                        fuse_param(&t, "sin", DIMS(6, 8), 0, 1)};
    Attr attr[MAX_ATTRS] = {{.i = half}, {.i = inverse}};
    Value *q = ir_value(&t.b, OP_rotary, 3, tables, attr, NULL);
    fuse_keep(&t, fuse_factor(&t, OP_scale, q, 0.5));
    /* A norm of the rotated values, also along the pairs. */
    Value *s = fuse_sum(&t, mul(&t, q, q), 3, true);
    fuse_keep(&t, mul(&t, q, ir_unary(&t.b, OP_rsqrt, s)));
    fuse_run(c, &t, "rotary", 1);
}

/* The tables of a rotation: a kernel without operands. */
static void tables(Check *c)
{
    FuseTest t = fuse_test(PH_INIT);
    Attr n[MAX_ATTRS] = {{.i = 8}}, s[MAX_ATTRS] = {{.i = 50}};
    Value *f = ir_value(&t.b, OP_iota, 0, NULL, n, NULL);
    f = ir_unary(&t.b, OP_exp, fuse_factor(&t, OP_scale, f, -1.15));
    Value *at = ir_value(&t.b, OP_iota, 0, NULL, s, NULL);
    Value *angle = mul(&t, ir_reshape(&t.b, at, DIMS(50, 1)), f);
    fuse_keep(&t, ir_unary(&t.b, OP_cos, angle));
    fuse_keep(&t, ir_unary(&t.b, OP_sin, angle));
    fuse_run(c, &t, "tables", -1);
}

/* Sums over rows of several lengths and orders. */
static void bias_grads(Check *c)
{
    FuseTest t = fuse_test(PH_BACKWARD);
    Value *dy = activation(&t, "dy");
    fuse_keep(&t, ir_sum(&t.b, dy, (AttrList){2, {0, 1}}, false));
    fuse_run(c, &t, "bias", 1);

    t = fuse_test(PH_BACKWARD);
    Value *wide = fuse_param(&t, "wide", DIMS(37, 20011), 0, 1);
    fuse_keep(&t, fuse_sum(&t, wide, 0, false));
    fuse_run(c, &t, "wide bias", 1);

    t = fuse_test(PH_BACKWARD);
    Value *long_one = fuse_param(&t, "long", DIMS(5000, 40), 0, 1);
    Value *e = ir_unary(&t.b, OP_exp, long_one);
    fuse_keep(&t, fuse_factor(&t, OP_scale, fuse_sum(&t, e, 0, false), 0.25));
    fuse_keep(&t, fuse_max(&t, long_one, 0, true));
    fuse_run(c, &t, "long bias", 1);

    t = fuse_test(PH_BACKWARD);
    dy = fuse_param(&t, "dy", DIMS(3, 5, 2, 4, 6), 0, 1);
    fuse_keep(&t, fuse_sum(&t, dy, 3, false));
    fuse_run(c, &t, "groups", 1);

    t = fuse_test(PH_BACKWARD);
    dy = fuse_param(&t, "dy", DIMS(3, 5, 7, 6), 0, 1);
    fuse_keep(&t, ir_sum(&t.b, dy, (AttrList){2, {1, 3}}, true));
    fuse_run(c, &t, "first and third", 1);

    t = fuse_test(PH_BACKWARD);
    dy = fuse_param(&t, "dy", DIMS(3, 5, 7), 0, 1);
    fuse_keep(&t, fuse_max(&t, dy, 1, false));
    fuse_keep(&t, fuse_sum(&t, dy, 0, false));
    fuse_keep(&t, ir_value(&t.b, OP_sumsq, 1, &dy, NULL, NULL));
    fuse_run(c, &t, "sums that do not nest", -1);
}

static void full_sums(Check *c)
{
    static const int64_t size[] = {1, 7, 4096, 4097, 123457};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        FuseTest t = fuse_test(PH_OPTIMIZER);
        Value *x = fuse_param(&t, "x", DIMS(size[i]), 0, 1);
        Value *s = ir_value(&t.b, OP_sumsq, 1, &x, NULL, NULL);
        fuse_keep(&t, ir_unary(&t.b, OP_sqrt, s));
        fuse_run(c, &t, "sumsq", 1);
    }
}

/* x / norm(x): one kernel, unless the only row is too long for one block. */
static void scaled_by_norm(Check *c, int64_t rows, int64_t n, int kernels)
{
    FuseTest t = fuse_test(PH_OPTIMIZER);
    Value *x = fuse_param(&t, "x", DIMS(rows, n), 0, 1);
    Value *s = fuse_sum(&t, mul(&t, x, x), 1, true);
    fuse_keep(&t, ir_binary(&t.b, OP_div, x, ir_unary(&t.b, OP_sqrt, s)));
    fuse_run(c, &t, "scaled by the norm", kernels);
}

static void long_rows(Check *c)
{
    scaled_by_norm(c, 1, 1 << 16, 1);
    scaled_by_norm(c, 1, 3 << 16, 2);
    scaled_by_norm(c, 3, 3 << 16, 1);
}

/* AdamW over a range: three results, each in place of its old value. */
static void adamw(Check *c, int64_t n)
{
    FuseTest t = fuse_test(PH_OPTIMIZER);
    Value *w = fuse_param(&t, "w", DIMS(n), 0, 1);
    Value *g = fuse_param(&t, "g", DIMS(n), 0, 1);
    Value *m = fuse_param(&t, "m", DIMS(n), 0, 1);
    Value *v = fuse_param(&t, "v", DIMS(n), 0.5, 0.5);
    Value *scalar[3];
    static const char *const name[] = {"lr", "bias1", "bias2"};
    for (int i = 0; i < 3; i++) {
        Attr attr[MAX_ATTRS] = {{.s = name[i]}};
        scalar[i] = ir_value(&t.b, OP_scalar, 0, NULL, attr, name[i]);
    }
    Value *shrink = fuse_factor(&t, OP_offset,
                                fuse_factor(&t, OP_scale, scalar[0], -0.1), 1);
    Value *step = ir_binary(&t.b, OP_div, scalar[0], scalar[1]);
    Value *root = ir_unary(&t.b, OP_sqrt, scalar[2]);
    for (int i = 0; i < 2; i++) { /* two parameters share the scalars */
        Value *m1 = add(&t, fuse_factor(&t, OP_scale, m, 0.9),
                        fuse_factor(&t, OP_scale, g, 0.1));
        Value *v1 = add(&t, fuse_factor(&t, OP_scale, v, 0.95),
                        fuse_factor(&t, OP_scale, mul(&t, g, g), 0.05));
        Value *d = ir_binary(&t.b, OP_div, ir_unary(&t.b, OP_sqrt, v1), root);
        d = fuse_factor(&t, OP_offset, d, 1e-8);
        Value *w1 = sub(&t, mul(&t, w, shrink),
                        ir_binary(&t.b, OP_div, mul(&t, m1, step), d));
        fuse_keep(&t, m1);
        fuse_keep(&t, v1);
        fuse_keep(&t, w1);
        if (i == 0) {
            w = fuse_param(&t, "w2", DIMS(5, 11), 0, 1);
            g = fuse_param(&t, "g2", DIMS(5, 11), 0, 1);
            m = fuse_param(&t, "m2", DIMS(5, 11), 0, 1);
            v = fuse_param(&t, "v2", DIMS(5, 11), 0.5, 0.5);
        }
    }
    fuse_run(c, &t, "adamw", 2);
}

/* Broadcasts of inner dims, views that do not match, dims of 1, remainders of
 * vectors. */
static void odd_shapes(Check *c)
{
    FuseTest t = fuse_test(PH_FORWARD);
    Value *x = fuse_param(&t, "x", DIMS(2, 1, 5, 1), 0, 1);
    Value *y = fuse_param(&t, "y", DIMS(2, 3, 5, 7), 0, 1);
    Value *z = fuse_param(&t, "z", DIMS(3, 1, 7), 0, 1);
    fuse_keep(&t, add(&t, mul(&t, x, y), z));
    fuse_run(c, &t, "across", 1);

    t = fuse_test(PH_FORWARD);
    x = fuse_param(&t, "x", DIMS(4, 6), 0, 1);
    Value *e = ir_unary(&t.b, OP_exp, x);
    Value *r = ir_reshape(&t.b, e, DIMS(6, 4));
    fuse_keep(&t, add(&t, r, fuse_param(&t, "b", DIMS(4), 0, 1)));
    fuse_keep(&t, add(&t, e, fuse_param(&t, "c", DIMS(6), 0, 1)));
    fuse_run(c, &t, "reshape that does not fit", -1);

    t = fuse_test(PH_FORWARD);
    x = fuse_param(&t, "x", DIMS(4, 6), 0, 1);
    Value *across = ir_transpose(&t.b, x, (AttrList){2, {1, 0}});
    fuse_keep(&t, ir_unary(&t.b, OP_neg, across));
    fuse_keep(&t, ir_unary(&t.b, OP_tanh, x));
    fuse_run(c, &t, "transpose", -1);

    t = fuse_test(PH_FORWARD);
    x = fuse_param(&t, "x", DIMS(4, 6, 5), 0, 1);
    Value *s = fuse_sum(&t, ir_unary(&t.b, OP_exp, x), 1, true);
    fuse_keep(&t, ir_binary(&t.b, OP_div, ir_unary(&t.b, OP_exp, x), s));
    fuse_run(c, &t, "softmax over the middle", -1);

    t = fuse_test(PH_FORWARD);
    x = fuse_param(&t, "x", DIMS(1), 0.5, 0.1);
    fuse_keep(&t, ir_unary(&t.b, OP_log, x));
    fuse_keep(&t, ir_broadcast(&t.b, x, DIMS(3, 5)));
    fuse_keep(&t, ir_full(&t.b, 2.5, DT_F32, DIMS(3, 5)));
    fuse_run(c, &t, "scalars", -1);

    t = fuse_test(PH_FORWARD);
    x = fuse_param(&t, "x", DIMS(3, 8), 0, 1);
    Value *w = fuse_param(&t, "w", DIMS(8), 1, 0.5);
    w = ir_unary(&t.b, OP_exp, w);
    fuse_keep(&t, mul(&t, x, w));
    fuse_run(c, &t, "costly before it is repeated", 2);
}

static void every_op(Check *c)
{
    static const OpKind unary[] = {
        OP_neg,     OP_exp, OP_log, OP_sqrt, OP_rsqrt, OP_recip, OP_tanh,
        OP_sigmoid, OP_erf, OP_sin, OP_cos,  OP_abs,   OP_relu,  OP_step,
        OP_gelu,    OP_floor,
    };
    static const OpKind binary[] = {OP_add,     OP_sub,     OP_mul,   OP_div,
                                    OP_maximum, OP_minimum, OP_equal, OP_less,
                                    OP_gelu_grad};
    static const double exponent[] = {0,  1,   2,    3,   5,   -1,
                                      -2, 0.5, -0.5, 1.5, 0.3, -7};
    FuseTest t = fuse_test(PH_FORWARD);
    Value *x = fuse_param(&t, "x", DIMS(3, 50), 1, 0.8);
    Value *y = fuse_param(&t, "y", DIMS(3, 50), 0, 2);
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++) {
        fuse_keep(&t, ir_unary(&t.b, unary[i], x));
        if (unary[i] != OP_log && unary[i] != OP_sqrt && unary[i] != OP_rsqrt &&
            unary[i] != OP_recip)
            fuse_keep(&t, ir_unary(&t.b, unary[i], y));
    }
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        fuse_keep(&t, ir_binary(&t.b, binary[i], y, x));
    for (size_t i = 0; i < sizeof exponent / sizeof *exponent; i++)
        fuse_keep(&t, fuse_factor(&t, OP_power, x, exponent[i]));
    fuse_keep(&t, fuse_factor(&t, OP_power, y, 3));
    fuse_keep(&t, fuse_factor(&t, OP_power, y, 5));
    fuse_keep(&t, fuse_factor(&t, OP_power, y, 6));
    Value *three[] = {ir_unary(&t.b, OP_step, y), x, y};
    fuse_keep(&t, ir_value(&t.b, OP_select, 3, three, NULL, NULL));
    fuse_run(c, &t, "every op", -1);
}

/* A cheap value is recomputed, and no fusion that would create a cycle is
 * made. */
static void shares(Check *c)
{
    FuseTest t = fuse_test(PH_FORWARD);
    Value *x = fuse_param(&t, "x", DIMS(64, 64), 0, 1);
    Value *n = fuse_factor(&t, OP_scale, x, 3);
    Value *s = fuse_sum(&t, mul(&t, n, n), 0, false); /* columns */
    fuse_keep(&t, s);
    Value *q = ir_reshape(&t.b, n, DIMS(32, 128));
    fuse_keep(&t, add(&t, q, fuse_param(&t, "b", DIMS(128), 0, 1)));
    Value *u = mul(&t, n, s); /* needs all rows of s */
    fuse_keep(&t, u);
    fuse_run(c, &t, "shares", -1);
}

int main(void)
{
    Check c = {0};
    norm(&c);
    norm_grad(&c);
    layer_norm(&c);
    silu(&c);
    silu_grad(&c);
    cross_entropy(&c, 9, 50);
    cross_entropy(&c, 3, 20000);
    for (int i = 0; i < 4; i++)
        rotary(&c, i & 1, i & 2);
    tables(&c);
    bias_grads(&c);
    full_sums(&c);
    long_rows(&c);
    adamw(&c, 10007);
    odd_shapes(&c);
    every_op(&c);
    shares(&c);
    return check_end(&c);
}
