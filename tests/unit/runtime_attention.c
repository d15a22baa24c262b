/* runtime_attention.c: compares attention and its gradient of the CPU runtime
 * (parc_attention, parc_attention_grad) with a simple computation in double
 * precision, and checks that the bits of the results do not depend on the
 * number of threads. */
#include <float.h>
#include <math.h>
#include <omp.h>

#include "runtime/common/bias.h"
#include "runtime/common/message.h"
#include "runtime/common/type.h"
#include "runtime/parc_random.h"
#include "runtime/rt.h"
#include "tests/unit/runtime_tools.h"

typedef struct Sizes {
    int64_t q, k, v, o, lse, bias;
} Sizes;

static Sizes sizes_of(const ParcAttention *a)
{
    int64_t heads = a->kv * a->g;
    return (Sizes){a->b * a->s * heads * a->d, a->b * a->t * a->kv * a->d,
                   a->b * a->t * a->kv * a->e, a->b * a->s * heads * a->e,
                   a->b * heads * a->s,
                   a->bias_dims ? (a->bias_dims & 1 ? a->b : 1) *
                                      (a->bias_dims & 2 ? heads : 1) *
                                      (a->bias_dims & 4 ? a->s : 1) *
                                      (a->bias_dims & 8 ? a->t : 1)
                                : 0};
}

static float *numbers(int64_t n, int64_t seed)
{
    float *x = rt_allocate((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = value_of(seed, i) * 0.25f;
    return x;
}

static double *zeros(int64_t n)
{
    return rt_allocate((size_t)n * sizeof(double));
}

typedef struct Reference {
    const ParcAttention *a;
    const float *q, *k, *v, *d_o;
    double *o, *lse, *dq, *dk, *dv, *dbias, *p, *dp; /* p, dp: one row */
} Reference;

static int64_t number(const int64_t *at)
{
    return at ? *at : 0;
}

/* The number of this rank's query i among all. */
static int64_t number_of(const ParcAttention *a, int64_t i)
{
    if (a->second_s && i >= a->s / 2)
        return a->second_s + i - a->s / 2;
    return a->first_s + i;
}

/* The dropout factor of a weight; the generator counts rows as if their length
 * were padded to a multiple of 64. */
static double dropout_factor(const ParcAttention *a, int64_t b, int64_t h,
                             int64_t i, int64_t j)
{
    int64_t first = number(a->first_kv) * a->groups + number(a->first_g);
    int64_t head = (number(a->first_b) + b) * a->heads + first + h;
    int64_t row = head * (a->all_s ? a->all_s : a->s) + number_of(a, i);
    int64_t at = row * ((a->t + 63) / 64 * 64) + j;
    if (a->drop <= 0)
        return 1;
    return parc_random_at(number(a->key), a->site, at) < a->drop
               ? 0
               : 1 / (1 - (double)a->drop);
}

static bool attends(const ParcAttention *a, int64_t b, int64_t i, int64_t j)
{
    return !a->segments || a->query_segment[b * a->s + i] == a->key_segment[b * a->t + j];
}

/* The score of a query and a key, and its derivative by their product. */
static double score_of(const Reference *x, int64_t qi, int64_t kj, double *slope)
{
    const ParcAttention *a = x->a;
    double s = 0;
    for (int64_t c = 0; c < a->d; c++)
        s += (double)x->q[qi * a->d + c] * (double)x->k[kj * a->d + c];
    *slope = (double)a->scale;
    if (a->softcap <= 0)
        return s * (double)a->scale;
    double t = tanh(s * (double)a->scale / (double)a->softcap);
    *slope *= 1 - t * t;
    return (double)a->softcap * t;
}

/* The element of the bias for a score. */
static int64_t bias_element(const ParcAttention *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t step[RT_BIAS_DIMS];
    rt_bias_steps(a, step);
    return b * step[0] + h * step[1] + i * step[2] + j * step[3];
}

/* e^(score + bias); 0 where the query does not attend to the key. */
static double weight_of(const Reference *x, int64_t b, int64_t h, int64_t i, int64_t j,
                        double score)
{
    const ParcAttention *a = x->a;
    if (a->bias_dims)
        score += (double)a->bias[bias_element(a, b, h, i, j)];
    return attends(a, b, i, j) && score >= -1e30 ? exp(score) : 0;
}

/* One query: its row of weights, its output, its gradients. */
static void reference_row(Reference *x, int64_t b, int64_t h, int64_t i)
{
    const ParcAttention *a = x->a;
    int64_t heads = a->kv * a->g, kv = h / a->g;
    int64_t qi = (b * a->s + i) * heads + h;
    int64_t at = number_of(a, i);
    int64_t first = a->window > 0 && at >= a->window ? at - a->window + 1 : 0;
    int64_t end = a->causal ? at + 1 : a->window > 0 ? at + a->window : a->t;
    int64_t seen = end < a->t ? end : a->t;
    double sum = 0, dot = 0, slope;
    for (int64_t j = first; j < seen; j++) {
        int64_t kj = (b * a->t + j) * a->kv + kv;
        x->p[j] = weight_of(x, b, h, i, j, score_of(x, qi, kj, &slope));
        sum += x->p[j];
    }
    x->lse[(b * heads + h) * a->s + i] = sum > 0 ? log(sum) : 0;
    if (sum <= 0)
        return;
    for (int64_t j = first; j < seen; j++) {
        int64_t kj = (b * a->t + j) * a->kv + kv;
        double keep = dropout_factor(a, b, h, i, j);
        x->p[j] /= sum;
        x->dp[j] = 0;
        for (int64_t c = 0; c < a->e; c++) {
            double v = (double)x->v[kj * a->e + c];
            double d = (double)x->d_o[qi * a->e + c];
            x->o[qi * a->e + c] += x->p[j] * keep * v;
            x->dp[j] += keep * d * v;
            x->dv[kj * a->e + c] += x->p[j] * keep * d;
        }
        dot += x->p[j] * x->dp[j];
    }
    for (int64_t j = first; j < seen; j++) {
        int64_t kj = (b * a->t + j) * a->kv + kv;
        (void)score_of(x, qi, kj, &slope);
        double ds = x->p[j] * (x->dp[j] - dot) * slope;
        if (a->bias_dims)
            x->dbias[bias_element(a, b, h, i, j)] += x->p[j] * (x->dp[j] - dot);
        for (int64_t c = 0; c < a->d; c++) {
            x->dq[qi * a->d + c] += ds * (double)x->k[kj * a->d + c];
            x->dk[kj * a->d + c] += ds * (double)x->q[qi * a->d + c];
        }
    }
}

static double distance(const float *is, const double *should, int64_t n)
{
    double worst = 0, top = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)is[i] - should[i]);
        worst = d > worst || d != d ? d : worst;
        top = fabs(should[i]) > top ? fabs(should[i]) : top;
    }
    return worst / top;
}

