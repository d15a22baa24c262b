/* rt_attention.h: defines the block sizes and helper functions that attention's
 * forward and backward passes share.
 *
 * Both process blocks of QUERIES by KEYS scores. Packed blocks have rows
 * padded with zeros to whole vectors, so tile products need no remainder loop.
 */
#ifndef PARC_RT_ATTENTION_H
#define PARC_RT_ATTENTION_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/bias.h"
#include "common/type.h"
#include "cpu/rt_tile.h"
#include "parc_attention.h"
#include "parc_math.h"
#include "parc_random.h"

/* KEY_ROW is rt_row(KEYS). Where a mask crosses a block of keys, a tile has EDGE_QUERIES. */
enum { RT_QUERIES = 48, RT_EDGE_QUERIES = 12, RT_KEYS = 64, RT_KEY_ROW = 80 };

/* Floats of scratch that a thread of the backward pass needs. */
int64_t rt_attention_grad_floats(const ParcAttention *a);

static inline int64_t rt_all_queries(const ParcAttention *a)
{
    return a->all_s ? a->all_s : a->s;
}

/* Queries begin … end - 1 of this rank, which follow each other among all: query i is
 * number i + shift of them. */
typedef struct RtPiece {
    int64_t begin, end, shift;
} RtPiece;

static inline int rt_pieces(const ParcAttention *a)
{
    return a->second_s > 0 ? 2 : 1;
}

static inline RtPiece rt_piece(const ParcAttention *a, int i)
{
    int64_t n = a->s / rt_pieces(a), begin = i * n;
    return (RtPiece){begin, begin + n, (i ? a->second_s : a->first_s) - begin};
}

/* All keys; those of this rank, which may be two pieces of them: key i of a piece is number
 * i + shift. */
static inline int64_t rt_all_keys(const ParcAttention *a)
{
    return a->all_t ? a->all_t : a->t;
}
static inline int rt_key_pieces(const ParcAttention *a)
{
    return a->all_t ? (int)a->key_pieces : 1;
}
static inline RtPiece rt_key_piece(const ParcAttention *a, int i)
{
    int64_t n = a->t / rt_key_pieces(a), begin = i * n;
    return (RtPiece){begin, begin + n, a->all_t ? a->first_t[i] - begin : 0};
}

/* The functions below take numbers of queries among all, less the shift of the piece of the
 * keys, so that they are on one scale with the numbers of this rank's keys. They may be
 * negative.
 *
 * Of the `keys` keys from `key` on, a query attends to those from rt_unseen to
 * rt_seen - 1; there may be none. */
static inline int64_t rt_seen(const ParcAttention *a, int64_t query,
                              int64_t key, int64_t keys)
{
    if (a->causal)
        return rt_least(keys, query - key + 1);
    return a->window > 0 ? rt_least(keys, query + a->window - key) : keys;
}
static inline int64_t rt_unseen(const ParcAttention *a, int64_t query,
                                int64_t key)
{
    int64_t first = query - a->window + 1 - key;
    return a->window > 0 && first > 0 ? first : 0;
}

/* The keys begin … end - 1 of a piece to which some of the queries attend; begin is a multiple
 * of RT_PAD from the piece's first. */
static inline int64_t rt_keys_begin(const ParcAttention *a, const RtPiece *keys, int64_t query)
{
    return keys->begin + rt_unseen(a, query, keys->begin) / RT_PAD * RT_PAD;
}
static inline int64_t rt_keys_end(const ParcAttention *a, const RtPiece *keys, int64_t query,
                                  int64_t queries)
{
    int64_t begin = keys->begin;
    return begin + rt_seen(a, query + queries - 1, begin, keys->end - begin);
}

/* The queries begin … end - 1 that attend to some of the keys. */
static inline int64_t rt_queries_begin(const ParcAttention *a, int64_t key)
{
    return a->causal ? key : a->window > 0 ? key - a->window + 1 : INT64_MIN / 2;
}
static inline int64_t rt_queries_end(const ParcAttention *a, int64_t key,
                                     int64_t keys)
{
    return a->window > 0 ? key + keys + a->window - 1 : INT64_MAX / 2;
}

