/* rt_attention_grad.c: computes attention, backward.
 *
 * The weights p = exp(score - lse) are recomputed tile by tile:
 *   dv = p' do          dp = do v'         D = rowsum(do * o)
 *   ds = p * (dp - D)   dq = scale ds k    dk = scale ds' q
 * With a softcap, ds is multiplied by the derivative of softcap tanh(x / softcap).
 * With dropout, p and dp are multiplied by the same factors as in the forward
 * pass, which are drawn a second time.
 *
 * The gradient of a bias is ds before the softcap's derivative, in a pass of its own.
 *
 * A task is one KV head of one sequence with all query heads that share it. It
 * loops over blocks of keys, and for each over the blocks of queries that
 * attend to it. It accumulates dk and dv in scratch, and dq in place if it is
 * f32, else in scratch, always in the same order.
 */
#include <omp.h>
#include <string.h>

#include "cpu/attention/rt_attention.h"
#include "cpu/rt_tile.h"
#include "parc_math.h"
#include "rt.h"

/* The scratch of a thread, in floats. Rows of d and e are rt_row long. */
typedef struct Backward {
    float *sums;     /* [g, s]: D */
    float *keys_t;   /* [d, KEY_ROW] */
    float *values_t; /* [e, KEY_ROW] */
    float *keys;     /* [KEYS, d] */
    float *dkeys;    /* [KEYS, d] */
    float *dvalues;  /* [KEYS, e] */
    float *query;    /* [QUERIES, d] */
    float *dout;     /* [QUERIES, e] */
    float *dquery;   /* [QUERIES, d] */
    float *weight;   /* [QUERIES, KEYS] */
    float *dscore;   /* [QUERIES, KEYS] */
    /* If elements are not f32: */
    float *query_sums; /* [g, s, d]: dq */
    float *rows;       /* [KEYS, d or e]: converted to f32 */
} Backward;

static Backward backward_scratch(const ParcAttention *a, float *base)
{
    int64_t d = rt_row(a->d), e = rt_row(a->e);
    Backward w;
    w.sums = base;
    w.keys_t = w.sums + a->g * a->s;
    w.values_t = w.keys_t + d * RT_KEY_ROW;
    w.keys = w.values_t + e * RT_KEY_ROW;
    w.dkeys = w.keys + RT_KEYS * d;
    w.dvalues = w.dkeys + RT_KEYS * d;
    w.query = w.dvalues + RT_KEYS * e;
    w.dout = w.query + RT_QUERIES * d;
    w.dquery = w.dout + RT_QUERIES * e;
    w.weight = w.dquery + RT_QUERIES * d;
    w.dscore = w.weight + RT_QUERIES * RT_KEYS;
    w.rows = w.dscore + RT_QUERIES * RT_KEYS;
    w.query_sums = w.rows + RT_KEYS * (d > e ? d : e);
    return w;
}

int64_t rt_attention_grad_floats(const ParcAttention *a)
{
    int64_t d = rt_row(a->d), e = rt_row(a->e);
    int64_t widened = a->type == PARC_F32
                          ? 0
                          : RT_KEYS * (d > e ? d : e) + a->g * a->s * a->d;
    return widened + a->g * a->s + RT_KEY_ROW * (d + e) + RT_KEYS * (2 * d + e) +
           RT_QUERIES * (2 * d + e + 2 * RT_KEYS);
}

/* The operands and results of a task: its own sequence and KV head, and the
 * first of its query heads. */
typedef struct Task {
    const ParcAttention *a;
    Backward w;
    void *dq, *dk, *dv;
    const void *d_o, *q, *k, *v, *o;
    const float *lse;
    float *sum;      /* dq in f32, accumulated over the blocks of keys */
    int64_t sum_row; /* distance between two queries in `sum` */
    int64_t row; /* index of the first head's first row of weights */
    int64_t b, head; /* the sequence, and the first head */
    RtSegments segments;
    bool of_bias; /* ds is the gradient of the bias */
    ParcType type;     /* of dq, dk and dv */
    int64_t key_shift; /* of the piece of the keys */
    const float *before; /* a step of a ring: dq of the steps before; NULL: none */
} Task;

