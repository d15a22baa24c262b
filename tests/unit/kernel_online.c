/* kernel_online.c: checks which phases of a kernel merge into the previous
 * phase, and which stay. A phase is a part of the work on a row, with at most
 * one loop over its columns (codegen/kernel/kernel.h). A softmax then needs two
 * phases instead of three, since its sum is scaled when the maximum changes
 * (online softmax). tests/e2e/cuda_kernels.sh compares the numbers. */
#include <float.h>
#include <string.h>

#include "codegen/cuda/cuda_kernel.h"
#include "codegen/target/target.h"
#include "tests/unit/fuse_tools.h"

enum { ROWS = 3, COLUMNS = 40 };

static Value *two(FuseTest *t, OpKind kind, Value *x, Value *y)
{
    return ir_binary(&t->b, kind, x, y);
}

static Value *row(FuseTest *t, const char *name)
{
    return fuse_param(t, name, DIMS(ROWS, COLUMNS), 0, 1);
}

static Value *shifted(FuseTest *t, Value *x, Value *from)
{
    return two(t, OP_sub, x, fuse_max(t, from, 1, true));
}

static Value *power(FuseTest *t, Value *x)
{
    return ir_unary(&t->b, OP_exp, shifted(t, x, x));
}

static Value *total(FuseTest *t, Value *x)
{
    return fuse_sum(t, x, 1, true);
}

static Value *onehot(FuseTest *t, int64_t n)
{
    Value *labels = fuse_index(t, "labels", DIMS(ROWS), n);
    Attr attr[MAX_ATTRS] = {{.i = n}};
    return ir_value(&t->b, OP_onehot, 1, &labels, attr, NULL);
}

/* ---- phases that merge --------------------------------------------------- */

static void softmax(FuseTest *t)
{
    Value *e = power(t, row(t, "x"));
    fuse_keep(t, two(t, OP_div, e, total(t, e)));
}

static void softmax_of_product(FuseTest *t)
{
    Value *e = power(t, two(t, OP_mul, row(t, "x"), row(t, "y")));
    fuse_keep(t, two(t, OP_div, e, total(t, e)));
}

static void weighted(FuseTest *t)
{
    Value *e = power(t, row(t, "x"));
    Value *sum = total(t, two(t, OP_mul, row(t, "y"), e));
    fuse_keep(t, two(t, OP_div, sum, total(t, e)));
}

static void cross_entropy(FuseTest *t)
{
    Value *x = row(t, "x"), *d = shifted(t, x, x);
    Value *sum = total(t, ir_unary(&t->b, OP_exp, d));
    Value *picked = total(t, two(t, OP_mul, d, onehot(t, COLUMNS)));
    fuse_keep(t, two(t, OP_sub, ir_unary(&t->b, OP_log, sum), picked));
}

static Value *selected(FuseTest *t, Value *which, Value *x, double other)
{
    Value *args[] = {
        which, x, ir_full(&t->b, other, DT_F32, x->type.ndim, x->type.dim)};
    return ir_value(&t->b, OP_select, 3, args, NULL, NULL);
}

static void selects(FuseTest *t, double other)
{
    Value *x = row(t, "x"), *d = shifted(t, x, x);
    Value *sum = total(t, ir_unary(&t->b, OP_exp, d));
    Value *picked = selected(t, onehot(t, COLUMNS), d, other);
    fuse_keep(t, two(t, OP_sub, ir_unary(&t->b, OP_log, sum),
                     total(t, picked)));
}

static void cross_entropy_selects(FuseTest *t)
{
    selects(t, 0);
}

static void counts_others(FuseTest *t)
{
    selects(t, 1);
}

/* A softmax of the columns that `valid` selects; the maximum of the others is
 * `other`. */
static void softmax_of_some(FuseTest *t, double other)
{
    Value *x = row(t, "x"), *valid = row(t, "valid");
    Value *d = shifted(t, x, selected(t, valid, x, other));
    Value *e = selected(t, valid, ir_unary(&t->b, OP_exp, d), 0);
    fuse_keep(t, two(t, OP_div, e, total(t, e)));
}

static void padded(FuseTest *t)
{
    softmax_of_some(t, -FLT_MAX);
}

static void at_least_five(FuseTest *t)
{
    softmax_of_some(t, 5);
}

/* A softmax of a softmax: each maximum merges with its sum. */
static void twice(FuseTest *t)
{
    Value *e = power(t, row(t, "x"));
    e = power(t, two(t, OP_div, e, total(t, e)));
    fuse_keep(t, two(t, OP_div, e, total(t, e)));
}

