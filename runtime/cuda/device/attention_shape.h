/* attention_shape.h: declares the parameters of a call of the attention
 * kernels, and the part of the tensors that a block processes.
 *
 * q [b, s, kv * g, d], k [b, t, kv, d], v [b, t, kv, e], o [b, s, kv * g, e],
 * lse [b, kv * g, s], with b sequences of s queries and t keys, kv KV heads, g
 * query heads for each KV head, and head sizes d (q, k) and e (v, o). Head
 * sizes, the causal mask and whether there are a window, a softcap, segments or a
 * bias are constants of an instance, a kernel that is compiled for them; the other
 * parameters are arguments. The elements of a bias are bias_b, bias_h, bias_s and
 * bias_t apart in the direction of a dim; 0 if it does not have the dim.
 *
 * Of t_row keys of a sequence in memory the kernel takes t. A step of a ring
 * (ATTENTION_RING) has one piece of them, which begins at *first_t among all_t;
 * positions count from there, so that those of queries may be negative. It adds
 * to `before`, o or dq of the steps before, or NULL; its results are f32.
 */
#ifndef PARC_ATTENTION_SHAPE_H
#define PARC_ATTENTION_SHAPE_H

#include "attention_drop.h"

/* Converts exponents to base 2: e^(x scale) = 2^(x scale2). */
#define ATTENTION_LOG2E 1.44269504f
/* The maximum of a row that has seen no key: finite, so that -inf minus it is no NaN. */
#define ATTENTION_LOWEST (-1e30f)

/* The last arguments of each kernel. Floats are passed as their bits. */
#define ATTENTION_ARGUMENTS                                                    \
    int64_t sequences, int64_t s, int64_t t, int64_t kv, int64_t g,            \
        int64_t scale_bits,                                                    \
        int64_t drop_bits, int64_t site, const int64_t *key,                   \
        const int64_t *first_b, const int64_t *first_kv,                       \
        const int64_t *first_g, int64_t groups, int64_t heads, int64_t window,        \
        int64_t softcap_bits, const int32_t *query_segment,                    \
        const int32_t *key_segment, const float *bias, int64_t bias_b,         \
        int64_t bias_h, int64_t bias_s, int64_t bias_t, int64_t all_s,                \
        int64_t first_s, int64_t second_s, int64_t t_row, int64_t all_t,             \
        const int64_t *first_t, const float *before, const float *lse_before

/* Where the keys begin among all. */
#define ATTENTION_FIRST_KEY (ATTENTION_RING ? first_t[0] : 0)

PARC_DEVICE float attention_float(int64_t bits)
{
    return parc_from_bits((int32_t)bits);
}

/* The parameters of dropout for sequence b and head h of s queries; of all t keys those from
 * first_key on are here, from which queries are counted too. */
PARC_DEVICE AttentionDrop attention_drop(int64_t s, int64_t t, int64_t first_key, int64_t b,
                                         int64_t h, int64_t drop_bits,
                                         int64_t site, const int64_t *key,
                                         const int64_t *first_b,
                                         const int64_t *first_kv,
                                         const int64_t *first_g, int64_t groups,
                                         int64_t heads)
{
    AttentionDrop d;
    int64_t head = drop_number(first_kv) * groups + drop_number(first_g) + h;
    d.rate = attention_float(drop_bits);
    d.key = drop_number(key);
    d.site = (uint32_t)site;
    d.row = ((drop_number(first_b) + b) * heads + head) * s + first_key;
    d.first_key = first_key;
    d.row_keys = parc_weight_row(t);
    return d;
}

#define ATTENTION_DRAWN(b, h)                                                  \
    attention_drop(ATTENTION_PARTS ? all_s : s, ATTENTION_RING ? all_t : t,                  \
                   ATTENTION_FIRST_KEY, b, h, drop_bits, site, key, first_b, first_kv,       \
                   first_g, groups, heads)

/* The bias of a tile of head h of sequence b, from query q and key k on. */
#define ATTENTION_BIAS_AT(b, h, q, k)                                          \
    {                                                                          \
        bias + (b) * bias_b + (h) * bias_h + (q) * bias_s + (k) * bias_t,      \
            (int)bias_s, (int)bias_t, (int)s - (q), (int)t - (k)               \
    }

PARC_DEVICE int attention_less(int x, int y)
{
    return x < y ? x : y;
}

PARC_DEVICE int attention_more(int x, int y)
{
    return x > y ? x : y;
}