/* Computes D of the queries begin … end - 1. */
static void sum_rows(const Task *t, int64_t begin, int64_t end)
{
    const ParcAttention *a = t->a;
    int64_t row = a->kv * a->g * a->e;
    for (int64_t h = 0; h < a->g; h++)
        for (int64_t i = begin; i < end; i++) {
            int64_t at = i * row + h * a->e;
            const float *x = rt_as_floats(
                a->type, rt_element(a->type, t->d_o, at), a->e, t->w.rows);
            const float *y = rt_as_floats(
                a->type, rt_element(a->type, t->o, at), a->e, t->w.dout);
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t c = 0; c < a->e; c++)
                sum += x[c] * y[c];
            t->w.sums[h * a->s + i] = sum;
        }
}

/* Replaces the products of a block's query by its scores, and writes the factors that
 * convert their gradients to those of the products: the scale and the softcap's slope. */
static void scores_row(const Task *t, const RtBias *bias, int64_t query, int64_t key,
                       float *restrict p, float *restrict slope, int columns)
{
    float scale = t->of_bias ? 1 : t->a->scale, by = rt_score_scale(t->a);
    int capped = t->a->softcap > 0;
    if (capped)
        rt_cap_row(t->a, p, columns);
#pragma omp simd
    for (int j = 0; j < columns; j++)
        slope[j] = parc_select(capped & !t->of_bias, (1 - p[j] * p[j]) * scale, scale);
    if (bias->at) {
        rt_bias_row(p, bias, query, key, rt_least(columns, t->a->t - key), by);
        return;
    }
#pragma omp simd
    for (int j = 0; j < columns; j++)
        p[j] *= by;
}

/* Replaces the products and dp of a block's query i by its weights and ds; zeros before
 * `first` and from `seen` on. `segment` has the segments of the keys, or is NULL. */
static void weights_row(const Task *t, int64_t i, const float *restrict slope, int first,
                        int seen, int columns, float lse, float sum,
                        const int32_t *segment, int32_t own)
{
    float *restrict p = t->w.weight + i * RT_KEYS;
    float *restrict ds = t->w.dscore + i * RT_KEYS;
#pragma omp simd
    for (int j = 0; j < columns; j++) {
        float x = parc_select((j >= first) & (j < seen), parc_exp(p[j] - lse), 0.0f);
        p[j] = x;
        ds[j] = x * (ds[j] - sum) * slope[j];
    }
    for (int j = 0; segment && j < seen; j++) {
        int same = segment[j] == own;
        p[j] = parc_select(same, p[j], 0.0f);
        ds[j] = parc_select(same, ds[j], 0.0f);
    }
}

static void add_dq(const Task *t, int64_t h, int64_t query, int64_t queries)
{
    const ParcAttention *a = t->a;
    int64_t d = rt_row(a->d);
    for (int64_t i = 0; i < queries; i++) {
        float *restrict to = t->sum + (query + i) * t->sum_row + h * a->d;
        const float *restrict from = t->w.dquery + i * d;
#pragma omp simd
        for (int64_t x = 0; x < a->d; x++)
            to[x] += from[x];
    }
}

/* Computes the weights and ds of a tile of head h; shift: RtPiece, less the keys'. False: the tile has
 * none. */
