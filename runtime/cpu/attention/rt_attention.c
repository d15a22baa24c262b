/* rt_attention.c: computes attention, forward, without a score matrix.
 *
 * A task is a block of queries of one head. It loops over blocks of keys and
 * keeps for each query the running maximum, the running sum of exponentials
 * and the running output, which it rescales when the maximum grows (Milakov,
 * Gimelshein: "Online normalizer calculation for softmax", 2018; Dao et al.:
 * "FlashAttention", 2022). Only one tile of scores exists at a time. The
 * result also includes lse = log(sum(exp(score))) of each query, from which
 * the backward pass recomputes the weights.
 *
 * A bias is added to the scores, tile by tile. A step of a ring continues with the output and
 * lse of the steps before, as if the sum of exponentials were 1 and the maximum lse.
 *
 * With a causal mask query i attends to keys 0 … i, with a window to the keys
 * less than `window` away, and only to keys of its segment; blocks without such keys are
 * skipped. Tasks write
 * disjoint results, so the result does not depend on the number of threads.
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "cpu/attention/rt_attention.h"
#include "cpu/rt_tile.h"
#include "parc_math.h"
#include "rt.h"

/* The scratch of a thread, in floats. */
typedef struct Forward {
    float *keys;      /* [d, KEY_ROW]: a block of keys, transposed */
    float *values;    /* [KEYS, e] */
    float *score;     /* [QUERIES, KEYS]: a tile */
    float *out;       /* [queries, e], of the task */
    float *top, *sum; /* [queries] */
    float *query;     /* [queries, d], if elements are not f32 */
    float *key;       /* [KEYS, d], if elements are not f32 */
    int64_t row;      /* index of the head's first row of weights */
    int64_t shift;    /* from a query of this rank to its number among all, less … */
    int64_t key_shift; /* … that of the piece of the keys */
    RtSegments segments;
    RtBias bias;
} Forward;

/* A task has up to MOST_TILES tiles of queries, but no more than leave a call LEAST_TASKS
 * tasks, which keep many threads busy. */
enum { MOST_TILES = 4, LEAST_TASKS = 128 };

/* The number of queries of a task. The more it has, the less often is a block of keys packed.
 * It must not be larger for two pieces of queries than for one, because parc plans the scratch
 * for one. */
static int64_t task_queries(const ParcAttention *a)
{
    int64_t queries = a->b * a->kv * a->g * (a->s / rt_pieces(a));
    int64_t tiles = queries / (RT_QUERIES * LEAST_TASKS);
    return RT_QUERIES * (tiles < 1 ? 1 : rt_least(tiles, MOST_TILES));
}

static int64_t forward_floats(const ParcAttention *a)
{
    int64_t e = rt_row(a->e), queries = task_queries(a);
    int64_t widened =
        a->type == PARC_F32 ? 0 : (queries + RT_KEYS) * rt_row(a->d);
    return a->d * RT_KEY_ROW + RT_KEYS * e + RT_QUERIES * RT_KEYS +
           queries * e + 2 * queries + widened;
}

static Forward forward_scratch(const ParcAttention *a, float *base)
{
    int64_t e = rt_row(a->e), queries = task_queries(a);
    Forward f;
    f.keys = base;
    f.values = f.keys + a->d * RT_KEY_ROW;
    f.score = f.values + RT_KEYS * e;
    f.out = f.score + RT_QUERIES * RT_KEYS;
    f.top = f.out + queries * e;
    f.sum = f.top + queries;
    f.query = f.sum + queries;
    f.key = f.query + queries * rt_row(a->d);
    return f;
}

int64_t parc_attention_scratch(const ParcAttention *a, bool backward,
                               int threads)
{
    int64_t n = backward ? rt_attention_grad_floats(a) : forward_floats(a);
    return n * threads * (int64_t)sizeof(float);
}

/* The maximum of `top` and the scores from `first` to `seen` - 1 of a row. */
static float row_top(const float *restrict s, int first, int seen, int columns,
                     float scale, float top)
{
    int32_t key = parc_key(top);
#pragma omp simd reduction(max : key)
    for (int j = 0; j < columns; j++) {
        float x = parc_select((j >= first) & (j < seen), s[j] * scale, -INFINITY);
        key = parc_higher(key, parc_key(x));
    }
    return parc_from_key(key);
}

/* Replaces scores by weights exp(score - top), and by zeros before `first` and
 * from `seen` on. A select instead of a shorter loop keeps the vectors full.
 * Returns their sum. */
static float row_weights(float *restrict s, int first, int seen, int columns,
                         float scale, float top)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < columns; j++) {
        s[j] = parc_select((j >= first) & (j < seen),
                           parc_exp(s[j] * scale - top), 0.0f);
        sum += s[j];
    }
    return sum;
}

/* Converts a tile's rows of scores to weights, and rescales earlier sums and outputs to the
 * new maxima, in a vector loop over the rows. `query` is the first of the task's block. Each
 * of the tile's queries attends to at least one of its keys. */