/* Queries begin … end - 1 of the rank, which follow each other among all: query i is
 * number i + shift of them. */
typedef struct AttentionQueries {
    int begin, end, shift;
} AttentionQueries;

/* Piece i of s queries. `parts`, a constant: the rank has a part of the queries; of two
 * pieces if second_s is not 0, from first_s and second_s on (ParcAttention). Numbers among
 * all are less those of the keys before first_key. */
PARC_DEVICE AttentionQueries attention_piece(int parts, int s, int i, int64_t first_s,
                                           int64_t second_s, int64_t first_key)
{
    AttentionQueries p = {0, s, 0};
    if (!parts)
        return p;
    if (second_s) {
        p.begin = i * (s / 2);
        p.end = p.begin + s / 2;
    }
    p.shift = (int)((i ? second_s : first_s) - first_key) - p.begin;
    return p;
}

/* The part of a block that owns queries. */
typedef struct AttentionPlace {
    int b, head, h;     /* sequence; head, counted over all sequences and
                           within one */
    int query, warp_first; /* first query of the block, of the warp */
    int limit, shift;   /* the end of its piece; to numbers among all queries */
    int begin, end, own_end; /* the keys that the block processes, from the begin
                                of a tile; the end of those of the warp */
} AttentionPlace;

/* `all`: heads of a sequence; `step`: keys of a tile; `window`: 0 for none.
 * `causal` is a constant. Of the blocks of a head, those with most keys come
 * first. parts, first_s, second_s, first_key: those of attention_piece. */
PARC_DEVICE AttentionPlace attention_place(int s, int t, int all, int block,
                                           int rows, int step, int causal,
                                           int window, int parts, int64_t first_s,
                                           int64_t second_s, int64_t first_key)
{
    AttentionPlace p;
    int pieces = parts && second_s ? 2 : 1;
    int each = (s / pieces + block - 1) / block, blocks = each * pieces;
    int i = (int)block_index(), from_last = blocks - 1 - i % blocks;
    AttentionQueries piece =
        attention_piece(parts, s, from_last / each, first_s, second_s, first_key);
    p.head = i / blocks;
    p.b = p.head / all;
    p.h = p.head % all;
    p.query = piece.begin + from_last % each * block;
    p.warp_first = p.query + warp_index() * rows;
    p.limit = piece.end;
    p.shift = piece.shift;
    int at = p.query + p.shift, warp_at = p.warp_first + p.shift;
    p.end = causal ? attention_less(t, at + block) : t;
    p.own_end = p.warp_first >= p.limit ? 0 : causal ? warp_at + rows : t;
    p.begin = window ? attention_more(0, at - window + 1) / step * step : 0;
    if (window && !causal) {
        p.end = attention_less(p.end, at + block + window - 1);
        p.own_end = attention_less(p.own_end, warp_at + rows + window - 1);
    }
    if (p.begin >= p.end) /* queries without keys */
        p.begin = p.end = 0;
    return p;
}
#define ATTENTION_PLACE(s, t, all, block, rows, step, window)                   \
    attention_place(s, t, all, block, rows, step, ATTENTION_CAUSAL, window,     \
                    ATTENTION_PARTS, first_s, second_s, ATTENTION_FIRST_KEY)

/* The part of a block that owns keys and a part of the columns. */
typedef struct AttentionKeys {
    int b, head, part; /* sequence; KV head */
    int key, warp_first; /* first key of the block, of the warp */
} AttentionKeys;

PARC_DEVICE AttentionKeys attention_keys(int t, int kv, int block, int rows,
                                         int parts)
{
    AttentionKeys p;
    int blocks = (t + block - 1) / block, i = (int)block_index() / parts;
    p.part = (int)block_index() % parts;
    p.b = i / blocks / kv;
    p.head = i / blocks % kv;
    p.key = i % blocks * block;
    p.warp_first = p.key + warp_index() * rows;
    return p;
}

/* Factors of scores, of scores as exponents of 2, and of kept weights. With a softcap
 * scores become softcap tanh(cap_scale x); scale2 is the factor of the tanh. */
typedef struct AttentionFactors {
    float scale, scale2, keep_scale, cap_scale;
} AttentionFactors;