static bool tile_weights(const Task *t, int64_t h, int64_t shift, const RtSpan *span)
{
    const ParcAttention *a = t->a;
    const Backward *w = &t->w;
    int64_t heads = a->kv * a->g, d = rt_row(a->d), e = rt_row(a->e);
    int64_t query = span->query, queries = span->queries, key = span->key, keys = span->keys;
    int64_t columns = rt_padded(keys);
    const int32_t *segment = t->segments.key ? t->segments.key + key : NULL;
    RtBias bias = rt_bias(a, t->b, t->head + h);
    if (!rt_segments_overlap(&t->segments, query, queries, key, keys))
        return false;
    rt_pack(w->query, a->type,
            rt_element(a->type, t->q, (query * heads + h) * a->d),
            heads * a->d, queries, a->d);
    rt_pack(w->dout, a->type,
            rt_element(a->type, t->d_o, (query * heads + h) * a->e),
            heads * a->e, queries, a->e);
    rt_tile(&(RtTile){queries, columns, a->d, w->query, d, 1,
                      w->keys_t + span->skipped, RT_KEY_ROW, w->weight, RT_KEYS, false});
    rt_tile(&(RtTile){queries, columns, a->e, w->dout, e, 1,
                      w->values_t + span->skipped, RT_KEY_ROW, w->dscore, RT_KEYS, false});
    for (int64_t i = 0; i < queries; i++) {
        int64_t row = h * a->s + query + i, at = query + i + shift;
        float keep[RT_KEYS], slope[RT_KEYS];
        if (a->drop > 0) {
            rt_keep_row(a, keep, t->row + h * rt_all_queries(a) + at + t->key_shift,
                        key + t->key_shift);
            rt_scale_row(w->dscore + i * RT_KEYS, keep, columns);
        }
        scores_row(t, &bias, query + i, key, w->weight + i * RT_KEYS, slope, (int)columns);
        weights_row(t, i, slope, (int)rt_unseen(a, at, key),
                    (int)rt_seen(a, at, key, keys), (int)columns,
                    t->lse[row], w->sums[row], segment,
                    segment ? t->segments.query[query + i] : 0);
        if (a->drop > 0)
            rt_scale_row(w->weight + i * RT_KEYS, keep, columns);
    }
    return true;
}

/* Adds the gradients of a tile of head h. */
static void tile(const Task *t, int64_t h, int64_t shift, const RtSpan *span)
{
    const ParcAttention *a = t->a;
    const Backward *w = &t->w;
    int64_t d = rt_row(a->d), e = rt_row(a->e);
    if (!tile_weights(t, h, shift, span))
        return;
    rt_tile(&(RtTile){span->keys, rt_padded(a->e), span->queries, w->weight, 1, RT_KEYS,
                      w->dout, e, w->dvalues + span->skipped * e, e, true});
    rt_tile(&(RtTile){span->keys, rt_padded(a->d), span->queries, w->dscore, 1, RT_KEYS,
                      w->query, d, w->dkeys + span->skipped * d, d, true});
    rt_tile(&(RtTile){span->queries, rt_padded(a->d), span->keys, w->dscore, RT_KEYS, 1,
                      w->keys + span->skipped * d, d, w->dquery, d, false});
    add_dq(t, h, span->query, span->queries);
}

/* Stores rows of n elements, `from_row` apart, to rows of the result, `stride`
 * apart, from element `at` on. */
static void store_rows(ParcType type, void *to, int64_t at, int64_t stride,
                       const float *from, int64_t from_row, int64_t rows,
                       int64_t n)
{
    for (int64_t i = 0; i < rows; i++)
        rt_narrow(type, rt_element_out(type, to, at + i * stride),
                  from + i * from_row, n);
}

static void pack_keys(const Task *t, int64_t key, int64_t keys)
{
    const ParcAttention *a = t->a;
    const Backward *w = &t->w;
    int64_t k_row = a->kv * a->d, v_row = a->kv * a->e;
    rt_pack(w->keys, a->type, rt_element(a->type, t->k, key * k_row), k_row,
            keys, a->d);
    rt_pack_transposed(w->keys_t, (RtRows){w->keys, rt_row(a->d)}, keys, a->d);
    rt_pack_transposed(w->values_t,
                       rt_rows(w->rows, a->type,
                               rt_element(a->type, t->v, key * v_row), v_row,
                               keys, a->e),
                       keys, a->e);
}

/* The tiles of one piece of the queries and a block of keys. */
static void piece_tiles(const Task *t, int64_t h, int i, int64_t key, int64_t keys)
{
    const ParcAttention *a = t->a;
    RtPiece p = rt_piece(a, i);
    p.shift -= t->key_shift;
    int64_t begin = rt_queries_begin(a, key) - p.shift;
    int64_t end = rt_least(p.end, rt_queries_end(a, key, keys) - p.shift);
    for (int64_t q = begin > p.begin ? begin : p.begin; q < end;) {
        RtSpan span = rt_span(a, q, end - q, p.shift, key, keys);
        tile(t, h, p.shift, &span);
        q += span.queries;
    }
}

