/* attention_reference.c: attention and its gradient in double precision; see
 * attention_reference.h. */
#include "tests/unit/attention_reference.h"

#include <math.h>

#include "runtime/common/bias.h"
#include "runtime/parc_random.h"
#include "runtime/rt.h"
#include "tests/unit/runtime_tools.h"

AttentionSizes attention_sizes(const ParcAttention *a)
{
    int64_t heads = a->kv * a->g;
    return (AttentionSizes){a->b * a->s * heads * a->d, a->b * a->t * a->kv * a->d,
                   a->b * a->t * a->kv * a->e, a->b * a->s * heads * a->e,
                   a->b * heads * a->s,
                   a->bias_dims ? (a->bias_dims & 1 ? a->b : 1) *
                                      (a->bias_dims & 2 ? heads : 1) *
                                      (a->bias_dims & 4 ? a->s : 1) *
                                      (a->bias_dims & 8 ? a->t : 1)
                                : 0};
}

float *random_floats(int64_t n, int64_t seed)
{
    float *x = rt_allocate((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = value_of(seed, i) * 0.25f;
    return x;
}

float *zero_floats(int64_t n)
{
    float *x = rt_allocate((size_t)n * sizeof *x);
    memset(x, 0, (size_t)n * sizeof *x);
    return x;
}

double *zero_doubles(int64_t n)
{
    return rt_allocate((size_t)n * sizeof(double));
}

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
static double score_of(const AttentionReference *x, int64_t qi, int64_t kj, double *slope)
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
static double weight_of(const AttentionReference *x, int64_t b, int64_t h, int64_t i, int64_t j,
                        double score)
{
    const ParcAttention *a = x->a;
    if (a->bias_dims)
        score += (double)a->bias[bias_element(a, b, h, i, j)];
    return attends(a, b, i, j) && score >= -1e30 ? exp(score) : 0;
}

void attention_reference(AttentionReference *x, int64_t b, int64_t h, int64_t i)
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

double relative_distance(const float *is, const double *should, int64_t n)
{
    double worst = 0, top = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)is[i] - should[i]);
        worst = d > worst || d != d ? d : worst;
        top = fabs(should[i]) > top ? fabs(should[i]) : top;
    }
    return worst / top;
}