/* `softcap` and `drop` are constants. */
PARC_DEVICE AttentionFactors attention_factors(int64_t scale_bits, int64_t softcap_bits,
                                               int64_t drop_bits, int softcap, int drop)
{
    AttentionFactors f;
    f.scale = attention_float(scale_bits);
    f.scale2 = (softcap ? attention_float(softcap_bits) : f.scale) * ATTENTION_LOG2E;
    f.cap_scale = softcap ? f.scale / attention_float(softcap_bits) : 1.0f;
    f.keep_scale = drop ? 1.0f / (1.0f - attention_float(drop_bits)) : 1.0f;
    return f;
}

/* Replaces n products x by tanh(by * x). */
PARC_DEVICE void attention_cap(float *score, int n, float by)
{
    PARC_UNROLL
    for (int i = 0; i < n; i++)
        score[i] = parc_tanh(score[i] * by);
}

/* Negates n products if their factor is negative. */
PARC_DEVICE void attention_apply_sign(float *score, int n, float scale)
{
    PARC_UNROLL
    for (int i = 0; i < n && scale < 0; i++)
        score[i] = -score[i];
}

/* The derivative of the softcap, 1 - tanh^2, of a score as exponent of 2. */
PARC_DEVICE float attention_cap_slope(float exponent, float scale2)
{
    float t = exponent / scale2;
    return parc_max(1.0f - t * t, 0.0f); /* masked scores are -inf */
}

/* Multiplies the kept of n elements by `scale`, and replaces the others by
 * 0. */
PARC_DEVICE void attention_drop_apply(float *to, const float *from,
                                      const uint32_t *kept, int n,
                                      float scale)
{
    PARC_UNROLL
    for (int i = 0; i < n; i++)
        to[i] = kept[i / 32] >> (i % 32) & 1 ? from[i] * scale : 0.0f;
}

/* Sets masked scores to -inf. `turned`: rows are keys. `keys`: the end of the
 * keys; `ahead`: the first query's index; both count from the tile's first
 * key. `window`: 0 for none. */
PARC_DEVICE void attention_mask(int half, int causal, int window, float *score,
                                int rows, int columns, int turned, int keys,
                                int ahead)
{
    const int per_row = rows * columns / 32 / (half ? rows / 8 : rows / 2);
    PARC_UNROLL
    for (int i = 0; i < rows * columns / 32; i++) {
        int r = i / per_row, c = i % per_row;
        int key = turned ? tile_row_of(half, rows, r) : tile_column_of(half, c);
        int query = ahead + (turned ? tile_column_of(half, c)
                                    : tile_row_of(half, rows, r));
        /* The distance, from 0 on for the keys of the window. */
        uint32_t far = (uint32_t)(query - key + (causal ? 0 : window - 1));
        if (key >= keys || (causal && !window && key > query) ||
            (window && far >= (uint32_t)(causal ? window : 2 * window - 1)))
            score[tile_register(half, columns, r, c)] = -INFINITY;
    }
}

/* Masks a tile: -inf for pairs of different segments. `query` and `key` have the segments
 * from the tile's first query and key on, of which `queries` and `keys` exist. rows, columns
 * and turned are those of attention_mask. */
PARC_DEVICE void attention_segments(int half, float *score, int rows, int columns,
                                    int turned, const int32_t *query, int queries,
                                    const int32_t *key, int keys)
{
    const int per_row = rows * columns / 32 / (half ? rows / 8 : rows / 2);
    PARC_UNROLL
    for (int i = 0; i < rows * columns / 32; i++) {
        int r = i / per_row, c = i % per_row;
        int down = tile_row_of(half, rows, r), across = tile_column_of(half, c);
        int q = turned ? across : down, k = turned ? down : across;
        if (q < queries && k < keys && query[q] != key[k])
            score[tile_register(half, columns, r, c)] = -INFINITY;
    }
}

/* The part of a bias that a tile reads: that of its first query and key, of which `queries`
 * and `keys` exist, and the elements between two queries and two keys. */
typedef struct AttentionBias {
    const float *at;
    int query_step, key_step, queries, keys;
} AttentionBias;

/* Adds `by` times the bias to a tile of scores, whose unit is 1 / by; -inf where the sum is
 * below ATTENTION_LOWEST / by. rows, columns and turned are those of attention_mask. */
