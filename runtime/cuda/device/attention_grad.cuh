/* attention_grad.cuh: computes attention, backward, without a score matrix.
 *
 * requires: what attention_weights.cuh requires, and the tiles of two kernels: QUERY_ROWS, _WARPS, _THREADS, _BLOCKS, _KEYS of
 *           `query`, KEY_ROWS, _WARPS, _THREADS, _BLOCKS, _QUERIES, _PARTS of
 *           `key` (a block sums one part of the columns, for lack of
 *           registers). A kernel without sizes is omitted
 *
 * The weights p = exp(score - lse) are recomputed tile by tile:
 *   dv = p' do          dp = do v'         delta = rowsum(do * o)
 *   ds = p * (dp - delta)   dq = scale ds k    dk = scale ds' q
 * With a softcap, ds is multiplied by the derivative of softcap tanh(x / softcap).
 * With dropout, p and dp are multiplied by the same factors as in the forward
 * pass, which are drawn a second time.
 *
 * Three kernels run in this order: `delta`; `query`, whose blocks own queries,
 * loop over the keys and sum dq; `key`, whose blocks own keys, loop over the
 * queries of all heads that share them and sum dk and dv. Scores are computed
 * twice, but every sum has one owner and one order: no atomics, and the same
 * bits each time. While a tile is multiplied, the next tile is loaded to the
 * other half of the buffer.
 */
#include "attention_weights.cuh"

/* ---- keys and values ----------------------------------------------------- */

#ifdef KEY_ROWS
#define KEY_SIZES                                                              \
    GRAD_SIZES(KEY_ROWS, KEY_QUERIES, KEY_PARTS), QUERIES = KEY_QUERIES,       \
    KEYS = ROWS * KEY_WARPS, D_PART = D_PAD / KEY_PARTS,                       \
    E_PART = E_PAD / KEY_PARTS

/* Loads a tile of queries of head `h`, from `query` on, and to `rows` their
 * lse [QUERIES] and delta [QUERIES]. Queries from `limit` on become zeros:
 * their d_o is 0, so they add nothing. */
PARC_DEVICE void ATTENTION_NAME(key_load)(
    ATTENTION_ELEMENT *tile, float *rows, const ATTENTION_ELEMENT *d_o,
    const ATTENTION_ELEMENT *q, const float *lse, const float *delta, int s,
    int64_t all, int b, int h, int query, int limit)
{
    enum { KEY_SIZES };
    int64_t at = ((int64_t)b * s + query) * all + h;
    int64_t row = (b * all + h) * s + query + thread_index();
    ATTENTION_NAME(load_pair)(tile, q + at * D, d_o + at * E, all, limit - query,
                              QUERIES, KEY_PARTS, KEY_THREADS);
    if (thread_index() < QUERIES) {
        int there = query + thread_index() < limit;
        copy_async4_if(there, rows + thread_index(), lse + row);
        copy_async4_if(there, rows + QUERIES + thread_index(), delta + row);
    }
}

/* Adds a tile of queries to the warp's part of dk and dv. `ahead`: the first
 * query's index, counted from the warp's first key. query_segment, key_segment: those of
 * the tile's `queries` queries and of the warp's `held` keys; bias: of both. */