/* The block of keys from `key` to before `end`. */
static void key_block(const Task *t, int64_t key, int64_t end)
{
    const ParcAttention *a = t->a;
    const Backward *w = &t->w;
    int64_t keys = rt_least(RT_KEYS, end - key);
    int64_t d = rt_row(a->d), e = rt_row(a->e);
    int64_t k_row = a->kv * a->d, v_row = a->kv * a->e;
    pack_keys(t, key, keys);
    memset(w->dkeys, 0, (size_t)(keys * d) * sizeof *w->dkeys);
    memset(w->dvalues, 0, (size_t)(keys * e) * sizeof *w->dvalues);
    for (int64_t h = 0; h < a->g; h++)
        for (int i = 0; i < rt_pieces(a); i++)
            piece_tiles(t, h, i, key, keys);
    store_rows(t->type, t->dk, key * k_row, k_row, w->dkeys, d, keys, a->d);
    store_rows(t->type, t->dv, key * v_row, v_row, w->dvalues, e, keys, a->e);
}

static void backward_task(Task *t)
{
    const ParcAttention *a = t->a;
    int64_t row = a->kv * a->g * a->d;
    bool direct = t->type == PARC_F32;
    t->sum = direct ? t->dq : t->w.query_sums;
    t->sum_row = direct ? row : a->g * a->d;
    for (int64_t i = 0; i < a->s; i++) {
        float *row_sum = t->sum + i * t->sum_row;
        if (t->before && t->before + i * row != row_sum)
            memcpy(row_sum, t->before + i * row, (size_t)(a->g * a->d) * sizeof *t->sum);
        else if (!t->before)
            memset(row_sum, 0, (size_t)(a->g * a->d) * sizeof *t->sum);
    }
    sum_rows(t, 0, a->s);
    for (int i = 0; i < rt_key_pieces(a); i++) {
        RtPiece keys = rt_key_piece(a, i);
        t->key_shift = keys.shift;
        for (int64_t key = keys.begin; key < keys.end; key += RT_KEYS)
            key_block(t, key, keys.end);
    }
    if (!direct)
        store_rows(t->type, t->dq, 0, row, t->sum, t->sum_row, a->s,
                   a->g * a->d);
}

/* What the backward passes read. */
typedef struct Inputs {
    const void *d_o, *q, *k, *v, *o;
    const float *lse;
} Inputs;

/* The task of KV head `kv` of sequence b, without its results. */
static Task task_of(const ParcAttention *a, const Inputs *in, int64_t b, int64_t kv,
                    float *scratch)
{
    int64_t heads = a->kv * a->g, query = b * a->s * heads + kv * a->g;
    int64_t key = b * a->t * a->kv + kv;
    ParcType type = a->type;
    return (Task){
        .a = a,
        .w = backward_scratch(a, scratch + omp_get_thread_num() * rt_attention_grad_floats(a)),
        .d_o = rt_element(type, in->d_o, query * a->e),
        .q = rt_element(type, in->q, query * a->d),
        .k = rt_element(type, in->k, key * a->d),
        .v = rt_element(type, in->v, key * a->e),
        .o = rt_element(type, in->o, query * a->e),
        .lse = in->lse + (b * heads + kv * a->g) * a->s,
        .row = rt_head_row(a, b, kv * a->g),
        .b = b,
        .head = kv * a->g,
        .segments = rt_segments(a, b)};
}

/* dq, dk and dv, of a type. */
typedef struct Gradients {
    ParcType type;
    void *dq, *dk, *dv;
    const float *before;
} Gradients;