typedef struct Results {
    float *o, *lse, *dq, *dk, *dv, *dbias;
} Results;

/* Converts x to the type and rounds x itself to the same numbers. */
static void *typed(ParcType type, float *x, int64_t n)
{
    void *to = rt_allocate((size_t)n * sizeof *x);
    rt_narrow(type, to, x, n);
    rt_widen(x, type, to, n);
    return to;
}

/* Results of a type as floats. */
static void widen(ParcType type, float *x, int64_t n)
{
    float *from = rt_allocate((size_t)n * sizeof *x);
    memcpy(from, x, (size_t)n * sizeof *x);
    rt_widen(x, type, from, n);
    free(from);
}

static Results run(ParcRt *rt, const ParcAttention *a, void *const in[4])
{
    Sizes n = sizes_of(a);
    Results r = {numbers(n.o, 9), numbers(n.lse, 9), numbers(n.q, 9),
                 numbers(n.k, 9), numbers(n.v, 9), numbers(n.bias + 1, 9)};
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

static void free_results(Results *r)
{
    free(r->o);
    free(r->lse);
    free(r->dq);
    free(r->dk);
    free(r->dv);
    free(r->dbias);
}

/* Both passes round their results; the backward pass also reads a rounded o. */
static void compare(Check *c, const ParcAttention *shape, ParcType type)
{
    static const double rounding[] = {
        [PARC_BF16] = 0x1p-8, [PARC_F16] = 0x1p-11, [PARC_F32] = 0};
    ParcAttention own = *shape;
    const ParcAttention *a = &own;
    own.type = type;
    Sizes n = sizes_of(a);
    float *q = numbers(n.q, 1), *k = numbers(n.k, 2), *v = numbers(n.v, 3);
    float *d_o = numbers(n.o, 4);
    void *in[] = {typed(type, q, n.q), typed(type, k, n.k),
                  typed(type, v, n.v), typed(type, d_o, n.o)};
    Reference x = {a, q, k, v, d_o, zeros(n.o), zeros(n.lse), zeros(n.q),
               zeros(n.k), zeros(n.v), zeros(n.bias + 1), zeros(a->t), zeros(a->t)};
    ParcRt one = {.threads = 1}, two = {.threads = 2};
    for (int64_t i = 0; i < a->b * a->kv * a->g * a->s; i++)
        reference_row(&x, i / (a->kv * a->g * a->s), i / a->s % (a->kv * a->g),
                  i % a->s);
    Results r = run(&one, a, in), r2 = run(&two, a, in);
    double e = rounding[type];
    CHECK(c, distance(r.o, x.o, n.o) < 2e-6 + e);
    CHECK(c, distance(r.lse, x.lse, n.lse) < 2e-6);
    CHECK(c, distance(r.dq, x.dq, n.q) < 4e-6 + 2 * e);
    CHECK(c, distance(r.dk, x.dk, n.k) < 4e-6 + 2 * e);
    CHECK(c, distance(r.dv, x.dv, n.v) < 4e-6 + 2 * e);
    if (a->bias_dims >> 2 == 3) {
        /* A single score: its dp and the rounded do · o nearly cancel. */
        CHECK(c, distance(r.dbias, x.dbias, n.bias) < 4e-6 + 4 * e);
        CHECK(c, memcmp(r.dbias, r2.dbias, (size_t)n.bias * 4) == 0);
    }
    CHECK(c, memcmp(r.o, r2.o, (size_t)n.o * 4) == 0);
    CHECK(c, memcmp(r.lse, r2.lse, (size_t)n.lse * 4) == 0);
    CHECK(c, memcmp(r.dq, r2.dq, (size_t)n.q * 4) == 0);
    CHECK(c, memcmp(r.dk, r2.dk, (size_t)n.k * 4) == 0);
    CHECK(c, memcmp(r.dv, r2.dv, (size_t)n.v * 4) == 0);
    free_results(&r);
    free_results(&r2);
    void *all[] = {x.o,   x.lse, x.dq,  x.dk,  x.dv, x.dbias, x.p, x.dp, in[0],
                   in[1], in[2], in[3], q,     k,    v,   d_o};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

#define ALL_QUERIES 0, 0, 0
#define NO_SEGMENTS false, NULL, NULL, 0, NULL, ALL_QUERIES
#define NO_DROPOUT 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, NO_SEGMENTS
#define PLAIN 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, NULL, 0, NULL
#define WINDOW(n) 0, 0, NULL, NULL, NULL, NULL, 0, 0, n, 0, NO_SEGMENTS
#define SOFTCAP(c, n) 0, 0, NULL, NULL, NULL, NULL, 0, 0, n, c, NO_SEGMENTS
#define SEGMENTS(c, n) 0, 0, NULL, NULL, NULL, NULL, 0, 0, n, c, true, query, key, 0, NULL, ALL_QUERIES
#define BIAS(c, n, dims) \
    0, 0, NULL, NULL, NULL, NULL, 0, 0, n, c, false, NULL, NULL, dims, bias, ALL_QUERIES

/* Windows whose edges cross blocks of keys and queries at every distance, of a sequence and of
 * two pieces of it, with dropout. */
static void ragged_windows(Check *c)
{
    for (int64_t window = 2; window < 200; window += 5)
        for (int i = 0; i < 4; i++) {
            int64_t all = i < 2 ? 0 : 211, s = i < 2 ? 211 : 90;
            const ParcAttention a = {
                1, s, 211, 1, 1 + i / 2, 20, 12, i % 2 == 0, false, 0.3f, PARC_F32, i == 3 ? 0.5f : 0,
                0, NULL, NULL, NULL, NULL, 2, 2, window, 0, false, NULL, NULL, 0, NULL, all,
                i < 2 ? 0 : 19, i < 2 ? 0 : 130};
            compare(c, &a, window % 2 ? PARC_F32 : PARC_BF16);
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
         * second_s: see ParcAttention */
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
        {2, 50, 130, 2, 2, 8, 8, true, false, 0.3f, PARC_F32, PLAIN, 130, 32, 0},
        {1, 100, 200, 1, 2, 16, 16, true, false, 0.25f, PARC_F32, PLAIN, 200, 10, 150},
        {1, 100, 200, 1, 2, 16, 16, false, false, 0.25f, PARC_F32, 0, 0, NULL, NULL, NULL, NULL,
         0, 0, 40, 2.0f, false, NULL, NULL, 14, bias, 200, 10, 150},
        {2, 60, 120, 1, 2, 16, 16, true, false, 0.25f, PARC_F32, 0.5f, 0, &at[2], &at[1],
         &at[1], NULL, 2, 12, 30, 0, true, query, key, 0, NULL, 120, 0, 90},
    };
    Check c = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        compare(&c, &cases[i], PARC_F32);
        compare(&c, &cases[i], PARC_BF16);
        compare(&c, &cases[i], PARC_F16);
    }
    ragged_windows(&c);
    return check_end(&c);
}