PARC_DEVICE void ATTENTION_NAME(key_add)(
    float *k_sum, float *v_sum, const ATTENTION_ELEMENT *keys,
    const ATTENTION_ELEMENT *values, const ATTENTION_ELEMENT *tile,
    const float *rows, float *exchange, const uint32_t *kept,
    AttentionFactors f, int part, int ahead, int near, const int32_t *query_segment,
    int queries, const int32_t *key_segment, int held, const AttentionBias *bias)
{
    enum { KEY_SIZES };
    const ATTENTION_ELEMENT *outs = tile + QUERIES * k_row;
    float p[REGISTERS], ds[REGISTERS], slope[REGISTERS];
    tile_scores(TYPE, p, ROWS, QUERIES, D_PAD, keys, k_row, tile, k_row);
    if (ATTENTION_SOFTCAP)
        attention_cap(p, REGISTERS, f.cap_scale);
    PARC_UNROLL
    for (int i = 0; i < REGISTERS; i++)
        p[i] *= f.scale2;
    PARC_UNROLL
    for (int i = 0; i < REGISTERS && ATTENTION_SOFTCAP && ATTENTION_BIAS; i++)
        slope[i] = attention_cap_slope(p[i], f.scale2);
    if (ATTENTION_BIAS)
        attention_bias(HALF, p, ROWS, QUERIES, 1, bias, ATTENTION_LOG2E);
    if (!attention_full(ATTENTION_CAUSAL, near, ahead, QUERIES, ROWS))
        attention_mask(HALF, ATTENTION_CAUSAL, near, p, ROWS, QUERIES, 1, ROWS,
                       ahead);
    if (ATTENTION_SEGMENTS)
        attention_segments(HALF, p, ROWS, QUERIES, 1, query_segment, queries, key_segment,
                           held);
    PARC_UNROLL
    for (int i = 0; i < REGISTERS; i++) {
        int x = tile_register(HALF, QUERIES, i / WIDTH, i % WIDTH);
        float low = rows[tile_column_of(HALF, i % WIDTH)] * ATTENTION_LOG2E;
        p[x] = parc_exp2(p[x] - low);
    }
    if (ATTENTION_DROP)
        attention_drop_apply(ds, p, kept, REGISTERS, 1.0f);
    tile_add(TYPE, v_sum, ROWS, E_PART, QUERIES, ATTENTION_DROP ? ds : p,
             exchange, outs + part * E_PART, v_row);
    tile_scores(TYPE, ds, ROWS, QUERIES, E_PAD, values, v_row, outs, v_row);
    if (ATTENTION_DROP)
        attention_drop_apply(ds, ds, kept, REGISTERS, f.keep_scale);
    PARC_UNROLL
    for (int i = 0; i < REGISTERS; i++) {
        int x = tile_register(HALF, QUERIES, i / WIDTH, i % WIDTH);
        float mean = rows[QUERIES + tile_column_of(HALF, i % WIDTH)];
        ds[x] = p[x] * (ds[x] - mean);
        if (ATTENTION_SOFTCAP && ATTENTION_BIAS) {
            ds[x] *= slope[x];
        } else if (ATTENTION_SOFTCAP) { /* p is 2^(score - low) */
            float low = rows[tile_column_of(HALF, i % WIDTH)];
            ds[x] *= attention_cap_slope((parc_log(p[x]) + low) * ATTENTION_LOG2E, f.scale2);
        }
    }
    if (!HALF)
        warp_barrier(); /* the product for dv has read its weights */
    tile_add(TYPE, k_sum, ROWS, D_PART, QUERIES, ds, exchange,
             tile + part * D_PART, k_row);
}

/* Stores the warp's sums to the first `held` rows of dk and dv, through its
 * own rows of the tiles. dk and dv begin at the warp's first row. */
PARC_DEVICE void ATTENTION_NAME(key_store)(
    ATTENTION_RESULT dk, ATTENTION_RESULT dv, const float *k_sum,
    const float *v_sum, ATTENTION_ELEMENT *keys, ATTENTION_ELEMENT *values,
    AttentionFactors f, int part, int64_t kv, int held)
{
    enum { KEY_SIZES };
    float by[DOWN];
    tile_fill(by, DOWN, f.scale);
#if ATTENTION_RING
    tile_store_sums(TYPE, dk + part * D_PART, 0, 0, kv * D, held, D - part * D_PART, k_sum,
                    ROWS, D_PART, by);
    tile_fill(by, DOWN, f.keep_scale);
    tile_store_sums(TYPE, dv + part * E_PART, 0, 0, kv * E, held, E - part * E_PART, v_sum,
                    ROWS, E_PART, by);
#else
    tile_store(TYPE, dk + part * D_PART, kv * D, held, D - part * D_PART,
               ATTENTION_VECTORS(TYPE, D), k_sum, ROWS, D_PART, by, keys,
               k_row);
    tile_fill(by, DOWN, f.keep_scale);
    tile_store(TYPE, dv + part * E_PART, kv * E, held, E - part * E_PART,
               ATTENTION_VECTORS(TYPE, E), v_sum, ROWS, E_PART, by, values,
               v_row);
#endif
}

#define ATTENTION_WALKS                                                        \
    ATTENTION_CAUSAL, near, queries_all, (int)g, at.key, KEYS, QUERIES, ATTENTION_PARTS, \
        first_s, second_s, ATTENTION_FIRST_KEY