/* A tile: the queries `query` … query + queries - 1 of this rank and the keys `key` …
 * key + keys - 1, which are `skipped` after the first of the packed block. */
typedef struct RtSpan {
    int64_t query, queries, key, keys, skipped;
} RtSpan;

/* The next tile of a block of keys, from `query` on, at most `queries` of them: a part of
 * the queries and keys where a mask crosses the block, so that few of the tile's scores are
 * masked. shift: RtPiece. */
static inline RtSpan rt_span(const ParcAttention *a, int64_t query, int64_t queries,
                             int64_t shift, int64_t key, int64_t keys)
{
    int64_t at = query + shift, n = rt_least(queries, RT_QUERIES);
    if (rt_seen(a, at, key, keys) < keys || rt_unseen(a, at + n - 1, key) > 0)
        n = rt_least(n, RT_EDGE_QUERIES);
    int64_t skipped = rt_unseen(a, at, key) / RT_PAD * RT_PAD;
    return (RtSpan){query, n, key + skipped, rt_seen(a, at + n - 1, key, keys) - skipped,
                    skipped};
}

/* Replaces n products of queries and keys by tanh(product * scale / softcap). Requires a
 * softcap. */
static inline void rt_cap_row(const ParcAttention *a, float *restrict x, int64_t n)
{
    float by = a->scale / a->softcap;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = parc_tanh(x[i] * by);
}
/* The factor that converts products, or with a softcap their tanh, to scores. */
static inline float rt_score_scale(const ParcAttention *a)
{
    return a->softcap > 0 ? a->softcap : a->scale;
}

/* The maximum of a row that has seen no key: finite, so that -inf minus it is no NaN. */
#define RT_LOWEST (-1e30f)

/* The segments of the queries and keys of one sequence; NULL: there are none. */
typedef struct RtSegments {
    const int32_t *query, *key;
} RtSegments;

static inline RtSegments rt_segments(const ParcAttention *a, int64_t b)
{
    if (!a->segments)
        return (RtSegments){NULL, NULL};
    return (RtSegments){a->query_segment + b * a->s, a->key_segment + b * a->t};
}

/* Replaces n scores x of a query by x * scale, or by -inf if the key has another segment. */
static inline void rt_segment_row(float *restrict x, const int32_t *restrict key,
                                  int32_t query, int64_t n, float scale)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = parc_select(key[i] == query, x[i] * scale, -INFINITY);
}

static inline void rt_segment_range(const int32_t *x, int64_t n, int32_t range[2])
{
    int32_t least = x[0], most = x[0];
    for (int64_t i = 1; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    range[0] = least;
    range[1] = most;
}

/* Whether the segments of a block of queries and one of keys may have numbers in common. */
static inline bool rt_segments_overlap(const RtSegments *s, int64_t query, int64_t queries,
                                    int64_t key, int64_t keys)
{
    int32_t a[2], b[2];
    if (!s->key)
        return true;
    rt_segment_range(s->query + query, queries, a);
    rt_segment_range(s->key + key, keys, b);
    return a[0] <= b[1] && b[0] <= a[1];
}

/* What is added to the scores of one head of one sequence, with the steps in elements
 * between two queries and two keys. `at` is NULL without a bias. */
typedef struct RtBias {
    const float *at;
    int64_t query, key;
} RtBias;

static inline RtBias rt_bias(const ParcAttention *a, int64_t b, int64_t h)
{
    int64_t step[RT_BIAS_DIMS];
    if (!a->bias_dims)
        return (RtBias){NULL, 0, 0};
    rt_bias_steps(a, step);
    return (RtBias){a->bias + b * step[0] + h * step[1], step[2], step[3]};
}

/* Replaces n scores x, from key `key` of a query on, by x * scale + bias, or by -inf if
 * that is below RT_LOWEST. */
static inline void rt_bias_row(float *restrict x, const RtBias *bias, int64_t query,
                               int64_t key, int64_t n, float scale)
{
    const float *restrict y = bias->at + query * bias->query + key * bias->key;
    bool same = bias->key == 0;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float score = x[i] * scale + y[same ? 0 : i];
        x[i] = parc_select(score < RT_LOWEST, -INFINITY, score);
    }
}

