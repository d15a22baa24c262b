/* runtime_attention.c: compares attention and its gradient of the CPU runtime
 * (parc_attention, parc_attention_grad) with a simple computation in double
 * precision, and checks that the bits of the results do not depend on the
 * number of threads; and rings of ranks that have parts of the sequences. */
#include <float.h>
#include <math.h>
#include <omp.h>

#include "runtime/common/message.h"
#include "runtime/common/type.h"
#include "runtime/rt.h"
#include "tests/unit/attention_reference.h"
#include "tests/unit/attention_ring.h"
#include "tests/unit/runtime_tools.h"

static const double rounding[] = {[PARC_BF16] = 0x1p-8, [PARC_F16] = 0x1p-11, [PARC_F32] = 0};

/* Converts x to the type and rounds x itself to the same random_floats. */
static void *typed(ParcType type, float *x, int64_t n)
{
    void *to = rt_allocate((size_t)n * sizeof *x);
    rt_narrow(type, to, x, n);
    rt_widen(x, type, to, n);
    return to;
}

/* AttentionResults of a type as floats. */
static void widen(ParcType type, float *x, int64_t n)
{
    float *from = rt_allocate((size_t)n * sizeof *x);
    memcpy(from, x, (size_t)n * sizeof *x);
    rt_widen(x, type, from, n);
    free(from);
}

static AttentionResults run(ParcRt *rt, const ParcAttention *a, void *const in[4])
{
    AttentionSizes n = attention_sizes(a);
    AttentionResults r = {random_floats(n.o, 9), random_floats(n.lse, 9), random_floats(n.q, 9),
                 random_floats(n.k, 9), random_floats(n.v, 9), random_floats(n.bias + 1, 9)};
    size_t forward = (size_t)parc_attention_scratch(a, false, rt->threads);
    size_t backward = (size_t)parc_attention_scratch(a, true, rt->threads);
    float *scratch = rt_allocate(forward);
    omp_set_num_threads(rt->threads);
    parc_attention(rt, a, r.o, r.lse, in[0], in[1], in[2], scratch);
    free(scratch);
    scratch = rt_allocate(backward);
    parc_attention_grad(rt, a, r.dq, r.dk, r.dv, in[3], in[0], in[1], in[2],
                        r.o, r.lse, scratch);
    if (a->bias_dims >> 2 == 3)
        parc_attention_bias_grad(rt, a, r.dbias, in[3], in[0], in[1], in[2], r.o, r.lse,
                                 scratch);
    free(scratch);
    widen(a->type, r.o, n.o);
    widen(a->type, r.dq, n.q);
    widen(a->type, r.dk, n.k);
    widen(a->type, r.dv, n.v);
    return r;
}

static void free_results(AttentionResults *r)
{
    free(r->o);
    free(r->lse);
    free(r->dq);
    free(r->dk);
    free(r->dv);
    free(r->dbias);
}

/* Compares the rings of n ranks with attention to whole sequences. */
static void compare_rings(Check *c, const ParcAttention *a, const AttentionReference *x, void *const in[4])
{
    AttentionSizes n = attention_sizes(a);
    ParcRt one = {.threads = 1};
    double e = rounding[a->type];
    if (a->s != a->t || a->bias_dims || a->all_s)
        return;
    for (int i = 0; i < 8; i++) {
        int ranks = 2 + i / 2;
        bool zigzag = i % 2;
        if (a->s % (ranks * (1 + zigzag)))
            continue;
        AttentionResults r = ring_results(&one, a, in, ranks, zigzag);
        for (int64_t k = 0; k < n.lse; k++)
            r.lse[k] = r.lse[k] <= -1e30f ? 0 : r.lse[k];
        CHECK(c, relative_distance(r.o, x->o, n.o) < 2e-6 + e / 64);
        CHECK(c, relative_distance(r.lse, x->lse, n.lse) < 2e-6);
        CHECK(c, relative_distance(r.dq, x->dq, n.q) < 4e-6 + 2 * e);
        CHECK(c, relative_distance(r.dk, x->dk, n.k) < 4e-6 + 2 * e);
        CHECK(c, relative_distance(r.dv, x->dv, n.v) < 4e-6 + 2 * e);
        free_results(&r);
    }
}