PARC_KERNEL(KEY_THREADS, KEY_BLOCKS)
ATTENTION_NAME(key)(ATTENTION_RESULT dk, ATTENTION_RESULT dv,
                    const ATTENTION_ELEMENT *__restrict__ d_o,
                    const ATTENTION_ELEMENT *__restrict__ q,
                    const ATTENTION_ELEMENT *__restrict__ k,
                    const ATTENTION_ELEMENT *__restrict__ v,
                    const float *__restrict__ lse,
                    const float *__restrict__ delta, ATTENTION_ARGUMENTS)
{
    enum { KEY_SIZES, half = QUERIES * (k_row + v_row) };
    ATTENTION_ELEMENT *keys = (ATTENTION_ELEMENT *)parc_shared();
    ATTENTION_ELEMENT *values = keys + KEYS * k_row;
    ATTENTION_ELEMENT *tiles = values + KEYS * v_row;
    float *rows = (float *)(void *)(tiles + 2 * half); /* [2][2][QUERIES] */
    float *exchange = rows + 4 * QUERIES +
                      warp_index() * ROWS * ATTENTION_WEIGHT_ROW(QUERIES);
    float k_sum[ATTENTION_SUMS(TYPE, ROWS, D_PART)];
    float v_sum[ATTENTION_SUMS(TYPE, ROWS, E_PART)];

    const int queries_all = (int)s, keys_all = (int)t;
    const AttentionKeys at =
        attention_keys(keys_all, (int)kv, KEYS, ROWS, KEY_PARTS);
    const int near = ATTENTION_WINDOW ? (int)window : 0;
    const AttentionFactors f =
        attention_factors(scale_bits, softcap_bits, drop_bits, ATTENTION_SOFTCAP,
                          ATTENTION_DROP);
    const int64_t first_row = (at.b * t_row + at.key) * kv + at.head;

    tile_fill(k_sum, ATTENTION_SUMS(TYPE, ROWS, D_PART), 0);
    tile_fill(v_sum, ATTENTION_SUMS(TYPE, ROWS, E_PART), 0);
    /* i: the half of the buffer in use. */
    AttentionWalk walk = attention_walk(ATTENTION_WALKS);
    if (walk.h < (int)g) {
        ATTENTION_NAME(load_pair)(keys, k + first_row * D, v + first_row * E,
                                  kv, keys_all - at.key, KEYS, KEY_PARTS,
                                  KEY_THREADS);
        ATTENTION_NAME(key_load)(tiles, rows, d_o, q, lse, delta, queries_all,
                                 kv * g, at.b, at.head * (int)g, walk.query, walk.limit);
    }
    copy_async_commit();
    keys += warp_index() * ROWS * k_row;
    values += warp_index() * ROWS * v_row;
    for (int i = 0; walk.h < (int)g; i ^= 1) {
        const int at_query = walk.query, at_head = walk.h;
        const int at_limit = walk.limit, at_shift = walk.shift;
        copy_async_wait(0);
        block_barrier(); /* this half has arrived; the other one may be
                            overwritten */
        attention_next(&walk, ATTENTION_WALKS);
        if (walk.h < (int)g)
            ATTENTION_NAME(key_load)(tiles + (i ^ 1) * half,
                                     rows + (i ^ 1) * 2 * QUERIES, d_o, q, lse,
                                     delta, queries_all, kv * g, at.b,
                                     at.head * (int)g + walk.h, walk.query, walk.limit);
        copy_async_commit();
        if (at.warp_first >= keys_all ||
            attention_none(ATTENTION_CAUSAL, near, at_query + at_shift - at.warp_first,
                           QUERIES, ROWS))
            continue;
        uint32_t kept[(REGISTERS + 31) / 32];
        if (ATTENTION_DROP) {
            const AttentionDrop drop =
                ATTENTION_DRAWN(at.b, at.head * g + at_head);
            drop_tile(HALF, kept, ROWS, QUERIES, 1, &drop, at_query + at_shift,
                      at.warp_first, !ATTENTION_RING);
        }
        const AttentionBias bias_part =
            ATTENTION_BIAS_AT(at.b, at.head * g + at_head, at_query, at.warp_first);
        ATTENTION_NAME(key_add)(k_sum, v_sum, keys, values, tiles + i * half,
                                rows + i * 2 * QUERIES, exchange, kept, f,
                                at.part, at_query + at_shift - at.warp_first, near,
                                query_segment + at.b * s + at_query, at_limit - at_query,
                                key_segment + at.b * t_row + at.warp_first,
                                keys_all - at.warp_first, &bias_part);
    }
    const int64_t own_row = (at.b * t_row + at.warp_first) * kv + at.head;
    ATTENTION_NAME(key_store)(dk + own_row * D, dv + own_row * E, k_sum, v_sum,
                              keys, values, f, at.part, kv,
                              keys_all - at.warp_first);
}
#undef ATTENTION_WALKS
#undef KEY_SIZES
#endif

/* ---- queries ------------------------------------------------------------- */