/* ---- phases that stay ---------------------------------------------------- */

static void another_maximum(FuseTest *t)
{
    Value *x = row(t, "x");
    Value *half = fuse_factor(t, OP_scale, x, 0.5);
    Value *e = ir_unary(&t->b, OP_exp, shifted(t, x, half));
    fuse_keep(t, two(t, OP_div, e, total(t, e)));
}

static void stored(FuseTest *t)
{
    Value *e = power(t, row(t, "x"));
    fuse_keep(t, e);
    fuse_keep(t, total(t, e));
}

static void squares(FuseTest *t)
{
    Value *x = row(t, "x"), *d = shifted(t, x, x);
    Value *e = ir_unary(&t->b, OP_exp, d);
    Value *sum = total(t, two(t, OP_mul, d, d));
    fuse_keep(t, two(t, OP_add, sum, total(t, e)));
}

static void greatest_power(FuseTest *t)
{
    Value *e = power(t, row(t, "x"));
    fuse_keep(t, two(t, OP_div, e, fuse_max(t, e, 1, true)));
}

static void late_factor(FuseTest *t)
{
    Value *x = row(t, "x"), *d = shifted(t, x, x);
    Value *e = ir_unary(&t->b, OP_exp, d);
    fuse_keep(t, total(t, two(t, OP_mul, d, e)));
}

static void norm(FuseTest *t)
{
    Value *x = row(t, "x");
    Value *sum = total(t, two(t, OP_mul, x, x));
    fuse_keep(t, two(t, OP_mul, x, ir_unary(&t->b, OP_rsqrt, sum)));
}

static const struct {
    const char *name;
    void (*build)(FuseTest *);
    int before, after; /* phases */
    int online, picks; /* instructions; 0 if no phase merges */
} cases[] = {
    {"softmax", softmax, 3, 2, 1, 0},
    {"softmax of a product", softmax_of_product, 3, 2, 1, 0},
    {"sum with weights", weighted, 3, 2, 2, 0},
    {"cross entropy", cross_entropy, 3, 2, 1, 2},
    {"cross entropy that selects", cross_entropy_selects, 3, 2, 1, 2},
    {"softmax of padded rows", padded, 3, 2, 1, 0},
    {"softmax of softmax", twice, 5, 3, 2, 0},
    {"another maximum", another_maximum, 3, 3, 0, 0},
    {"powers are stored", stored, 3, 3, 0, 0},
    {"squares beside powers", squares, 3, 3, 0, 0},
    {"the greatest power", greatest_power, 3, 3, 0, 0},
    {"not 0 beside the label", counts_others, 3, 3, 0, 0},
    {"the maximum is at least five", at_least_five, 3, 3, 0, 0},
    {"a factor that waits for the maximum", late_factor, 3, 3, 0, 0},
    {"norm", norm, 2, 2, 0, 0},
};

static int count(const Kernel *k, KernelCode code)
{
    int n = 0;
    for (int i = 0; i < k->ninstrs; i++)
        n += k->instr[i].code == code;
    return n;
}

/* Counts the loops over columns; each reads the row once. */
static int loops(const Kernel *k)
{
    int n = 0;
    for (int p = 0; p < k->nphases; p++)
        n += k->phase[p].loop;
    return n;
}

static void run(Check *c, int at)
{
    FuseTest t = fuse_test(PH_FORWARD);
    cases[at].build(&t);
    TargetInfo info = target_info(TARGET_CUDA, 1);
    pass_fuse(t.p, &info);
    const Op *op = fuse_first(t.p);
    CHECK(c, op != NULL);
    if (!op)
        return;
    Kernel *k = kernel_build_plain(t.p, op);
    int before = loops(k), failed = c->failed;
    CHECK(c, k->nphases == cases[at].before);
    CHECK(c, kernel_online(t.p, k) == (cases[at].online > 0));
    CHECK(c, k->nphases == cases[at].after);
    CHECK(c, before - loops(k) == cases[at].before - cases[at].after);
    CHECK(c, count(k, KERNEL_ONLINE) == cases[at].online);
    CHECK(c, count(k, KERNEL_PICK) == cases[at].picks);
    CHECK(c, !kernel_online(t.p, k));
    if (c->failed > failed)
        printf("%s\n", cases[at].name);
    arena_free(t.arena);
}

int main(void)
{
    Check c = {0, 0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run(&c, (int)i);
    return check_end(&c);
}