/* Both passes round their results; the backward pass also reads a rounded o. */
static void compare(Check *c, const ParcAttention *shape, ParcType type)
{
    ParcAttention own = *shape;
    const ParcAttention *a = &own;
    own.type = type;
    AttentionSizes n = attention_sizes(a);
    float *q = random_floats(n.q, 1), *k = random_floats(n.k, 2), *v = random_floats(n.v, 3);
    float *d_o = random_floats(n.o, 4);
    void *in[] = {typed(type, q, n.q), typed(type, k, n.k),
                  typed(type, v, n.v), typed(type, d_o, n.o)};
    AttentionReference x = {a, q, k, v, d_o, zero_doubles(n.o), zero_doubles(n.lse), zero_doubles(n.q),
               zero_doubles(n.k), zero_doubles(n.v), zero_doubles(n.bias + 1), zero_doubles(a->t), zero_doubles(a->t)};
    ParcRt one = {.threads = 1}, two = {.threads = 2};
    for (int64_t i = 0; i < a->b * a->kv * a->g * a->s; i++)
        attention_reference(&x, i / (a->kv * a->g * a->s), i / a->s % (a->kv * a->g),
                  i % a->s);
    AttentionResults r = run(&one, a, in), r2 = run(&two, a, in);
    double e = rounding[type];
    CHECK(c, relative_distance(r.o, x.o, n.o) < 2e-6 + e);
    CHECK(c, relative_distance(r.lse, x.lse, n.lse) < 2e-6);
    CHECK(c, relative_distance(r.dq, x.dq, n.q) < 4e-6 + 2 * e);
    CHECK(c, relative_distance(r.dk, x.dk, n.k) < 4e-6 + 2 * e);
    CHECK(c, relative_distance(r.dv, x.dv, n.v) < 4e-6 + 2 * e);
    if (a->bias_dims >> 2 == 3) {
        /* A single score: its dp and the rounded do · o nearly cancel. */
        CHECK(c, relative_distance(r.dbias, x.dbias, n.bias) < 4e-6 + 4 * e);
        CHECK(c, memcmp(r.dbias, r2.dbias, (size_t)n.bias * 4) == 0);
    }
    CHECK(c, memcmp(r.o, r2.o, (size_t)n.o * 4) == 0);
    CHECK(c, memcmp(r.lse, r2.lse, (size_t)n.lse * 4) == 0);
    CHECK(c, memcmp(r.dq, r2.dq, (size_t)n.q * 4) == 0);
    CHECK(c, memcmp(r.dk, r2.dk, (size_t)n.k * 4) == 0);
    CHECK(c, memcmp(r.dv, r2.dv, (size_t)n.v * 4) == 0);
    compare_rings(c, a, &x, in);
    free_results(&r);
    free_results(&r2);
    void *all[] = {x.o,   x.lse, x.dq,  x.dk,  x.dv, x.dbias, x.p, x.dp, in[0],
                   in[1], in[2], in[3], q,     k,    v,   d_o};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* ---- cases --------------------------------------------------------------- */

#define ALL_KEYS 0, 0, NULL
#define ALL_QUERIES 0, 0, 0, ALL_KEYS
#define NO_SEGMENTS false, NULL, NULL, 0, NULL, ALL_QUERIES
#define NO_DROPOUT 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, NO_SEGMENTS
#define PLAIN 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, NULL, 0, NULL
#define WINDOW(n) 0, 0, NULL, NULL, NULL, NULL, 0, 0, n, 0, NO_SEGMENTS
#define SOFTCAP(c, n) 0, 0, NULL, NULL, NULL, NULL, 0, 0, n, c, NO_SEGMENTS
#define SEGMENTS(c, n) 0, 0, NULL, NULL, NULL, NULL, 0, 0, n, c, true, query, key, 0, NULL, ALL_QUERIES
#define BIAS(c, n, dims) \
    0, 0, NULL, NULL, NULL, NULL, 0, 0, n, c, false, NULL, NULL, dims, bias, ALL_QUERIES

/* Windows whose edges cross blocks of keys and queries at every relative_distance, of a sequence and of
 * two pieces of it, with dropout. */
static void ragged_windows(Check *c)
{
    for (int64_t window = 2; window < 200; window += 5)
        for (int i = 0; i < 4; i++) {
            int64_t all = i < 2 ? 0 : 211, s = i < 2 ? 211 : 90;
            const ParcAttention a = {
                1, s, 211, 1, 1 + i / 2, 20, 12, i % 2 == 0, false, 0.3f, PARC_F32, i == 3 ? 0.5f : 0,
                0, NULL, NULL, NULL, NULL, 2, 2, window, 0, false, NULL, NULL, 0, NULL, all,
                i < 2 ? 0 : 19, i < 2 ? 0 : 130, ALL_KEYS};
            compare(c, &a, window % 2 ? PARC_F32 : PARC_BF16);
        }
}

/* The root of the mean square of the differences, after both are rounded to the type. */
static double rounded_error(ParcType type, const float *is, const double *should, int64_t n)
{
    float *x = rt_allocate((size_t)n * sizeof *x);
    memcpy(x, is, (size_t)n * sizeof *x);
    free(typed(type, x, n));
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ((double)x[i] - should[i]) * ((double)x[i] - should[i]);
    free(x);
    return sqrt(sum / (double)n);
}

static float largest_product(const ParcAttention *a, const float *q, const float *k)
{
    float most = 0;
    for (int64_t i = 0; i < a->s * a->g * a->t; i++) {
        float sum = 0;
        for (int64_t c = 0; c < a->d; c++)
            sum += q[i / a->t * a->d + c] * k[i % a->t * a->d + c];
        most = fmaxf(most, fabsf(sum));
    }
    return most;
}

/* In 16 bits eight ranks are as exact as one, also with scores from -80 to 80. */
static void large_scores(Check *c)
{
    ParcRt one = {.threads = 1};
    for (int i = 0; i < 4; i++) {
        ParcAttention a = {1, 256, 256, 1, 2, 64, 64, i % 2, false, 0.125f, PARC_BF16, NO_DROPOUT};
        AttentionSizes n = attention_sizes(&a);
        float *x[] = {random_floats(n.q, 1), random_floats(n.k, 2), random_floats(n.v, 3),
                      random_floats(n.o, 4)};
        if (i / 2)
            a.scale = 80 / largest_product(&a, x[0], x[1]);
        void *in[] = {typed(a.type, x[0], n.q), typed(a.type, x[1], n.k),
                      typed(a.type, x[2], n.v), typed(a.type, x[3], n.o)};
        AttentionReference y = {&a, x[0], x[1], x[2], x[3], zero_doubles(n.o), zero_doubles(n.lse),
                                zero_doubles(n.q), zero_doubles(n.k), zero_doubles(n.v),
                                zero_doubles(1), zero_doubles(a.t), zero_doubles(a.t)};
        for (int64_t row = 0; row < 2 * a.s; row++)
            attention_reference(&y, 0, row / a.s, row % a.s);
        AttentionResults whole = run(&one, &a, in), ring = ring_results(&one, &a, in, 8, i % 2);
        float *const is[] = {whole.o, whole.dq, whole.dk, whole.dv};
        float *const parts[] = {ring.o, ring.dq, ring.dk, ring.dv};
        double *const should[] = {y.o, y.dq, y.dk, y.dv};
        const int64_t size[] = {n.o, n.q, n.k, n.v};
        for (int k = 0; k < 4; k++)
            CHECK(c, rounded_error(a.type, parts[k], should[k], size[k]) <=
                         1.1 * rounded_error(a.type, is[k], should[k], size[k]));
        free_results(&whole);
        free_results(&ring);
    }
}

int main(void)
{
    enum { TOKENS = 600, BIASES = 100000 };
    static const int64_t at[] = {1, 2, 7, 99};
    static int32_t query[TOKENS], key[TOKENS]; /* some queries have no keys */
    for (int i = 0; i < TOKENS; i++) {
        query[i] = i / 37;
        key[i] = i % 7 == 3 ? -1 : i < 4 ? 9 : i / 37;
    }
    static float bias[BIASES]; /* some queries attend to no key, others to few */
    for (int i = 0; i < BIASES; i++)
        bias[i] = value_of(11, i) * 2;
    for (int i = 0; i < BIASES; i += 7)
        bias[i] = i % 3 == 0 ? -FLT_MAX : -INFINITY;
    for (int i = 400; i < 700; i++)
        bias[i] = -FLT_MAX;
    static const ParcAttention cases[] = {
        /* b, s, t, kv, g, d, e, causal, deterministic, scale, type; drop, site,
         * key, first_b, first_kv, first_g, groups, heads, window, softcap, segments, bias, all_s, first_s,
         * second_s, all_t, key_pieces, first_t: see ParcAttention */
        {1, 1, 1, 1, 1, 1, 1, true, false, 1.0f, PARC_F32, NO_DROPOUT},
        {2, 5, 5, 2, 3, 4, 4, true, false, 0.5f, PARC_F32, NO_DROPOUT},
        {1, 7, 11, 1, 2, 3, 5, false, false, 0.7f, PARC_F32, NO_DROPOUT},
        {1, 11, 7, 2, 1, 5, 3, true, false, 0.7f, PARC_F32, NO_DROPOUT},
        {1, 64, 64, 1, 1, 16, 16, true, false, 0.25f, PARC_F32, NO_DROPOUT},
        {2, 97, 97, 2, 2, 16, 16, true, false, 0.25f, PARC_F32, NO_DROPOUT},
        {1, 200, 130, 1, 2, 24, 40, false, false, 0.2f, PARC_F32, NO_DROPOUT},
        {1, 193, 193, 1, 1, 64, 64, true, false, 0.125f, PARC_F32, NO_DROPOUT},
        {3, 33, 65, 1, 4, 8, 17, true, false, 0.35f, PARC_F32, NO_DROPOUT},
        {1, 130, 130, 2, 1, 128, 128, true, false, 0.1f, PARC_F32, NO_DROPOUT},
        {2, 5, 5, 2, 3, 4, 4, true, false, 0.5f, PARC_F32, 0.3f, 3, &at[3], NULL, NULL, NULL, 3, 6, 0, 0,
         NO_SEGMENTS},
        {2, 97, 97, 2, 2, 16, 16, true, false, 0.25f, PARC_F32, 0.5f, 0, &at[2],
         &at[1], &at[1], NULL, 2, 12, 0, 0, NO_SEGMENTS},
        {1, 50, 130, 1, 2, 24, 40, false, false, 0.2f, PARC_F32, 0.1f, 1, &at[2],
         &at[0], NULL, &at[1], 4, 4, 0, 0, NO_SEGMENTS},
        {2, 5, 5, 1, 2, 4, 4, true, false, 0.5f, PARC_F32, WINDOW(3)},
        {2, 5, 5, 2, 3, 4, 4, false, false, 0.5f, PARC_F32, WINDOW(2)},
        {1, 97, 97, 2, 1, 16, 16, true, false, 0.25f, PARC_F32, WINDOW(3)},
        {1, 200, 200, 1, 2, 24, 40, true, false, 0.2f, PARC_F32, WINDOW(64)},
        {2, 240, 240, 1, 2, 16, 24, true, false, 0.2f, PARC_F32, NO_DROPOUT},
        {2, 240, 240, 2, 1, 16, 24, false, false, 0.2f, PARC_F32, NO_DROPOUT},
        {1, 600, 600, 1, 1, 8, 8, true, false, 0.4f, PARC_F32, NO_DROPOUT},
        {2, 240, 240, 1, 2, 16, 24, false, false, 0.2f, PARC_F32, SEGMENTS(0, 30)},
        {2, 240, 240, 1, 2, 16, 24, true, false, 0.2f, PARC_F32, 0.5f, 0, &at[2], &at[1],
         &at[1], NULL, 2, 12, 50, 2.5f, true, query, key, 0, NULL, ALL_QUERIES},
        {1, 24, 24, 1, 2, 16, 24, true, false, 0.2f, PARC_F32, 0.5f, 0, &at[2], NULL,
         NULL, NULL, 2, 2, 0, 0, NO_SEGMENTS},
        {1, 300, 300, 1, 1, 16, 16, false, false, 0.2f, PARC_F32, WINDOW(50)},
        {1, 300, 300, 2, 2, 8, 8, true, false, 0.3f, PARC_F32, WINDOW(100)},
        {1, 193, 193, 1, 2, 64, 64, false, false, 0.125f, PARC_F32, WINDOW(192)},
        {1, 150, 150, 2, 2, 16, 16, true, false, 0.25f, PARC_F32, 0.5f, 0, &at[2],
         &at[1], &at[1], NULL, 2, 12, 70, 2.5f, NO_SEGMENTS},
        {2, 5, 5, 2, 3, 4, 4, true, false, 0.5f, PARC_F32, SOFTCAP(0.7f, 0)},
        {1, 193, 193, 1, 2, 64, 64, false, false, 0.125f, PARC_F32, SOFTCAP(3.0f, 0)},
        {1, 50, 130, 2, 1, 24, 40, false, false, -0.3f, PARC_F32, SOFTCAP(1.5f, 0)},
        {1, 300, 300, 2, 2, 8, 8, true, false, 0.3f, PARC_F32, SOFTCAP(0.5f, 100)},
        {2, 5, 5, 2, 3, 4, 4, true, false, 0.5f, PARC_F32, SEGMENTS(0, 0)},
        {2, 193, 193, 1, 2, 64, 64, false, false, -0.125f, PARC_F32, SEGMENTS(0, 0)},
        {2, 50, 130, 2, 1, 24, 40, false, false, 0.3f, PARC_F32, SEGMENTS(1.5f, 0)},
        {2, 300, 300, 2, 2, 8, 8, true, false, 0.3f, PARC_F32, SEGMENTS(0, 100)},
        {2, 97, 97, 2, 2, 16, 16, true, false, 0.25f, PARC_F32, 0.5f, 0, &at[2],
         &at[1], &at[1], NULL, 2, 12, 0, 0, true, query, key, 0, NULL, ALL_QUERIES},
        {2, 5, 5, 2, 3, 4, 4, true, false, 0.5f, PARC_F32, BIAS(0, 0, 14)},
        {2, 97, 97, 2, 2, 16, 16, false, false, 0.25f, PARC_F32, BIAS(0, 0, 15)},
        {2, 193, 193, 1, 2, 64, 64, true, false, -0.125f, PARC_F32, BIAS(0, 0, 12)},
        {2, 50, 130, 2, 1, 24, 40, false, false, 0.3f, PARC_F32, BIAS(1.5f, 0, 13)},
        {2, 100, 100, 2, 2, 8, 8, true, false, 0.3f, PARC_F32, BIAS(0, 30, 14)},
        {2, 97, 97, 2, 2, 16, 16, true, false, 0.25f, PARC_F32, BIAS(0, 0, 10)},
        {2, 50, 130, 2, 1, 24, 40, false, false, 0.3f, PARC_F32, BIAS(0, 0, 9)},
        {2, 50, 60, 2, 1, 24, 40, false, false, 0.3f, PARC_F32, BIAS(0, 0, 7)},
        {2, 97, 97, 2, 2, 16, 16, true, false, 0.25f, PARC_F32, 0.5f, 0, &at[2],
         &at[1], &at[1], NULL, 2, 12, 0, 0, true, query, key, 14, bias, ALL_QUERIES},
        /* Queries 32 … of 130; 10 … and 150 … of 200, with segments, a bias and dropout. */
        {2, 50, 130, 2, 2, 8, 8, true, false, 0.3f, PARC_F32, PLAIN, 130, 32, 0, ALL_KEYS},
        {1, 100, 200, 1, 2, 16, 16, true, false, 0.25f, PARC_F32, PLAIN, 200, 10, 150, ALL_KEYS},
        {1, 100, 200, 1, 2, 16, 16, false, false, 0.25f, PARC_F32, 0, 0, NULL, NULL, NULL, NULL,
         0, 0, 40, 2.0f, false, NULL, NULL, 14, bias, 200, 10, 150, ALL_KEYS},
        {2, 60, 120, 1, 2, 16, 16, true, false, 0.25f, PARC_F32, 0.5f, 0, &at[2], &at[1],
         &at[1], NULL, 2, 12, 30, 0, true, query, key, 0, NULL, 120, 0, 90, ALL_KEYS},
        /* Tasks of two to four tiles, the last one with fewer queries. */
        {2, 520, 520, 4, 6, 8, 8, true, false, 0.4f, PARC_F32, NO_DROPOUT},
        {1, 300, 300, 8, 6, 8, 8, false, false, 0.4f, PARC_F32, WINDOW(50)},
        {1, 450, 450, 6, 8, 8, 8, true, false, 0.4f, PARC_F32, 0.5f, 0, &at[2], &at[1], &at[1],
         NULL, 8, 64, 70, 2.5f, true, query, key, 0, NULL, ALL_QUERIES},
        {1, 600, 1200, 6, 8, 8, 8, true, false, 0.4f, PARC_F32, 0, 0, NULL, NULL, NULL, NULL,
         0, 0, 0, 0, false, NULL, NULL, 10, bias, 1200, 100, 800, ALL_KEYS},
    };
    Check c = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        compare(&c, &cases[i], PARC_F32);
        compare(&c, &cases[i], PARC_BF16);
        compare(&c, &cases[i], PARC_F16);
    }
    ragged_windows(&c);
    large_scores(&c);
    return check_end(&c);
}
