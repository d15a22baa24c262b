/* runtime_attention.c: attention and its gradient against a plain computation
 * in double precision, and the same bits on any number of threads. */
#include <math.h>
#include <omp.h>

#include "tests/unit/runtime_tools.h"

typedef struct Sizes {
    int64_t q, k, v, o, lse;
} Sizes;

static Sizes sizes_of(const ParcAttention *a)
{
    int64_t heads = a->kv * a->g;
    return (Sizes){a->b * a->s * heads * a->d, a->b * a->t * a->kv * a->d,
                   a->b * a->t * a->kv * a->e, a->b * a->s * heads * a->e,
                   a->b * heads * a->s};
}

static float *numbers(int64_t n, int64_t seed)
{
    float *x = rt_allocate((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = value_of(seed, i) * 0.25f;
    }
    return x;
}

static double *zeros(int64_t n)
{
    return rt_allocate((size_t)n * sizeof(double));
}

typedef struct Plain {
    const ParcAttention *a;
    const float *q, *k, *v, *d_o;
    double *o, *lse, *dq, *dk, *dv, *p, *dp; /* p, dp: one row */
} Plain;

/* One query: the row of weights, the output, the gradients. */
static void plain_row(Plain *x, int64_t b, int64_t h, int64_t i)
{
    const ParcAttention *a = x->a;
    int64_t heads = a->kv * a->g, kv = h / a->g;
    int64_t qi = (b * a->s + i) * heads + h;
    int64_t seen = a->causal && i + 1 < a->t ? i + 1 : a->t;
    double sum = 0, dot = 0;
    for (int64_t j = 0; j < seen; j++) {
        int64_t kj = (b * a->t + j) * a->kv + kv;
        double s = 0;
        for (int64_t c = 0; c < a->d; c++) {
            s += (double)x->q[qi * a->d + c] * (double)x->k[kj * a->d + c];
        }
        x->p[j] = exp(s * (double)a->scale);
        sum += x->p[j];
    }
    x->lse[(b * heads + h) * a->s + i] = log(sum);
    for (int64_t j = 0; j < seen; j++) {
        int64_t kj = (b * a->t + j) * a->kv + kv;
        x->p[j] /= sum;
        x->dp[j] = 0;
        for (int64_t c = 0; c < a->e; c++) {
            double v = (double)x->v[kj * a->e + c];
            double d = (double)x->d_o[qi * a->e + c];
            x->o[qi * a->e + c] += x->p[j] * v;
            x->dp[j] += d * v;
            x->dv[kj * a->e + c] += x->p[j] * d;
        }
        dot += x->p[j] * x->dp[j];
    }
    for (int64_t j = 0; j < seen; j++) {
        int64_t kj = (b * a->t + j) * a->kv + kv;
        double ds = x->p[j] * (x->dp[j] - dot) * (double)a->scale;
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
    float *o, *lse, *dq, *dk, *dv;
} Results;

static Results run(ParcRt *rt, const ParcAttention *a, const Plain *x)
{
    Sizes n = sizes_of(a);
    Results r = {numbers(n.o, 9), numbers(n.lse, 9), numbers(n.q, 9),
                 numbers(n.k, 9), numbers(n.v, 9)};
    size_t forward = (size_t)parc_attention_scratch(a, false, rt->threads);
    size_t backward = (size_t)parc_attention_scratch(a, true, rt->threads);
    float *scratch = rt_allocate(forward);
    omp_set_num_threads(rt->threads);
    parc_attention(rt, a, r.o, r.lse, x->q, x->k, x->v, scratch);
    free(scratch);
    scratch = rt_allocate(backward);
    parc_attention_grad(rt, a, r.dq, r.dk, r.dv, x->d_o, x->q, x->k, x->v,
                        r.o, r.lse, scratch);
    free(scratch);
    return r;
}

static void free_results(Results *r)
{
    free(r->o);
    free(r->lse);
    free(r->dq);
    free(r->dk);
    free(r->dv);
}

static void compare(Check *c, const ParcAttention *a)
{
    Sizes n = sizes_of(a);
    float *q = numbers(n.q, 1), *k = numbers(n.k, 2), *v = numbers(n.v, 3);
    float *d_o = numbers(n.o, 4);
    Plain x = {a, q, k, v, d_o, zeros(n.o), zeros(n.lse), zeros(n.q),
               zeros(n.k), zeros(n.v), zeros(a->t), zeros(a->t)};
    ParcRt one = {.threads = 1}, two = {.threads = 2};
    for (int64_t i = 0; i < a->b * a->kv * a->g * a->s; i++) {
        plain_row(&x, i / (a->kv * a->g * a->s), i / a->s % (a->kv * a->g),
                  i % a->s);
    }
    Results r = run(&one, a, &x), again = run(&two, a, &x);
    CHECK(c, distance(r.o, x.o, n.o) < 2e-6);
    CHECK(c, distance(r.lse, x.lse, n.lse) < 2e-6);
    CHECK(c, distance(r.dq, x.dq, n.q) < 4e-6);
    CHECK(c, distance(r.dk, x.dk, n.k) < 4e-6);
    CHECK(c, distance(r.dv, x.dv, n.v) < 4e-6);
    CHECK(c, memcmp(r.o, again.o, (size_t)n.o * 4) == 0);
    CHECK(c, memcmp(r.dq, again.dq, (size_t)n.q * 4) == 0);
    CHECK(c, memcmp(r.dk, again.dk, (size_t)n.k * 4) == 0);
    CHECK(c, memcmp(r.dv, again.dv, (size_t)n.v * 4) == 0);
    free_results(&r);
    free_results(&again);
    double *own[] = {x.o, x.lse, x.dq, x.dk, x.dv, x.p, x.dp};
    for (int i = 0; i < 7; i++) {
        free(own[i]);
    }
    free(q);
    free(k);
    free(v);
    free(d_o);
}

int main(void)
{
    static const ParcAttention cases[] = {
        /* b, s, t, kv, g, d, e, causal, scale */
        {1, 1, 1, 1, 1, 1, 1, true, 1.0f},
        {2, 5, 5, 2, 3, 4, 4, true, 0.5f},
        {1, 7, 11, 1, 2, 3, 5, false, 0.7f},
        {1, 11, 7, 2, 1, 5, 3, true, 0.7f},
        {1, 64, 64, 1, 1, 16, 16, true, 0.25f},
        {2, 97, 97, 2, 2, 16, 16, true, 0.25f},
        {1, 200, 130, 1, 2, 24, 40, false, 0.2f},
        {1, 193, 193, 1, 1, 64, 64, true, 0.125f},
        {3, 33, 65, 1, 4, 8, 17, true, 0.35f},
        {1, 130, 130, 2, 1, 128, 128, true, 0.1f},
    };
    Check c = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        compare(&c, &cases[i]);
    }
    return check_end(&c);
}