static void attend_backward(const ParcAttention *a, const Gradients *to, const Inputs *in,
                            float *scratch)
{
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < a->b * a->kv; i++) {
        int64_t b = i / a->kv, kv = i % a->kv;
        int64_t key = b * a->t * a->kv + kv, query = (b * a->s * a->kv + kv) * a->g;
        Task t = task_of(a, in, b, kv, scratch);
        t.type = to->type;
        t.dq = rt_element_out(t.type, to->dq, query * a->d);
        t.dk = rt_element_out(t.type, to->dk, key * a->d);
        t.dv = rt_element_out(t.type, to->dv, key * a->e);
        t.before = to->before ? to->before + query * a->d : NULL;
        backward_task(&t);
    }
}

void parc_attention_grad(ParcRt *rt, const ParcAttention *a, void *dq, void *dk,
                         void *dv, const void *d_o, const void *q,
                         const void *k, const void *v, const void *o,
                         const float *lse, float *scratch)
{
    (void)rt;
    attend_backward(a, &(Gradients){a->type, dq, dk, dv, NULL},
                    &(Inputs){d_o, q, k, v, o, lse}, scratch);
}

void parc_attention_grad_step(ParcRt *rt, const ParcAttention *a, float *dq, float *dk,
                              float *dv, const void *d_o, const void *q, const void *k,
                              const void *v, const void *o_all, const float *lse_all,
                              const float *dq_before, float *scratch)
{
    (void)rt;
    attend_backward(a, &(Gradients){PARC_F32, dq, dk, dv, dq_before},
                    &(Inputs){d_o, q, k, v, o_all, lse_all}, scratch);
}

/* ---- the bias ------------------------------------------------------------ */

/* Adds ds of a block of queries of head h to the rows `to` [queries, t]. */
static void add_bias_rows(Task *t, int64_t h, int64_t query, int64_t queries,
                          int64_t shift, float *restrict to)
{
    const ParcAttention *a = t->a;
    const RtPiece keys = {0, a->t, 0};
    int64_t at = query + shift, end = rt_keys_end(a, &keys, at, queries);
    sum_rows(t, query, query + queries);
    for (int64_t key = rt_keys_begin(a, &keys, at); key < end; key += RT_KEYS) {
        int64_t all = rt_least(RT_KEYS, a->t - key);
        RtSpan span = {query, queries, key, rt_seen(a, at + queries - 1, key, all), 0};
        pack_keys(t, key, all);
        if (!tile_weights(t, h, shift, &span))
            continue;
        for (int64_t i = 0; i < queries; i++) {
            float *restrict row = to + i * a->t + key;
            const float *restrict ds = t->w.dscore + i * RT_KEYS;
#pragma omp simd
            for (int64_t j = 0; j < span.keys; j++)
                row[j] += ds[j];
        }
    }
}

/* A task is a block of queries of one head of one sequence, or of all those that share a
 * row of the bias. */
void parc_attention_bias_grad(ParcRt *rt, const ParcAttention *a, float *dbias,
                              const void *d_o, const void *q, const void *k,
                              const void *v, const void *o, const float *lse,
                              float *scratch)
{
    const Inputs in = {d_o, q, k, v, o, lse};
    int64_t pieces = rt_pieces(a), each = (a->s / pieces + RT_QUERIES - 1) / RT_QUERIES;
    int64_t blocks = each * pieces, heads = a->kv * a->g;
    int64_t step[RT_BIAS_DIMS];
    (void)rt;
    rt_bias_steps(a, step);
    int64_t own_b = step[0] ? a->b : 1, own_h = step[1] ? heads : 1;
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < own_b * own_h * blocks; i++) {
        RtPiece piece = rt_piece(a, (int)(i % blocks / each));
        int64_t query = piece.begin + i % each * RT_QUERIES;
        int64_t h = i / blocks % own_h, b = i / blocks / own_h;
        int64_t queries = rt_least(RT_QUERIES, piece.end - query);
        float *to = dbias + b * step[0] + h * step[1] + query * step[2];
        memset(to, 0, (size_t)(queries * a->t) * sizeof *to);
        for (int64_t x = b; x < a->b; x += own_b)
            for (int64_t y = h; y < heads; y += own_h) {
                Task t = task_of(a, &in, x, y / a->g, scratch);
                t.of_bias = true;
                add_bias_rows(&t, y % a->g, query, queries, piece.shift, to);
            }
    }
}