static void softmax_rows(const ParcAttention *a, Forward *f, int64_t query, const RtSpan *span)
{
    float next[RT_QUERIES], shrink[RT_QUERIES];
    int64_t rows = span->queries, key = span->key, keys = span->keys, own = span->query - query;
    float *restrict top = f->top + own, *restrict sum = f->sum + own;
    int columns = (int)rt_padded(keys);
    int64_t at = span->query + f->shift;
    float scale = rt_score_scale(a);
    for (int64_t i = 0; i < rows && a->softcap > 0; i++)
        rt_cap_row(a, f->score + i * RT_KEYS, columns);
    if (f->bias.at) {
        for (int64_t i = 0; i < rows; i++)
            rt_bias_row(f->score + i * RT_KEYS, &f->bias, span->query + i, key, keys, scale);
        scale = 1;
    }
    if (f->segments.key) {
        for (int64_t i = 0; i < rows; i++)
            rt_segment_row(f->score + i * RT_KEYS, f->segments.key + key,
                           f->segments.query[span->query + i], keys, scale);
        scale = 1;
    }
    for (int64_t i = 0; i < rows; i++)
        next[i] = row_top(f->score + i * RT_KEYS, (int)rt_unseen(a, at + i, key),
                          (int)rt_seen(a, at + i, key, keys), columns, scale, top[i]);
#pragma omp simd
    for (int64_t i = 0; i < rows; i++) {
        shrink[i] = parc_exp(top[i] - next[i]);
        sum[i] *= shrink[i];
        top[i] = next[i];
    }
    for (int64_t i = 0; i < rows; i++) {
        float *restrict out = f->out + (own + i) * rt_row(a->e), by = shrink[i];
        sum[i] += row_weights(f->score + i * RT_KEYS, (int)rt_unseen(a, at + i, key),
                              (int)rt_seen(a, at + i, key, keys), columns, scale, next[i]);
        if (by != 1) {
#pragma omp simd
            for (int64_t x = 0; x < a->e; x++)
                out[x] *= by;
        }
    }
}

/* Processes a tile of a packed block of keys and of the task's queries `q`, which begin at
 * `query`. */
static void forward_tile(const ParcAttention *a, Forward *f, RtRows q, int64_t query,
                         const RtSpan *span)
{
    int64_t first = span->query - query, columns = rt_padded(span->keys), row = rt_row(a->e);
    if (!rt_segments_overlap(&f->segments, span->query, span->queries, span->key, span->keys))
        return;
    rt_tile(&(RtTile){span->queries, columns, a->d, q.at + first * q.stride, q.stride, 1,
                      f->keys + span->skipped, RT_KEY_ROW, f->score, RT_KEYS, false});
    softmax_rows(a, f, query, span);
    for (int64_t i = 0; i < span->queries && a->drop > 0; i++) {
        float keep[RT_KEYS]; /* after the sum, which includes dropped weights */
        rt_keep_row(a, keep, f->row + f->shift + f->key_shift + span->query + i,
                    span->key + f->key_shift);
        rt_scale_row(f->score + i * RT_KEYS, keep, columns);
    }
    rt_tile(&(RtTile){span->queries, rt_padded(a->e), span->keys, f->score, RT_KEYS, 1,
                      f->values + span->skipped * row, row, f->out + first * row, row, true});
}

/* Processes the block of keys from `key` to before `end` for the task's queries `q`: the rows
 * `first` to `last` - 1 attend to it. Keys after those of the last query are not
 * read. */
static void forward_block(const ParcAttention *a, Forward *f, RtRows q,
                          const void *k, const void *v, int64_t query,
                          int64_t queries, int64_t key, int64_t end)
{
    int64_t at = query + f->shift;
    int64_t keys = rt_seen(a, at + queries - 1, key, rt_least(RT_KEYS, end - key));
    int64_t begin = rt_queries_begin(a, key), first = begin > at ? begin - at : 0;
    int64_t last = rt_least(queries, rt_queries_end(a, key, keys) - at);
    int64_t k_row = a->kv * a->d, v_row = a->kv * a->e;
    if (first >= last || !rt_segments_overlap(&f->segments, query + first, last - first, key, keys))
        return;
    rt_pack_transposed(f->keys,
                       rt_rows(f->key, a->type,
                               rt_element(a->type, k, key * k_row), k_row, keys,
                               a->d),
                       keys, a->d);
    rt_pack(f->values, a->type, rt_element(a->type, v, key * v_row), v_row,
            keys, a->e);
    while (first < last) {
        RtSpan span = rt_span(a, query + first, last - first, f->shift, key, keys);
        forward_tile(a, f, q, query, &span);
        first += span.queries;
    }
}

/* What a call computes: o and lse, from those of the steps before; NULL: from nothing. `type` is
 * that of o. */
typedef struct Result {
    ParcType type;
    void *o;
    float *lse;
    const float *o_before, *lse_before;
} Result;

/* Divides the output rows by their sums, and stores them and lse: zeros for a row without
 * keys. */