/* Copies a short row without a call of memcpy. */
static inline void rt_copy_row(float *restrict to, const float *restrict from,
                               int64_t n)
{
    int64_t x = 0;
    for (; x + RT_LANES <= n; x += RT_LANES)
        *(RtUnaligned *)(to + x) = *(const RtUnaligned *)(from + x);
    for (; x < n; x++)
        to[x] = from[x];
}

/* A scalar in the arena; 0 if `at` is NULL. */
static inline int64_t rt_number(const int64_t *at)
{
    return at ? *at : 0;
}

/* The index of a head's first row of weights in the global tensor. */
static inline int64_t rt_head_row(const ParcAttention *a, int64_t b, int64_t h)
{
    int64_t first = rt_number(a->first_kv) * a->groups + rt_number(a->first_g);
    return ((rt_number(a->first_b) + b) * a->heads + first + h) * rt_all_queries(a);
}

/* The factors of dropout for the weights of a row, from key `key` of all on. The
 * index of a weight counts padded rows (parc_weight_row), so a block of keys
 * is drawn in one call. Columns after the last key are arbitrary. */
static inline void rt_keep_row(const ParcAttention *a, float keep[RT_KEYS],
                               int64_t row, int64_t key)
{
    int64_t length = parc_weight_row(rt_all_keys(a));
    float drop = a->drop, scale = 1 / (1 - drop);
    parc_random_row(keep, rt_number(a->key), a->site, row * length + key,
                    RT_KEYS);
#pragma omp simd
    for (int64_t j = 0; j < RT_KEYS; j++)
        keep[j] = parc_select(keep[j] < drop, 0.0f, scale);
}

static inline void rt_scale_row(float *restrict x, const float *restrict by,
                                int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] *= by[i];
}

/* Packs rows of n elements, `stride` apart, to to[rows, row(n)]. */
static inline void rt_pack(float *to, ParcType type, const void *from,
                           int64_t stride, int64_t rows, int64_t n)
{
    int64_t wide = rt_padded(n), row = rt_row(n);
    for (int64_t i = 0; i < rows; i++) {
        const void *line = rt_element(type, from, i * stride);
        if (type == PARC_F32)
            rt_copy_row(to + i * row, line, n);
        else
            rt_widen(to + i * row, type, line, n);
        for (int64_t x = n; x < wide; x++)
            to[i * row + x] = 0;
    }
}

/* Rows of floats, `stride` apart. */
typedef struct RtRows {
    const float *at;
    int64_t stride;
} RtRows;

/* The rows as floats: in place if they are f32, else packed into `scratch`. */
static inline RtRows rt_rows(float *scratch, ParcType type, const void *from,
                             int64_t stride, int64_t rows, int64_t n)
{
    if (type == PARC_F32)
        return (RtRows){from, stride};
    rt_pack(scratch, type, from, stride, rows, n);
    return (RtRows){scratch, rt_row(n)};
}

/* Packs rows of n floats as to[n, KEY_ROW]: row i becomes column i. Columns
 * from `rows` to padded(rows) are zeros. */
static inline void rt_pack_transposed(float *restrict to, RtRows rows_of,
                                      int64_t rows, int64_t n)
{
    const float *restrict from = rows_of.at;
    int64_t stride = rows_of.stride;
    int64_t wide = rt_padded(rows), fours = rows / 4 * 4, done = n / 4 * 4;
    for (int64_t i = 0; i < fours; i += 4) {
        const float *at = from + i * stride;
        const float *const line[4] = {at, at + stride, at + 2 * stride,
                                      at + 3 * stride};
        for (int64_t x = 0; x < done; x += 4)
            rt_transpose_four(to + x * RT_KEY_ROW + i, RT_KEY_ROW, line, x);
    }
    for (int64_t x = 0; x < n; x++) {
        for (int64_t i = x < done ? fours : 0; i < rows; i++)
            to[x * RT_KEY_ROW + i] = from[i * stride + x];
        for (int64_t i = rows; i < wide; i++)
            to[x * RT_KEY_ROW + i] = 0;
    }
}

#endif