#ifdef QUERY_ROWS
PARC_KERNEL(QUERY_THREADS, QUERY_BLOCKS)
ATTENTION_NAME(query)(ATTENTION_RESULT dq,
                      const ATTENTION_ELEMENT *__restrict__ d_o,
                      const ATTENTION_ELEMENT *__restrict__ q,
                      const ATTENTION_ELEMENT *__restrict__ k,
                      const ATTENTION_ELEMENT *__restrict__ v,
                      const float *__restrict__ lse,
                      const float *__restrict__ delta, ATTENTION_ARGUMENTS)
{
    enum { QUERY_SIZES, half = KEYS * (k_row + v_row) };
    ATTENTION_ELEMENT *queries = (ATTENTION_ELEMENT *)parc_shared();
    ATTENTION_ELEMENT *outs = queries + QUERIES * k_row;
    ATTENTION_ELEMENT *tiles = outs + QUERIES * v_row;
    float *exchange = (float *)(void *)(tiles + 2 * half) +
                      warp_index() * ROWS * ATTENTION_WEIGHT_ROW(KEYS);
    float ds[REGISTERS], sum[ATTENTION_SUMS(TYPE, ROWS, D)];
    float low[DOWN], mean[DOWN];

    const int queries_all = (int)s, keys_all = (int)t, all = (int)(kv * g);
    const int near = ATTENTION_WINDOW ? (int)window : 0;
    const AttentionPlace at =
        ATTENTION_PLACE(queries_all, keys_all, all, QUERIES, ROWS, KEYS, near);
    const int b = at.b, h = at.h, warp_first = at.warp_first;
    const int warp_at = warp_first + at.shift;
    const AttentionFactors f =
        attention_factors(scale_bits, softcap_bits, drop_bits, ATTENTION_SOFTCAP,
                          ATTENTION_DROP);
    const AttentionDrop drop = ATTENTION_DRAWN(b, h);
    const int64_t first_row = ((int64_t)b * s + at.query) * all + h;
    k += ((b * t_row + at.begin) * kv + h / (int)g) * D;
    v += ((b * t_row + at.begin) * kv + h / (int)g) * E;

    ATTENTION_NAME(load_pair)(queries, q + first_row * D, d_o + first_row * E,
                              all, at.limit - at.query, QUERIES, 1,
                              QUERY_THREADS);
    ATTENTION_NAME(load_pair)(tiles + at.begin / KEYS % 2 * half, k, v, kv,
                              keys_all - at.begin, KEYS, 1, QUERY_THREADS);
    copy_async_commit();
    ATTENTION_NAME(query_rows)(low, mean, lse, delta, at.head * s, warp_first, at.limit);
    tile_fill(sum, ATTENTION_SUMS(TYPE, ROWS, D), 0);
    queries += warp_index() * ROWS * k_row;
    outs += warp_index() * ROWS * v_row;
    for (int first = at.begin; first < at.end; first += KEYS) {
        ATTENTION_ELEMENT *tile = tiles + (first / KEYS % 2) * half;
        copy_async_wait(0);
        block_barrier(); /* this half has arrived; the other one may be
                            overwritten */
        k += KEYS * kv * D;
        v += KEYS * kv * E;
        if (first + KEYS < at.end)
            ATTENTION_NAME(load_pair)(tiles + (first / KEYS + 1) % 2 * half, k,
                                      v, kv, keys_all - first - KEYS, KEYS, 1,
                                      QUERY_THREADS);
        copy_async_commit();
        if (first >= at.own_end ||
            (near && first + KEYS <= warp_at - near + 1))
            continue;
        uint32_t kept[(REGISTERS + 31) / 32];
        if (ATTENTION_DROP)
            drop_tile(HALF, kept, ROWS, KEYS, 0, &drop, warp_at, first,
                      !ATTENTION_RING);
        const AttentionBias bias_part = ATTENTION_BIAS_AT(b, h, warp_first, first);
        ATTENTION_NAME(query_weights)(ds, queries, outs, tile, low, mean, kept,
                                      f, keys_all - first, warp_at - first,
                                      near, query_segment + b * s + warp_first,
                                      at.limit - warp_first,
                                      key_segment + b * t_row + first, &bias_part, 0);
        tile_add(TYPE, sum, ROWS, D, KEYS, ds, exchange, tile, k_row);
    }

    tile_fill(low, DOWN, f.scale);
    const int64_t dq_at = (((int64_t)b * s + warp_first) * all + h) * D;
#if ATTENTION_RING
    tile_fill(mean, DOWN, 1.0f);
    tile_store_sums(TYPE, dq + dq_at, before ? before + dq_at : 0, mean, (int64_t)all * D,
                    at.limit - warp_first, D, sum, ROWS, D, low);
#else
    tile_store(TYPE, dq + dq_at, (int64_t)all * D, at.limit - warp_first, D,
               ATTENTION_VECTORS(TYPE, D), sum, ROWS, D, low, queries, k_row);
#endif
}
#undef QUERY_SIZES
#endif
#undef GRAD_SIZES
