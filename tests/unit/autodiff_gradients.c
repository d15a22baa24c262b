/* autodiff_gradients.c: compares the gradient of every operator with finite
 * differences.
 *
 * Each row of `cases` builds a small program: parameters a, b, c of the row's
 * shapes, a function that computes a value from them, and a weighted sum of that
 * value as the loss. autodiff_check.c perturbs each element of the parameters.
 * An operator that has a gradient rule but no row fails the test.
 */
#include "base/bug.h"
#include "passes/autodiff/gradients.h"
#include "tests/unit/autodiff_check.h"
#include "tests/unit/check.h"

typedef Value *Make(Small *s, Value *const *x);

typedef struct Shape {
    int n;
    int64_t dim[MAX_DIMS];
} Shape;

typedef struct Case {
    const char *name;
    Make *make;
    Shape shape[4];
    OpKind covers;
} Case;

static Value *with(Small *s, OpKind kind, Value *x, double factor)
{
    Attr attr[MAX_ATTRS] = {{.f = factor}};
    return ir_value(&s->b, kind, 1, &x, attr, NULL);
}

/* Shifts x to have elements of both signs. */
static Value *centred(Small *s, Value *x)
{
    return with(s, OP_offset, x, -1.0);
}

#define BINARY(kind)                                                           \
    static Value *make_##kind(Small *s, Value *const *x)                       \
    {                                                                          \
        return ir_binary(&s->b, OP_##kind, x[0], x[1]);                        \
    }
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(maximum)
BINARY(minimum)

#define UNARY(kind)                                                            \
    static Value *make_##kind(Small *s, Value *const *x)                       \
    {                                                                          \
        return ir_unary(&s->b, OP_##kind, centred(s, x[0]));                   \
    }
UNARY(neg)
UNARY(exp)
UNARY(tanh)
UNARY(sigmoid)
UNARY(erf)
UNARY(gelu)
UNARY(sin)
UNARY(cos)
UNARY(abs)
UNARY(relu)

#define POSITIVE(kind)                                                         \
    static Value *make_##kind(Small *s, Value *const *x)                       \
    {                                                                          \
        return ir_unary(&s->b, OP_##kind, x[0]);                               \
    }
POSITIVE(log)
POSITIVE(sqrt)
POSITIVE(rsqrt)
POSITIVE(recip)
POSITIVE(sumsq)

static Value *make_select(Small *s, Value *const *x)
{
    Value *condition = ir_unary(&s->b, OP_step, centred(s, x[0]));
    Value *args[] = {condition, x[1], x[2]};
    return ir_value(&s->b, OP_select, 3, args, NULL, NULL);
}

static Value *make_scale(Small *s, Value *const *x)
{
    return with(s, OP_scale, x[0], -2.5);
}

static Value *make_offset(Small *s, Value *const *x)
{
    return with(s, OP_offset, x[0], 4.0);
}

static Value *make_power(Small *s, Value *const *x)
{
    Value *third = with(s, OP_power, x[0], -1.5);
    return ir_binary(&s->b, OP_mul, third, with(s, OP_power, x[0], 2.0));
}

static Value *make_cast(Small *s, Value *const *x)
{
    Value *narrow = ir_cast(&s->b, x[0], DT_BF16);
    return ir_einsum(&s->b, "ij,jk->ik", DT_F32, narrow, x[1]);
}

static Value *make_boundary(Small *s, Value *const *x)
{
    return ir_boundary(&s->b, x[0], "layer", (Port){.input = true}, false);
}

static Value *make_sum(Small *s, Value *const *x)
{
    AttrList middle = {1, {1}}, both = {2, {0, 2}};
    Value *kept = ir_sum(&s->b, x[0], middle, true);
    Value *rest = ir_sum(&s->b, x[0], both, false);
    Value *product = ir_binary(&s->b, OP_mul, kept, x[0]);
    AttrList last = {1, {2}};
    product = ir_sum(&s->b, product, last, false);
    return ir_binary(&s->b, OP_mul, product, rest);
}

/* The maximum is under detach: softmax does not depend on it. */
static Value *make_softmax(Small *s, Value *const *x)
{
    AttrList last = {1, {1}};
    Value *most = ir_max(&s->b, x[0], last, true);
    most = ir_unary(&s->b, OP_detach, most);
    Value *e = ir_unary(&s->b, OP_exp, ir_binary(&s->b, OP_sub, x[0], most));
    return ir_binary(&s->b, OP_div, e, ir_sum(&s->b, e, last, true));
}

static Value *make_reshape(Small *s, Value *const *x)
{
    const int64_t dim[] = {6, 4};
    return ir_reshape(&s->b, x[0], 2, dim);
}

static Value *make_broadcast(Small *s, Value *const *x)
{
    const int64_t dim[] = {2, 3, 4};
    return ir_broadcast(&s->b, x[0], 3, dim);
}

static Value *make_transpose(Small *s, Value *const *x)
{
    AttrList perm = {3, {2, 0, 1}};
    return ir_transpose(&s->b, x[0], perm);
}

static Value *make_slice(Small *s, Value *const *x)
{
    Attr first[MAX_ATTRS] = {{.i = 1}, {.i = 0}, {.i = 2}};
    Attr last[MAX_ATTRS] = {{.i = 1}, {.i = 1}, {.i = 2}};
    Value *a = ir_value(&s->b, OP_slice, 1, x, first, NULL);
    Value *b = ir_value(&s->b, OP_slice, 1, x, last, NULL);
    return ir_binary(&s->b, OP_mul, a, b);
}

static Value *make_pad(Small *s, Value *const *x)
{
    Attr attr[MAX_ATTRS] = {{.i = 1}, {.i = 1}, {.i = 2}};
    return ir_value(&s->b, OP_pad, 1, x, attr, NULL);
}

static Value *make_concat(Small *s, Value *const *x)
{
    Attr attr[MAX_ATTRS] = {{.i = 1}};
    Value *args[] = {x[0], x[1], x[0]};
    return ir_value(&s->b, OP_concat, 3, args, attr, NULL);
}

static Value *make_einsum(Small *s, Value *const *x)
{
    return ir_einsum(&s->b, "bsk,fk->bsf", DT_F32, x[0], x[1]);
}

static Value *make_embedding(Small *s, Value *const *x)
{
    Value *args[] = {x[0], small_ids(s, "ids", 5, DIMS(2, 3))};
    return ir_value(&s->b, OP_embedding, 2, args, NULL, NULL);
}

/* The angles are fixed: their parameters are not trained. */
static Value *rotary(Small *s, Value *x, bool half)
{
    Value *angle = small_param(s, "angle", false, 0, DIMS(3, 2));
    Value *args[] = {x, ir_unary(&s->b, OP_cos, angle),
                     ir_unary(&s->b, OP_sin, angle)};
    Attr attr[MAX_ATTRS] = {{.i = half}, {.i = 0}};
    return ir_value(&s->b, OP_rotary, 3, args, attr, NULL);
}

static Value *make_rotary(Small *s, Value *const *x)
{
    return rotary(s, x[0], false);
}

static Value *make_rotary_half(Small *s, Value *const *x)
{
    return rotary(s, x[0], true);
}

static Value *attention(Small *s, Value *const *x, bool causal, int64_t window)
{
    Attr attr[MAX_ATTRS] = {{.i = causal}, {.f = 0.7}, {.i = window}};
    return ir_op(&s->b, OP_attention, 3, x, attr, NULL)->out[0];
}

static Value *make_attention(Small *s, Value *const *x)
{
    return attention(s, x, false, 0);
}

static Value *make_causal(Small *s, Value *const *x)
{
    return attention(s, x, true, 0);
}

static Value *make_window(Small *s, Value *const *x)
{
    return attention(s, x, true, 2);
}

static Value *make_softcap(Small *s, Value *const *x)
{
    Attr attr[MAX_ATTRS] = {{.i = true}, {.f = 0.7}, {.i = 3}, {.f = 0.8}};
    return ir_op(&s->b, OP_attention, 3, x, attr, NULL)->out[0];
}

static Value *make_band(Small *s, Value *const *x)
{
    return attention(s, x, false, 2);
}

static Value *make_dropped(Small *s, Value *const *x)
{
    Attr name[MAX_ATTRS] = {{.s = "random"}};
    Attr attr[MAX_ATTRS] = {{.i = true}, {.f = 0.7}, {.i = 0}, {.f = 0}, {.i = 0},
                            {.f = 0.4}, {.i = 2}, {.l = {3, {2, 2, 2}}}};
    Value *args[] = {x[0], x[1], x[2],
                     ir_value(&s->b, OP_scalar, 0, NULL, name, "key")};
    return ir_op(&s->b, OP_attention, 4, args, attr, NULL)->out[0];
}

/* Segments 0 0 1 1 … of queries and 1 1 0 … of keys: some queries have no keys. */
static Value *make_segments(Small *s, Value *const *x)
{
    Attr attr[MAX_ATTRS] = {{.i = true}, {.f = 0.7}, {.i = 0}, {.f = 0.9}, {.i = true}};
    Value *args[5] = {x[0], x[1], x[2]};
    for (int i = 0; i < 2; i++) {
        int64_t n = x[i]->type.dim[1], dim[2] = {x[i]->type.dim[0], n};
        Attr size[MAX_ATTRS] = {{.i = n}}, half[MAX_ATTRS] = {{.f = i ? -0.5 : 0.5}};
        Attr from[MAX_ATTRS] = {{.f = i ? 1.7 : 0}};
        Value *at = ir_value(&s->b, OP_iota, 0, NULL, size, NULL);
        at = ir_value(&s->b, OP_scale, 1, &at, half, NULL);
        at = ir_cast(&s->b, ir_value(&s->b, OP_offset, 1, &at, from, NULL), DT_I32);
        args[3 + i] = ir_broadcast(&s->b, at, 2, dim);
    }
    return ir_op(&s->b, OP_attention, 5, args, attr, NULL)->out[0];
}

/* x[3] has the dims of the scores' bits `dims`. */
static Value *biased(Small *s, Value *const *x, int64_t dims, bool causal, double softcap)
{
    Attr attr[MAX_ATTRS] = {{.i = causal}, {.f = 0.7}, {.i = 0}, {.f = softcap},
                            [8] = {.i = dims}};
    return ir_op(&s->b, OP_attention, 4, x, attr, NULL)->out[0];
}

static Value *make_biased(Small *s, Value *const *x)
{
    return biased(s, x, 15, true, 0.8);
}

static Value *make_bias_of_heads(Small *s, Value *const *x)
{
    return biased(s, x, 14, false, 0);
}

static Value *make_bias_of_keys(Small *s, Value *const *x)
{
    return biased(s, x, 10, true, 0);
}

static Value *make_bias_of_queries(Small *s, Value *const *x)
{
    return biased(s, x, 5, false, 0);
}

static Value *make_sinks(Small *s, Value *const *x)
{
    Attr attr[MAX_ATTRS] = {{.i = true}, {.f = 0.7}, {.i = 2}};
    Op *of = ir_op(&s->b, OP_attention, 3, x, attr, NULL);
    Value *args[] = {of->out[0], of->out[1], x[3]};
    return ir_op(&s->b, OP_attention_sinks, 3, args, NULL, NULL)->out[0];
}

static Value *make_topk(Small *s, Value *const *x)
{
    Attr attr[MAX_ATTRS] = {{.i = 3}, {.i = true}};
    return ir_op(&s->b, OP_topk, 1, x, attr, NULL)->out[0];
}

/* Images of 5 x 4 elements, a kernel of 3 x 2 elements. */
static Value *convolved(Small *s, Value *const *x, int64_t stride, int64_t padding,
                        int64_t dilation, int64_t groups, int64_t rows)
{
    Attr attr[MAX_ATTRS] = {{.i = DT_F32}, {.l = {2, {stride, 1}}}, {.l = {2, {padding, 0}}},
                            {.l = {2, {dilation, 2}}}, {.i = groups}, {.l = {2, {rows, 2}}}};
    return ir_op(&s->b, OP_conv, 2, x, attr, NULL)->out[0];
}

static Value *make_conv(Small *s, Value *const *x)
{
    return convolved(s, x, 2, 1, 1, 1, 3);
}

static Value *make_conv_of_groups(Small *s, Value *const *x)
{
    return convolved(s, x, 1, 0, 2, 2, 1);
}

static Value *ternary(Small *s, OpKind kind, Value *x, Value *y, Value *z)
{
    Value *args[] = {x, y, z};
    Attr attr[MAX_ATTRS] = {{.i = DT_F32}};
    return ir_value(&s->b, kind, 3, args, attr, NULL);
}

/* Tokens x[0] [2, 3, 4] choose 2 of 4 experts by the scores x[2] [2, 3, 4], whose matrices are
 * x[1] [4, 5, 4]. Expert 2 has no rows. */
static Value *make_experts(Small *s, Value *const *x)
{
    Attr attr[MAX_ATTRS] = {{.i = 2}, {.i = true}};
    Value *mask = ir_unary(&s->b, OP_exp, x[2]);
    const double bias[] = {0, 9, -20, 0};
    Value *scores[4];
    for (int i = 0; i < 4; i++) {
        Attr of[MAX_ATTRS] = {{.i = 2}, {.i = i}, {.i = 1}};
        Value *column = ir_value(&s->b, OP_slice, 1, &mask, of, NULL);
        of[0].f = bias[i];
        scores[i] = ir_value(&s->b, OP_offset, 1, &column, of, NULL);
    }
    Attr last[MAX_ATTRS] = {{.i = 2}};
    Value *all = ir_value(&s->b, OP_concat, 4, scores, last, NULL);
    Op *top = ir_op(&s->b, OP_topk, 1, &all, attr, NULL);
    Attr limit[MAX_ATTRS] = {{.i = 4}, {.i = 3}}; /* some pairs have no row */
    Value *chosen[] = {top->out[1], top->out[1]};
    Value *ids = ir_op(&s->b, OP_limit_choices, 2, chosen, limit, NULL)->out[0];
    Op *group = ir_group_rows(&s->b, ids, (AttrList){5, {1, 1, 1, 12, 4}}, 3, NULL);
    Value *pair = group->out[0], *row = group->out[1], *ends = group->out[2];
    Value *weights = ir_unary(&s->b, OP_sigmoid, top->out[0]);
    Value *rows = ternary(s, OP_gather_rows, x[0], pair, row);
    Value *y = ir_unary(&s->b, OP_tanh, ternary(s, OP_grouped_matmul, rows, x[1], ends));
    Value *by = ternary(s, OP_gather_pairs, weights, pair, row);
    by = ir_reshape(&s->b, by, 5, (int64_t[]){1, 1, 1, 12, 1});
    Value *of_rows = ir_reshape(&s->b, ir_unary(&s->b, OP_tanh, by), 4,
                                (int64_t[]){1, 1, 1, 12});
    Value *of_pairs = ternary(s, OP_scatter_pairs, of_rows, pair, row);
    y = ternary(s, OP_combine_rows, ir_binary(&s->b, OP_mul, y, by), pair, row);
    Value *sum = ir_sum(&s->b, of_pairs, (AttrList){1, {2}}, true);
    return ir_binary(&s->b, OP_mul, y, sum);
}

static const Case cases[] = {
    {"add", make_add, {{2, {3, 4}}, {1, {4}}}, OP_add},
    {"add to a row", make_add, {{2, {1, 4}}, {3, {2, 3, 1}}}, OP_add},
    {"sub", make_sub, {{1, {1}}, {2, {3, 4}}}, OP_sub},
    {"mul", make_mul, {{2, {3, 4}}, {2, {3, 1}}}, OP_mul},
    {"div", make_div, {{2, {3, 4}}, {1, {4}}}, OP_div},
    {"maximum", make_maximum, {{2, {3, 4}}, {1, {4}}}, OP_maximum},
    {"minimum", make_minimum, {{2, {3, 4}}, {1, {4}}}, OP_minimum},
    {"select", make_select, {{2, {3, 4}}, {1, {4}}, {0, {0}}}, OP_select},
    {"neg", make_neg, {{1, {5}}}, OP_neg},
    {"scale", make_scale, {{1, {5}}}, OP_scale},
    {"offset", make_offset, {{1, {5}}}, OP_offset},
    {"power", make_power, {{1, {5}}}, OP_power},
    {"exp", make_exp, {{1, {5}}}, OP_exp},
    {"log", make_log, {{1, {5}}}, OP_log},
    {"sqrt", make_sqrt, {{1, {5}}}, OP_sqrt},
    {"rsqrt", make_rsqrt, {{1, {5}}}, OP_rsqrt},
    {"recip", make_recip, {{1, {5}}}, OP_recip},
    {"tanh", make_tanh, {{1, {5}}}, OP_tanh},
    {"sigmoid", make_sigmoid, {{1, {5}}}, OP_sigmoid},
    {"erf", make_erf, {{1, {5}}}, OP_erf},
    {"gelu", make_gelu, {{1, {5}}}, OP_gelu},
    {"sin", make_sin, {{1, {5}}}, OP_sin},
    {"cos", make_cos, {{1, {5}}}, OP_cos},
    {"abs", make_abs, {{1, {5}}}, OP_abs},
    {"relu", make_relu, {{1, {9}}}, OP_relu},
    {"cast", make_cast, {{2, {2, 3}}, {2, {3, 2}}}, OP_cast},
    {"boundary", make_boundary, {{1, {5}}}, OP_boundary},
    {"sum", make_sum, {{3, {2, 3, 3}}}, OP_sum},
    {"softmax", make_softmax, {{2, {3, 4}}}, OP_max},
    {"topk", make_topk, {{2, {3, 5}}}, OP_topk},
    {"sumsq", make_sumsq, {{2, {3, 4}}}, OP_sumsq},
    {"reshape", make_reshape, {{3, {2, 3, 4}}}, OP_reshape},
    {"broadcast", make_broadcast, {{2, {3, 1}}}, OP_broadcast},
    {"transpose", make_transpose, {{3, {2, 3, 4}}}, OP_transpose},
    {"slice", make_slice, {{2, {2, 3}}}, OP_slice},
    {"pad", make_pad, {{2, {2, 3}}}, OP_pad},
    {"concat", make_concat, {{2, {2, 3}}, {2, {2, 1}}}, OP_concat},
    {"einsum", make_einsum, {{3, {2, 3, 4}}, {2, {5, 4}}}, OP_einsum},
    {"conv", make_conv, {{4, {2, 3, 5, 4}}, {4, {2, 3, 3, 2}}}, OP_conv},
    {"conv of groups", make_conv_of_groups, {{4, {2, 4, 5, 4}}, {4, {6, 2, 3, 2}}}, OP_conv},
    {"embedding", make_embedding, {{2, {5, 3}}}, OP_embedding},
    {"experts: gather rows", make_experts, {{3, {2, 3, 4}}, {3, {4, 5, 4}}, {3, {2, 3, 4}}}, OP_gather_rows},
    {"experts: combine rows", make_experts, {{3, {2, 3, 4}}, {3, {4, 5, 4}}, {3, {2, 3, 4}}}, OP_combine_rows},
    {"experts: gather pairs", make_experts, {{3, {2, 3, 4}}, {3, {4, 5, 4}}, {3, {2, 3, 4}}}, OP_gather_pairs},
    {"experts: scatter pairs", make_experts, {{3, {2, 3, 4}}, {3, {4, 5, 4}}, {3, {2, 3, 4}}}, OP_scatter_pairs},
    {"experts: grouped matmul", make_experts, {{3, {2, 3, 4}}, {3, {4, 5, 4}}, {3, {2, 3, 4}}}, OP_grouped_matmul},
    {"rotary", make_rotary, {{4, {2, 3, 2, 4}}}, OP_rotary},
    {"rotary half", make_rotary_half, {{4, {2, 3, 2, 4}}}, OP_rotary},
    {"attention",
     make_attention,
     {{4, {1, 3, 4, 2}}, {4, {1, 3, 2, 2}}, {4, {1, 3, 2, 3}}},
     OP_attention},
    {"causal attention",
     make_causal,
     {{4, {2, 3, 2, 2}}, {4, {2, 3, 2, 2}}, {4, {2, 3, 2, 2}}},
     OP_attention},
    {"causal attention with a window",
     make_window,
     {{4, {1, 5, 2, 2}}, {4, {1, 5, 1, 2}}, {4, {1, 5, 1, 3}}},
     OP_attention},
    {"attention with a softcap",
     make_softcap,
     {{4, {1, 5, 2, 2}}, {4, {1, 5, 1, 2}}, {4, {1, 5, 1, 3}}},
     OP_attention},
    {"attention with a window",
     make_band,
     {{4, {1, 5, 2, 2}}, {4, {1, 5, 2, 2}}, {4, {1, 5, 2, 2}}},
     OP_attention},
    {"attention with dropout",
     make_dropped,
     {{4, {2, 3, 4, 2}}, {4, {2, 3, 2, 2}}, {4, {2, 3, 2, 3}}},
     OP_attention},
    {"attention with segments",
     make_segments,
     {{4, {2, 3, 4, 2}}, {4, {2, 3, 2, 2}}, {4, {2, 3, 2, 3}}},
     OP_attention},
    {"attention with a bias",
     make_biased,
     {{4, {2, 3, 4, 2}}, {4, {2, 3, 2, 2}}, {4, {2, 3, 2, 3}}, {4, {2, 4, 3, 3}}},
     OP_attention},
    {"attention with a bias of heads",
     make_bias_of_heads,
     {{4, {2, 3, 4, 2}}, {4, {2, 5, 2, 2}}, {4, {2, 5, 2, 3}}, {3, {4, 3, 5}}},
     OP_attention},
    {"attention with a bias of heads and keys",
     make_bias_of_keys,
     {{4, {2, 3, 4, 2}}, {4, {2, 3, 2, 2}}, {4, {2, 3, 2, 3}}, {2, {4, 3}}},
     OP_attention},
    {"attention with a bias of sequences and queries",
     make_bias_of_queries,
     {{4, {2, 3, 2, 2}}, {4, {2, 5, 1, 2}}, {4, {2, 5, 1, 3}}, {2, {2, 3}}},
     OP_attention},
    {"attention with sinks",
     make_sinks,
     {{4, {2, 5, 4, 2}}, {4, {2, 5, 2, 2}}, {4, {2, 5, 2, 3}}, {1, {4}}},
     OP_attention_sinks},
};
enum { CASES = sizeof cases / sizeof *cases };

static void run_case(Check *c, const Case *k)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    Small s = small_new();
    Value *x[4] = {NULL};

    for (int i = 0; i < 4; i++)
        x[i] =
            small_param(&s, names[i], true, 0, k->shape[i].n, k->shape[i].dim);
    small_loss(&s, k->make(&s, x));
    const char *fault = small_check_gradients(&s);
    if (fault != NULL)
        printf("%s: %s\n", k->name, fault);
    CHECK(c, fault == NULL);
    small_free(&s);
}

/* Two equal maxima share the gradient. */
static void check_tie(Check *c)
{
    Small s = small_new();
    Value *a = small_param(&s, "a", true, 0, DIMS(3));
    small_loss(&s, ir_binary(&s.b, OP_maximum, a, a));
    const char *fault = small_check_gradients(&s);
    CHECK_TEXT(c, fault, NULL);
    small_free(&s);
}

static void check_max_is_refused(Check *c)
{
    Small s = small_new();
    AttrList last = {1, {1}};
    Value *a = small_param(&s, "a", true, 0, DIMS(3, 4));
    small_loss(&s, ir_max(&s.b, a, last, false));
    pass_autodiff(s.p, NULL);
    CHECK(c, diag_error_count(s.p->diag) == 1);
    small_free(&s);
}

/* A parameter that the loss does not depend on has no gradient and no
 * update. */
static void check_unused(Check *c)
{
    Small s = small_new();
    Value *a = small_param(&s, "a", true, 0, DIMS(3));
    Value *b = small_param(&s, "b", true, 0, DIMS(3));
    Value *fixed = small_param(&s, "fixed", false, 0, DIMS(3));
    Value *stopped = ir_unary(&s.b, OP_detach, b);
    Value *y = ir_binary(&s.b, OP_mul, a, stopped);
    small_loss(&s, ir_binary(&s.b, OP_mul, y, fixed));
    pass_autodiff(s.p, NULL);
    CHECK(c, small_count(s.p, OP_update) == 1);
    CHECK(c, small_count(s.p, OP_finish_grad) == 1);
    CHECK(c, s.p->param.n == 4);
    small_free(&s);
}

/* Every op with a gradient rule must have a case. */
static void check_cover(Check *c)
{
    for (int kind = 0; kind < OP_COUNT; kind++) {
        bool covered = gradient_rule((OpKind)kind) == NULL;
        for (int i = 0; i < CASES; i++)
            covered |= (int)cases[i].covers == kind;
        if (!covered)
            printf("no case for %s\n", op_info((OpKind)kind)->name);
        CHECK(c, covered);
    }
}

int main(void)
{
    Check c = {0};
    for (int i = 0; i < CASES; i++)
        run_case(&c, &cases[i]);
    check_tie(&c);
    check_max_is_refused(&c);
    check_unused(&c);
    check_cover(&c);
    return check_end(&c);
}
