/* rt_attention.c: attention, forward, without a score matrix.
 *
 * A task is a block of queries of one head. It walks the keys block by block
 * and keeps, for each query, the running maximum, the running sum of exps and
 * the running output, rescaled when the maximum grows (Milakov, Gimelshein:
 * "Online normalizer calculation for softmax", 2018; Dao et al.: "FlashAtten-
 * tion", 2022). Only a tile of scores exists at a time. Besides the output it
 * leaves lse = log(sum(exp(score))) of each query, from which the backward
 * pass makes the weights again. Tasks write disjoint results, so that the
 * number of threads changes no bit.
 *
 * Causal: query i sees keys 0 … i.
 */
#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "parc_math.h"
#include "rt.h"
#include "rt_attention.h"
#include "rt_tile.h"

/* The scratch of a thread, in floats. */
typedef struct Forward {
    float *keys;      /* [d, KEY_ROW]: a block of keys, transposed */
    float *values;    /* [KEYS, e] */
    float *score;     /* [QUERIES, KEYS] */
    float *out;       /* [QUERIES, e] */
    float *top, *sum; /* [QUERIES] */
} Forward;

static int64_t forward_floats(const ParcAttention *a)
{
    int64_t e = rt_row(a->e);
    return a->d * RT_KEY_ROW + RT_KEYS * e + RT_QUERIES * RT_KEYS +
           RT_QUERIES * e + 2 * RT_QUERIES;
}

static Forward forward_scratch(const ParcAttention *a, float *base)
{
    int64_t e = rt_row(a->e);
    Forward f;
    f.keys = base;
    f.values = f.keys + a->d * RT_KEY_ROW;
    f.score = f.values + RT_KEYS * e;
    f.out = f.score + RT_QUERIES * RT_KEYS;
    f.top = f.out + RT_QUERIES * e;
    f.sum = f.top + RT_QUERIES;
    return f;
}

int64_t parc_attention_scratch(const ParcAttention *a, bool backward,
                               int threads)
{
    int64_t n = backward ? rt_attention_grad_floats(a) : forward_floats(a);
    return n * threads * (int64_t)sizeof(float);
}

/* A row of scores becomes weights exp(score - top); earlier sums and outputs
 * are rescaled. `seen` keys (at least one) count, the rest of the row gets
 * zeros: by selecting, so that all of the row goes through whole vectors. */
static void softmax_row(Forward *f, int64_t i, int seen, int columns, int64_t e,
                        float scale)
{
    float *restrict s = f->score + i * RT_KEYS;
    float *restrict out = f->out + i * rt_row(e);
    float top = f->top[i], sum = 0;
#pragma omp simd reduction(max : top)
    for (int j = 0; j < columns; j++) {
        float x = parc_select(j < seen, s[j] * scale, -INFINITY);
        top = x > top ? x : top;
    }
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < columns; j++) {
        s[j] = parc_select(j < seen, parc_exp(s[j] * scale - top), 0.0f);
        sum += s[j];
    }
    float shrink = parc_exp(f->top[i] - top);
    f->sum[i] = f->sum[i] * shrink + sum;
    f->top[i] = top;
    if (shrink != 1) {
#pragma omp simd
        for (int64_t x = 0; x < e; x++) {
            out[x] *= shrink;
        }
    }
}

/* The keys from `key` on, for a block of queries. Queries before the first
 * key see none of them; keys after the last query are seen by none. */
static void forward_block(const ParcAttention *a, Forward *f, const float *q,
                          const float *k, const float *v, int64_t query,
                          int64_t queries, int64_t key)
{
    int64_t keys =
        rt_seen(a, query + queries - 1, key, rt_less(RT_KEYS, a->t - key));
    int64_t columns = rt_padded(keys), row = rt_row(a->e);
    int64_t first = a->causal && key > query ? key - query : 0;
    int64_t q_row = a->kv * a->g * a->d;
    float *score = f->score + first * RT_KEYS;
    rt_pack_transposed(f->keys, k + key * a->kv * a->d, a->kv * a->d, keys,
                       a->d);
    rt_pack(f->values, v + key * a->kv * a->e, a->kv * a->e, keys, a->e);
    rt_tile(&(RtTile){queries - first, columns, a->d, q + first * q_row, q_row,
                      1, f->keys, RT_KEY_ROW, score, RT_KEYS, false});
    for (int64_t i = first; i < queries; i++) {
        softmax_row(f, i, (int)rt_seen(a, query + i, key, keys), (int)columns,
                    a->e, a->scale);
    }
    rt_tile(&(RtTile){queries - first, rt_padded(a->e), keys, score, RT_KEYS, 1,
                      f->values, row, f->out + first * row, row, true});
}

static void forward_task(const ParcAttention *a, float *scratch, float *o,
                         float *lse, const float *q, const float *k,
                         const float *v, int64_t query)
{
    Forward f = forward_scratch(a, scratch);
    int64_t queries = rt_less(RT_QUERIES, a->s - query);
    int64_t e = rt_row(a->e), row = a->kv * a->g * a->e;
    int64_t end = a->causal ? rt_less(a->t, query + queries) : a->t;
    memset(f.out, 0, (size_t)(queries * e) * sizeof *f.out);
    for (int64_t i = 0; i < queries; i++) {
        f.top[i] = -INFINITY;
        f.sum[i] = 0;
    }
    q += query * a->kv * a->g * a->d;
    for (int64_t key = 0; key < end; key += RT_KEYS) {
        forward_block(a, &f, q, k, v, query, queries, key);
    }
    for (int64_t i = 0; i < queries; i++) {
        float over = 1 / f.sum[i];
        float *restrict to = o + (query + i) * row;
        for (int64_t x = 0; x < a->e; x++) {
            to[x] = f.out[i * e + x] * over;
        }
        lse[query + i] = f.top[i] + parc_log(f.sum[i]);
    }
}

void parc_attention(ParcRt *rt, const ParcAttention *a, float *o, float *lse,
                    const float *q, const float *k, const float *v,
                    float *scratch)
{
    int64_t heads = a->kv * a->g, floats = forward_floats(a);
    int64_t blocks = (a->s + RT_QUERIES - 1) / RT_QUERIES;
    (void)rt;
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < a->b * heads * blocks; task++) {
        /* Long rows of a causal mask first: the tail of work is short. */
        int64_t block = blocks - 1 - task / (a->b * heads);
        int64_t b = task / heads % a->b, h = task % heads, kv = h / a->g;
        forward_task(a, scratch + omp_get_thread_num() * floats,
                     o + (b * a->s * heads + h) * a->e,
                     lse + (b * heads + h) * a->s,
                     q + (b * a->s * heads + h) * a->d,
                     k + (b * a->t * a->kv + kv) * a->d,
                     v + (b * a->t * a->kv + kv) * a->e, block * RT_QUERIES);
    }
}