static void store_output(const ParcAttention *a, const Forward *f, const Result *to,
                         int64_t query, int64_t queries)
{
    int64_t row = a->kv * a->g * a->e;
    float none = a->all_t ? RT_LOWEST : 0;
    for (int64_t i = 0; i < queries; i++) {
        bool empty = (f->segments.key || f->bias.at || a->all_t) && f->sum[i] <= 0;
        float over = empty ? 0 : 1 / f->sum[i];
        float *restrict out = f->out + i * rt_row(a->e);
        for (int64_t x = 0; x < a->e; x++)
            out[x] *= over;
        rt_narrow(to->type, rt_element_out(to->type, to->o, (query + i) * row), out,
                  a->e);
        to->lse[query + i] = empty ? none : f->top[i] + parc_log(f->sum[i]);
    }
}

/* Starts a block of queries from nothing, or from what the steps before have made. */
static void load_output(const ParcAttention *a, Forward *f, const Result *to, int64_t query,
                        int64_t queries)
{
    int64_t e = rt_row(a->e), row = a->kv * a->g * a->e;
    bool none = f->segments.key || f->bias.at || a->all_t;
    memset(f->out, 0, (size_t)(queries * e) * sizeof *f->out);
    for (int64_t i = 0; i < queries; i++) {
        f->top[i] = none ? RT_LOWEST : -INFINITY;
        f->sum[i] = 0;
        if (!to->o_before || to->lse_before[query + i] <= RT_LOWEST)
            continue;
        f->top[i] = to->lse_before[query + i];
        f->sum[i] = 1;
        rt_copy_row(f->out + i * e, to->o_before + (query + i) * row, a->e);
    }
}

static void forward_task(const ParcAttention *a, float *scratch, const Result *to, const void *q,
                         const void *k, const void *v, const RtPiece *piece, int64_t query,
                         int64_t b, int64_t h)
{
    Forward f = forward_scratch(a, scratch);
    f.row = rt_head_row(a, b, h);
    f.segments = rt_segments(a, b);
    f.bias = rt_bias(a, b, h);
    int64_t queries = rt_least(task_queries(a), piece->end - query);
    int64_t q_row = a->kv * a->g * a->d;
    RtRows block =
        rt_rows(f.query, a->type, rt_element(a->type, q, query * q_row), q_row,
                queries, a->d);
    load_output(a, &f, to, query, queries);
    for (int i = 0; i < rt_key_pieces(a); i++) {
        RtPiece keys = rt_key_piece(a, i);
        f.key_shift = keys.shift;
        f.shift = piece->shift - keys.shift;
        int64_t at = query + f.shift, end = rt_keys_end(a, &keys, at, queries);
        for (int64_t key = rt_keys_begin(a, &keys, at); key < end; key += RT_KEYS)
            forward_block(a, &f, block, k, v, query, queries, key, keys.end);
    }
    store_output(a, &f, to, query, queries);
}

/* The result of the head's queries, which begin at element `at` of o; lse at `row`. */
static Result result_of(const ParcAttention *a, const Result *of, int64_t at, int64_t row)
{
    Result r = *of;
    r.o = rt_element_out(of->type, of->o, at * a->e);
    r.lse = of->lse + row;
    if (of->o_before) {
        r.o_before = of->o_before + at * a->e;
        r.lse_before = of->lse_before + row;
    }
    return r;
}

static void attend(const ParcAttention *a, const Result *to, const void *q, const void *k,
                   const void *v, float *scratch)
{
    int64_t heads = a->kv * a->g, floats = forward_floats(a);
    ParcType type = a->type;
    int64_t queries = task_queries(a), pieces = rt_pieces(a);
    int64_t each = (a->s / pieces + queries - 1) / queries, blocks = each * pieces;
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < a->b * heads * blocks; task++) {
        /* Consecutive tasks share a head, so its keys and values stay in
         * cache. Within a head, the longest rows of a causal mask come
         * first. */
        int64_t block = blocks - 1 - task % blocks, head = task / blocks;
        int64_t b = head / heads, h = head % heads, kv = h / a->g, at = b * a->s * heads + h;
        RtPiece piece = rt_piece(a, (int)(block / each));
        Result own = result_of(a, to, at, (b * heads + h) * a->s);
        forward_task(a, scratch + omp_get_thread_num() * floats, &own,
                     rt_element(type, q, at * a->d),
                     rt_element(type, k, (b * a->t * a->kv + kv) * a->d),
                     rt_element(type, v, (b * a->t * a->kv + kv) * a->e),
                     &piece, piece.begin + block % each * queries, b, h);
    }
}

void parc_attention(ParcRt *rt, const ParcAttention *a, void *o, float *lse,
                    const void *q, const void *k, const void *v,
                    float *scratch)
{
    (void)rt;
    attend(a, &(Result){a->type, o, lse, NULL, NULL}, q, k, v, scratch);
}

void parc_attention_step(ParcRt *rt, const ParcAttention *a, float *o, float *lse,
                         const void *q, const void *k, const void *v, const float *o_before,
                         const float *lse_before, float *scratch)
{
    (void)rt;
    attend(a, &(Result){PARC_F32, o, lse, o_before, lse_before}, q, k, v, scratch);
}