PARC_DEVICE void attention_bias(int half, float *score, int rows, int columns, int turned,
                                const AttentionBias *bias, float by)
{
    const int per_row = rows * columns / 32 / (half ? rows / 8 : rows / 2);
    PARC_UNROLL
    for (int i = 0; i < rows * columns / 32; i++) {
        int r = i / per_row, c = i % per_row;
        int down = tile_row_of(half, rows, r), across = tile_column_of(half, c);
        int q = turned ? across : down, k = turned ? down : across;
        if (q < bias->queries && k < bias->keys) {
            float *x = &score[tile_register(half, columns, r, c)];
            *x += by * bias->at[q * bias->query_step + k * bias->key_step];
            if (*x < by * ATTENTION_LOWEST)
                *x = -INFINITY;
        }
    }
}

/* Whether all pairs of the queries first … first + queries - 1 and the keys 0 …
 * keys - 1 are attended. */
PARC_DEVICE int attention_full(int causal, int window, int first, int queries,
                               int keys)
{
    return !(causal && keys > first + 1) &&
           !(window && (first + queries > window || keys - first > window));
}

/* The first query that attends a key from `key` on, rounded down to a multiple
 * of `step`. */
PARC_DEVICE int attention_first(int causal, int window, int key, int step)
{
    int first = causal ? key : window ? attention_more(0, key - window + 1) : 0;
    return first / step * step;
}

/* Whether none of these pairs is attended. */
PARC_DEVICE int attention_none(int causal, int window, int first, int queries,
                               int keys)
{
    const int below = causal ? 0 : window - 1;
    if (!window)
        return causal && first + queries <= 0;
    return (uint32_t)(first + queries - 1 + below) >=
           (uint32_t)(queries + keys + window - 2 + below);
}

/* The tiles of queries that attend to keys of a block, of all heads that share them: head
 * h, query `query` of a piece. */
typedef struct AttentionWalk {
    int h, query;
    int piece, end, limit, shift; /* the end of the piece's tiles; AttentionPlace */
} AttentionWalk;

/* The next piece of the queries, or the first one for the next head. */
PARC_DEVICE void attention_next_piece(AttentionWalk *w, int causal, int window, int s, int key,
                                      int keys, int64_t first_s, int64_t second_s,
                                      int64_t first_key)
{
    const int first = causal ? key : key - window + 1;
    w->piece = second_s ? !w->piece : 0;
    w->h += !w->piece;
    AttentionQueries p = attention_piece(1, s, w->piece, first_s, second_s, first_key);
    w->query = causal || window ? attention_more(p.begin, first - p.shift) : p.begin;
    w->end = window ? attention_less(p.end, key + keys + window - 1 - p.shift) : p.end;
    w->limit = p.end;
    w->shift = p.shift;
}

/* Moves to the next tile of `step` queries; after the last h is g. `parts` is a constant. */
PARC_DEVICE void attention_next(AttentionWalk *w, int causal, int window, int s, int g,
                                int key, int keys, int step, int parts, int64_t first_s,
                                int64_t second_s, int64_t first_key)
{
    w->query += step;
    if (!parts && w->query >= w->end) {
        w->query = attention_first(causal, window, key, step);
        w->h++;
    }
    while (parts && w->query >= w->end && w->h < g)
        attention_next_piece(w, causal, window, s, key, keys, first_s, second_s, first_key);
}

/* The first tile; without any h is g. */
PARC_DEVICE AttentionWalk attention_walk(int causal, int window, int s, int g, int key,
                                         int keys, int step, int parts, int64_t first_s,
                                         int64_t second_s, int64_t first_key)
{
    AttentionWalk w = {-1, -step, 1, -step, s, 0};
    if (parts) {
        attention_next(&w, causal, window, s, g, key, keys, step, parts, first_s, second_s,
                       first_key);
        return w;
    }
    w.query = attention_first(causal, window, key, step);
    w.end = window ? attention_less(s, key + keys + window - 1) : s;
    w.h = w.query < w.end ? 0 : g;
    return w;
}

/* Whether rows of `width` elements are multiples of 16 bytes. */
#define ATTENTION_VECTORS(type, width)                                         \
    ((width) % ((type) == TILE_F32 ? 4 : 8) == 0)

/* Registers of a thread for a product, and for a sum with `width` columns. */
#define ATTENTION_REGISTERS(rows, columns) ((rows) * (columns) / PARC_WARP)
#define ATTENTION_SUMS(type, rows, width)                                      \
    ((type) == TILE_F32 ? (rows) * (((width) + 63) / 64 * 64) / 32             \
                        : (rows) * (((width) + 15) / 16 * 16) / 32)

#endif
