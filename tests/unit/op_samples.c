/* op_samples.c: the table of sample operands of every operator (op_samples.h).
 * Dims that may be split are multiples of 4, so that two axes of size 2 can
 * both split them. */
#include "tests/unit/op_samples.h"

#include <math.h>

#include "tests/interp/routing.h"

/* clang-format off */
#define UNARY(op, range, ...) \
    {OP_##op, 1, {{range, 2, {4, 8}, 0, false}}, {__VA_ARGS__}}
/* Operands of equal shape, an additional outer dim, a dim of size 1, a scalar.
 */
#define BINARY(op, a, b) \
    {OP_##op, 2, {{a, 2, {4, 8}, 0, false}, {b, 2, {4, 8}, 0, false}}, {{0}}}, \
    {OP_##op, 2, {{a, 1, {8}, 0, false}, {b, 2, {4, 8}, 0, false}}, {{0}}},    \
    {OP_##op, 2, {{a, 2, {4, 1}, 0, false}, {b, 2, {1, 8}, 0, false}}, {{0}}}, \
    {OP_##op, 2, {{a, 3, {4, 2, 4}, 0, false}, {b, 0, {0}, 0, false}}, {{0}}}
#define DIMS(...) {.l = {sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
                         {__VA_ARGS__}}}
#define T1(range, a) {range, 1, {a}, 0, false}
#define T2(range, a, b) {range, 2, {a, b}, 0, false}
#define T3(range, a, b, c) {range, 3, {a, b, c}, 0, false}
#define T4(range, a, b, c, d) {range, 4, {a, b, c, d}, 0, false}
#define CONSTANT2(range, a, b) {range, 2, {a, b}, 0, true}
#define IDS(below, a, b) {INDEX, 2, {a, b}, below, true}
#define EINSUM(x, y, spec) {OP_einsum, 2, {x, y}, {{.s = spec}, {.i = DT_F32}}}
#define EPILOGUE(what, third, spec) \
    {OP_einsum_##what, 3, {T3(ANY, 4, 4, 8), T2(ANY, 12, 8), third}, \
     {{.s = spec}, {.i = DT_F32}}}
#define ATTENTION(s, t, h, k, causal) \
    {OP_attention, 3, {T4(ANY, 4, s, h, 2), T4(ANY, 4, t, k, 2),             \
                       T4(ANY, 4, t, k, 6)}, {{.i = causal}, {.f = 0.7}}},   \
    {OP_attention_grad, 6, {T4(ANY, 4, s, h, 6), T4(ANY, 4, s, h, 2),        \
                            T4(ANY, 4, t, k, 2), T4(ANY, 4, t, k, 6),        \
                            T4(ANY, 4, s, h, 6), T3(ANY, 4, h, s)},          \
     {{.i = causal}, {.f = 0.7}}}
#define DROPPED(b, s, t, h, k, causal) \
    {OP_attention, 4, {T4(ANY, b, s, h, 2), T4(ANY, b, t, k, 2),     \
                               T4(ANY, b, t, k, 6),                          \
                               {KEY, 0, {0}, 0, true}},                      \
     {{.i = causal}, {.f = 0.7}, {.i = 0}, {.f = 0}, {.i = 0}, {.f = 0.3}, {.i = 9},         \
      DIMS(b, k, h / k)}},  \
    {OP_attention_grad, 7,                                           \
     {T4(ANY, b, s, h, 6), T4(ANY, b, s, h, 2), T4(ANY, b, t, k, 2),         \
      T4(ANY, b, t, k, 6), T4(ANY, b, s, h, 6), T3(ANY, b, h, s),            \
      {KEY, 0, {0}, 0, true}},                                               \
     {{.i = causal}, {.f = 0.7}, {.i = 0}, {.f = 0}, {.i = 0}, {.f = 0.3}, {.i = 9},         \
      DIMS(b, k, h / k)}}
#define SEGMENTS(b, s, t, h, k, causal) \
    {OP_attention, 5, {T4(ANY, b, s, h, 2), T4(ANY, b, t, k, 2), T4(ANY, b, t, k, 6),       \
                       IDS(2, b, s), IDS(2, b, t)},                                         \
     {{.i = causal}, {.f = 0.7}, {.i = 0}, {.f = 0}, {.i = 1}}},                            \
    {OP_attention_grad, 8,                                                                  \
     {T4(ANY, b, s, h, 6), T4(ANY, b, s, h, 2), T4(ANY, b, t, k, 2), T4(ANY, b, t, k, 6),   \
      T4(ANY, b, s, h, 6), T3(ANY, b, h, s), IDS(2, b, s), IDS(2, b, t)},                   \
     {{.i = causal}, {.f = 0.7}, {.i = 0}, {.f = 0}, {.i = 1}}}
/* `bias`: a tensor of the dims `dims`, which include s and t if `grad`. */
#define BIASED(b, s, t, h, k, causal, dims, bias) \
    {OP_attention, 4, {T4(ANY, b, s, h, 2), T4(ANY, b, t, k, 2), T4(ANY, b, t, k, 6), bias}, \
     {{.i = causal}, {.f = 0.7}, [8] = {.i = dims}}},                                       \
    {OP_attention_grad, 7,                                                                  \
     {T4(ANY, b, s, h, 6), T4(ANY, b, s, h, 2), T4(ANY, b, t, k, 2), T4(ANY, b, t, k, 6),   \
      T4(ANY, b, s, h, 6), T3(ANY, b, h, s), bias},                                         \
     {{.i = causal}, {.f = 0.7}, [8] = {.i = dims}}}
#define BIASED_GRAD(b, s, t, h, k, causal, dims, bias) \
    {OP_attention_bias_grad, 7,                                                             \
     {T4(ANY, b, s, h, 6), T4(ANY, b, s, h, 2), T4(ANY, b, t, k, 2), T4(ANY, b, t, k, 6),   \
      T4(ANY, b, s, h, 6), T3(ANY, b, h, s), bias},                                         \
     {{.i = causal}, {.f = 0.7}, [8] = {.i = dims}}}
/* n images of 6 x 4 elements and g groups, of c channels of x and k of y; a kernel of i x 2
 * elements; `stride` and padding p of rows, 1 of columns; `rows` of y. */
#define CONV_SAMPLE(n, g, c, k, i, stride, p, rows)                                          \
    {OP_conv, 2, {T4(ANY, n, g * c, 6, 4), T4(ANY, g * k, c, i, 2)},                          \
     CONV_ATTRS(stride, p, g, rows, 5)},                                                     \
    {OP_conv_grad_x, 2, {T4(ANY, n, g * k, rows, 5), T4(ANY, g * k, c, i, 2)},                \
     CONV_ATTRS(stride, p, g, 6, 4)},                                                        \
    {OP_conv_grad_weight, 2, {T4(ANY, n, g * k, rows, 5), T4(ANY, n, g * c, 6, 4)},           \
     CONV_ATTRS(stride, p, g, i, 2)}
/* 4 x 4 tokens of width 8 with 2 choices each, in 2 x 2 groups; 2 shards of 2 experts, with 4
 * rows of the 4 pairs that choose them, or with 3 rows. */
#define TOKENS T3(ANY, 4, 4, 8)
#define ROUND {INDEX, 0, {0}, 2, true}
#define CHOICES T3(ANY, 4, 4, 2)
#define ROWS(rows, width) {ANY, 5, {2, 2, 2, rows, width}, 0, false}
#define ROUTED(rows, uneven) \
    {PAIR, 4, {2, 2, 2, rows}, uneven, true}, {ROW, 3, {4, 4, 2}, uneven, true}
#define ENDED(uneven) {ENDS, 4, {2, 2, 2, 2}, uneven, true}
#define CONV_ATTRS(stride, p, g, h, w)                                                       \
    {{.i = DT_F32}, DIMS(stride, 1), DIMS(p, 1), DIMS(1, 1), {.i = g}, DIMS(h, w)}
#define ROTARY(half, inverse) \
    {OP_rotary, 3, {T4(ANY, 4, 8, 4, 6), CONSTANT2(ANY, 8, 3),               \
                    CONSTANT2(ANY, 8, 3)}, {{.i = half}, {.i = inverse}}}
#define REDUCE(op, keep) \
    {OP_##op, 1, {T3(ANY, 4, 8, 6)}, {DIMS(1), {.i = keep}}},                \
    {OP_##op, 1, {T3(ANY, 4, 8, 4)}, {DIMS(0, 2), {.i = keep}}}

const OpSample op_sample[] = {
    BINARY(add, ANY, ANY), BINARY(sub, ANY, ANY), BINARY(mul, ANY, ANY),
    BINARY(div, ANY, POSITIVE), BINARY(maximum, ANY, ANY),
    BINARY(minimum, ANY, ANY), BINARY(equal, MASK, MASK),
    BINARY(less, ANY, ANY),
    {OP_select, 3, {CONSTANT2(MASK, 4, 8), T2(ANY, 4, 8), T2(ANY, 4, 8)},
     {{0}}},
    {OP_select, 3, {CONSTANT2(MASK, 4, 1), T2(ANY, 4, 8), T1(ANY, 8)}, {{0}}},
    UNARY(neg, ANY, {0}), UNARY(scale, ANY, {.f = 0.7}),
    UNARY(offset, ANY, {.f = 0.7}), UNARY(power, POSITIVE, {.f = 1.7}),
    UNARY(exp, ANY, {0}), UNARY(log, POSITIVE, {0}),
    UNARY(sqrt, POSITIVE, {0}), UNARY(rsqrt, POSITIVE, {0}),
    UNARY(recip, POSITIVE, {0}), UNARY(tanh, ANY, {0}),
    UNARY(sigmoid, ANY, {0}), UNARY(erf, ANY, {0}), UNARY(sin, ANY, {0}),
    UNARY(gelu, ANY, {0}), BINARY(gelu_grad, ANY, ANY),
    UNARY(cos, ANY, {0}), UNARY(abs, AWAY, {0}), UNARY(floor, AWAY, {0}),
    UNARY(relu, AWAY, {0}), UNARY(step, AWAY, {0}), UNARY(cast, ANY, {.i = DT_BF16}),
    UNARY(detach, ANY, {0}), UNARY(copy, ANY, {0}),
    UNARY(boundary, ANY, {.s = "m"}, {.s = "in0"}, {.i = 0}),

    {OP_full, 0, {{0}}, {{.f = 2.5}, {.i = DT_F32}, DIMS(4, 8)}},
    {OP_full, 0, {{0}}, {{.f = 0}, {.i = DT_F32}, DIMS(4, 8)}},
    {OP_zeros, 0, {{0}}, {{.i = DT_F32}, {.l = {0}}, DIMS(4, 8)}},
    {OP_iota, 0, {{0}}, {{.i = 8}}},
    {OP_random, 1, {{KEY, 0, {0}, 0, true}}, {{.i = 3}, DIMS(4, 8), DIMS(4, 8)}},
    {OP_random, 1, {{KEY, 0, {0}, 0, true}},
     {{.i = 5}, DIMS(4, 1, 8, 3), DIMS(4, 1, 8, 3)}},

    REDUCE(sum, 0), REDUCE(sum, 1), REDUCE(max, 0), REDUCE(max, 1),
    {OP_sumsq, 1, {T2(ANY, 4, 8)}, {{0}}},

    {OP_reshape, 1, {T3(ANY, 4, 8, 6)}, {DIMS(4, 48)}},
    {OP_reshape, 1, {T2(ANY, 4, 48)}, {DIMS(4, 8, 6)}},
    {OP_reshape, 1, {T2(ANY, 8, 4)}, {DIMS(32)}},
    {OP_reshape, 1, {T2(ANY, 4, 6)}, {DIMS(8, 3)}},
    {OP_reshape, 1, {T3(ANY, 4, 1, 8)}, {DIMS(4, 8, 1)}},
    {OP_broadcast, 1, {T2(ANY, 4, 1)}, {DIMS(8, 4, 4)}},
    {OP_broadcast, 1, {{ANY, 0, {0}, 0, false}}, {DIMS(4, 4)}},
    {OP_transpose, 1, {T3(ANY, 4, 6, 8)}, {DIMS(2, 0, 1)}},
    {OP_slice, 1, {T3(ANY, 4, 8, 4)}, {{.i = 1}, {.i = 2}, {.i = 4}}},
    {OP_pad, 1, {T3(ANY, 4, 5, 4)}, {{.i = 1}, {.i = 1}, {.i = 2}}},
    {OP_concat, 3, {T2(ANY, 4, 4), T2(ANY, 4, 8), T2(ANY, 4, 4)},
     {{.i = 1}}},
    {OP_concat, 2, {T2(ANY, 4, 8), T2(ANY, 8, 8)}, {{.i = 0}}},

    EINSUM(T3(ANY, 4, 4, 8), T2(ANY, 12, 8), "bsk,fk->bsf"),
    EINSUM(T3(ANY, 4, 4, 8), T3(ANY, 4, 4, 12), "bsk,bsf->fk"),
    EINSUM(T3(ANY, 4, 4, 8), T3(ANY, 4, 8, 8), "bsk,btk->bst"),
    EINSUM(T3(ANY, 4, 4, 8), T1(ANY, 8), "abk,k->a"),
    EINSUM(T1(ANY, 4), T1(ANY, 8), "a,b->ba"),
    EPILOGUE(bias, T1(ANY, 12), "bsk,fk,f->bsf"),
    EPILOGUE(add, T3(ANY, 4, 4, 12), "bsk,fk,bsf->bsf"),
    EPILOGUE(gelu, T1(ANY, 12), "bsk,fk,f->bsf,bsf"),
    EPILOGUE(gelu_grad, T3(ANY, 4, 4, 12), "bsk,fk,bsf->bsf"),
    {OP_einsum_gelu, 2, {T3(ANY, 4, 4, 8), T2(ANY, 12, 8)},
     {{.s = "bsk,fk->bsf,bsf"}, {.i = DT_F32}}},
    {OP_einsum_add, 4, {T3(ANY, 4, 4, 8), T2(ANY, 12, 8), T3(ANY, 4, 4, 12),
                        T1(ANY, 12)}, {{.s = "bsk,fk,bsf,f->bsf"}, {.i = DT_F32}}},
    {OP_einsum_bias_grad, 3, {T3(ANY, 4, 4, 12), T3(ANY, 4, 4, 8),
                              T2(ANY, 12, 8)},
     {{.s = "bsf,bsk,fk->fk,f"}, {.i = DT_F32}}},
    {OP_einsum_bias_grad, 2, {T3(ANY, 4, 4, 12), T3(ANY, 4, 4, 8)},
     {{.s = "bsf,bsk->fk,f"}, {.i = DT_F32}}},

    {OP_embedding, 2, {T2(ANY, 8, 4), IDS(8, 4, 6)}, {{0}}},
    {OP_embedding_grad, 2, {T3(ANY, 4, 6, 4), IDS(8, 4, 6)},
     {{.i = 8}}},
    {OP_embedding_add, 3, {T2(ANY, 8, 4), T3(ANY, 4, 6, 4), IDS(8, 4, 6)},
     {{0}}},
    {OP_onehot, 1, {IDS(8, 4, 6)}, {{.i = 8}}},
    {OP_topk, 1, {T2(ANY, 4, 6)}, {{.i = 3}, {.i = 1}}},
    {OP_topk, 1, {T3(ANY, 4, 8, 5)}, {{.i = 5}, {.i = 0}}},
    {OP_topk, 1, {T2(ANY, 8, 7)}, {{.i = 4}, {.i = 0}}},
    {OP_topk_grad, 2, {T3(ANY, 4, 8, 1), {INDEX, 3, {4, 8, 1}, 6, true}}, {{.i = 6}}},
    {OP_limit_choices, 2, {{INDEX, 3, {4, 8, 2}, 3, true}, {INDEX, 3, {4, 8, 2}, 3, true}},
     {{.i = 3}, {.i = 3}}},
    {OP_limit_choices, 2, {{INDEX, 3, {8, 4, 1}, 4, true}, {INDEX, 3, {8, 4, 1}, 4, true}},
     {{.i = 2}, {.i = 1}}},
    {OP_group_rows, 2, {{INDEX, 3, {4, 4, 2}, 4, true}, ROUND}, {DIMS(2, 2, 2, 3, 2)}},
    {OP_group_rows, 2, {{INDEX, 3, {4, 4, 2}, 4, true}, ROUND}, {DIMS(1, 1, 4, 32, 1)}},
    {OP_gather_rows, 3, {TOKENS, ROUTED(4, 0)}, {{0}}},
    {OP_combine_rows, 3, {ROWS(4, 8), ROUTED(4, 0)}, {{0}}},
    {OP_gather_pairs, 3, {CHOICES, ROUTED(4, 0)}, {{0}}},
    {OP_scatter_pairs, 3, {{ANY, 4, {2, 2, 2, 4}, 0, false}, ROUTED(4, 0)}, {{0}}},
    {OP_grouped_matmul, 3, {ROWS(4, 8), T3(ANY, 4, 4, 8), ENDED(0)}, {{.i = DT_F32}}},
    {OP_grouped_matmul_grad_rows, 3, {ROWS(4, 4), T3(ANY, 4, 4, 8), ENDED(0)},
     {{.i = DT_F32}}},
    {OP_grouped_matmul_grad_rows, 3, {ROWS(3, 4), T3(ANY, 4, 4, 8), ENDED(1)},
     {{.i = DT_F32}}},
    {OP_grouped_matmul_grad_weight, 3, {ROWS(3, 4), ROWS(3, 8), ENDED(1)}, {{.i = DT_F32}}},
    CONV_SAMPLE(4, 1, 4, 8, 3, 1, 1, 6), CONV_SAMPLE(2, 1, 8, 4, 2, 2, 0, 3),
    CONV_SAMPLE(4, 4, 2, 1, 3, 2, 1, 3), CONV_SAMPLE(2, 2, 4, 4, 1, 1, 0, 6),
    CONV_SAMPLE(3, 8, 1, 1, 3, 1, 2, 8), CONV_SAMPLE(1, 4, 1, 4, 4, 3, 1, 2),
    ROTARY(0, 0), ROTARY(1, 0), ROTARY(0, 1), ROTARY(1, 1),
    ATTENTION(4, 4, 4, 2, 1),
    ATTENTION(4, 4, 8, 4, 1), ATTENTION(4, 4, 8, 4, 0),
    ATTENTION(4, 6, 8, 4, 0),
    ATTENTION(8, 8, 4, 2, 1), SEGMENTS(2, 8, 8, 4, 2, 1), DROPPED(2, 8, 8, 4, 2, 0),
    DROPPED(4, 4, 4, 8, 4, 1), DROPPED(1, 3, 6, 8, 4, 0),
    DROPPED(2, 4, 4, 4, 2, 1), SEGMENTS(4, 4, 4, 8, 4, 1), SEGMENTS(2, 3, 6, 4, 2, 0),
    BIASED(4, 4, 4, 8, 4, 1, 15, T4(ANY, 4, 8, 4, 4)), BIASED(2, 3, 6, 4, 2, 0, 10, T2(ANY, 4, 6)),
    BIASED(4, 4, 6, 8, 4, 0, 9, T2(ANY, 4, 6)),
    {OP_attention_sinks, 3, {T4(ANY, 4, 6, 8, 3), T3(ANY, 4, 8, 6), T1(ANY, 8)}, {{0}}},
    BIASED_GRAD(4, 4, 4, 8, 4, 1, 15, T4(ANY, 4, 8, 4, 4)),
    BIASED_GRAD(4, 4, 4, 8, 4, 1, 14, T3(ANY, 8, 4, 4)),
    BIASED_GRAD(4, 3, 6, 8, 4, 0, 12, T2(ANY, 3, 6)),
};
/* clang-format on */

const int op_sample_count = sizeof op_sample / sizeof *op_sample;

bool sample_is_integer(const SampleArg *arg)
{
    return arg->range >= INDEX;
}

Type sample_type(const SampleArg *arg)
{
    Type t = {.dtype = arg->range == KEY           ? DT_I64
                       : sample_is_integer(arg) ? DT_I32
                                                : DT_F32,
              .ndim = arg->ndim};
    for (int d = 0; d < arg->ndim; d++)
        t.dim[d] = arg->dim[d];
    return t;
}

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double number(const SampleArg *arg, uint64_t *state)
{
    uint64_t bits = next(state);
    double u = (double)(bits >> 11) / 9007199254740992.0;
    switch (arg->range) {
    case ANY:
        return 3 * u - 1.5;
    case POSITIVE:
        return 0.5 + 1.5 * u;
    case AWAY:
        return bits & 1 ? 0.2 + u : -0.2 - u;
    case MASK:
        return bits & 1;
    case KEY:
        return (double)(bits >> 11);
    case PAIR: case ROW: case ENDS: /* sample_routing */
        break;
    case INDEX:
        return floor(u * (double)arg->below);
    }
    return 0;
}

/* The choices of the two tokens of groups of 2 x 2 tokens: if `uneven`, all of them choose
 * expert 0 and most expert 1, and shard 1 has no rows of expert 2. Else the shards have equal
 * numbers of rows. */
static void choose(bool uneven, int64_t group, double ids[8])
{
    for (int64_t token = 0; token < 4; token++) {
        ids[2 * token] = uneven ? 0 : (double)((token + group) % 2);
        ids[2 * token + 1] = uneven ? (token == group ? 3 : 1) : (double)(3 - token / 2);
    }
}

/* The result `range` of group_rows for the choices. */
static void sample_routing(const SampleArg *arg, double *x)
{
    enum { B = 4, S = 4, K = 2, G = 2, SHARDS = 2, EXPERTS = 2, MOST_ROWS = 4 };
    Routing r = {.pairs = B / G * S / G * K, .shards = SHARDS, .all = SHARDS,
                 .rows = arg->below ? MOST_ROWS - 1 : MOST_ROWS, .experts = EXPERTS};
    for (int64_t group = 0; group < G * G; group++) {
        double ids[8], pair[SHARDS * MOST_ROWS], row[8], ends[SHARDS * EXPERTS], needed[SHARDS];
        choose(arg->below, group, ids);
        route(&r, ids, pair, row, ends, needed);
        const double *from = arg->range == PAIR ? pair : ends;
        int64_t n = r.shards * (arg->range == PAIR ? r.rows : r.experts);
        for (int64_t i = 0; i < n && arg->range != ROW; i++)
            x[group * n + i] = from[i];
        for (int64_t p = 0; p < r.pairs && arg->range == ROW; p++) {
            int64_t b = group / G * 2 + p / K / 2, s = group % G * 2 + p / K % 2;
            x[(b * S + s) * K + p % K] = row[p];
        }
    }
}

void sample_numbers(const SampleArg *arg, uint64_t seed, double *x)
{
    Type t = sample_type(arg);
    if (arg->range > KEY)
        sample_routing(arg, x);
    for (int64_t i = 0; i < type_elements(&t) && arg->range <= KEY; i++)
        x[i] = number(arg, &seed);
}

const char *sample_text(Arena *a, const OpSample *s)
{
    Out o;
    out_init(&o, a);
    out(&o, "%s", op_info(s->kind)->name);
    if (op_is_einsum(s->kind))
        out(&o, " %s", s->attr[0].s);
    for (int i = 0; i < s->nargs; i++) {
        out(&o, "%s[", i ? ", " : " ");
        for (int d = 0; d < s->arg[i].ndim; d++)
            out(&o, "%s%lld", d ? ", " : "", (long long)s->arg[i].dim[d]);
        out(&o, "]");
    }
    return o.text;
}
