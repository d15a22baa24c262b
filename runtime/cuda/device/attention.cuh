/* attention.cuh: computes attention, forward, without a score matrix.
 *
 * Included once for each instance that a program needs.
 * requires: ATTENTION_NAME(kernel)   the symbol of one of its kernels
 *           ATTENTION_TYPE           TILE_BF16, …; ATTENTION_ELEMENT its C type
 *           ATTENTION_RESULT         the type of a pointer to results, which a step also reads
 *           ATTENTION_D, _E          columns of a head of q and k, and of v
 *           ATTENTION_CAUSAL, _WINDOW, _SOFTCAP, _SEGMENTS, _BIAS, _DROP, _PARTS, _RING   0 or 1
 *           FORWARD_ROWS, _WARPS, _THREADS, _BLOCKS, _KEYS   the tiles
 *                                    (rt_attention_plan.h)
 *
 * A block processes ROWS * WARPS queries of one head and loops over the keys,
 * KEYS at a time. Each warp keeps the running maximum, sum and output of its
 * queries (Milakov, Gimelshein: "Online normalizer calculation for softmax",
 * 2018; Dao: "FlashAttention-2", 2023). The values of a tile are loaded while
 * its keys are multiplied, and the next keys while the values are multiplied.
 *
 * With a causal mask query i attends to keys 0 … i, with a window to the keys
 * less than `window` away; the block loops over their tiles only. Consecutive blocks share a
 * head, so its keys stay in cache. Blocks with most keys come first, so the
 * last blocks to start are short.
 */
#include "attention_shape.h"

/* Whether a query may have no keys. */
#define ATTENTION_NO_KEYS (ATTENTION_SEGMENTS || ATTENTION_BIAS || ATTENTION_RING)

/* Adds the bias and masks a tile. `ahead`: the index of the warp's first query, counted from the tile's first
 * key; `keys` keys exist from that one on, and `held` queries; query_segment, key_segment:
 * theirs. */
PARC_DEVICE void ATTENTION_NAME(mask)(float *score, const AttentionBias *bias,
                                      float scale2, int near, int ahead, int keys,
                                      const int32_t *query_segment, int held,
                                      const int32_t *key_segment)
{
    enum { HALF = ATTENTION_TYPE != TILE_F32, ROWS = FORWARD_ROWS, KEYS = FORWARD_KEYS };
    if (ATTENTION_BIAS)
        attention_bias(HALF, score, ROWS, KEYS, 0, bias, ATTENTION_LOG2E / scale2);
    if (keys < KEYS || !attention_full(ATTENTION_CAUSAL, near, ahead, ROWS, KEYS))
        attention_mask(HALF, ATTENTION_CAUSAL, near, score, ROWS, KEYS, 0, keys, ahead);
    if (ATTENTION_SEGMENTS)
        attention_segments(HALF, score, ROWS, KEYS, 0, query_segment, held, key_segment,
                           keys);
}

/* Converts scores to weights, as powers of two, and rescales previous sums to
 * the new maximum. */
PARC_DEVICE void ATTENTION_NAME(softmax)(float *score, float *out, float *top,
                                         float *sum, float scale2)
{
    enum {
        TYPE = ATTENTION_TYPE, HALF = TYPE != TILE_F32, ROWS = FORWARD_ROWS,
        KEYS = FORWARD_KEYS, DOWN = HALF ? ROWS / 8 : ROWS / 2,
        WIDTH = ATTENTION_REGISTERS(ROWS, KEYS) / DOWN,
        SUMS = ATTENTION_SUMS(TYPE, ROWS, ATTENTION_E) / DOWN,
    };
    PARC_UNROLL
    for (int r = 0; r < DOWN; r++) {
        float high = top[r];
        PARC_UNROLL
        for (int c = 0; c < WIDTH; c++)
            high = parc_max(high, score[tile_register(HALF, KEYS, r, c)]);
        high = row_max(HALF, high);
        float shrink = parc_exp2((top[r] - high) * scale2);
        float less = high * scale2;
        top[r] = high;
        sum[r] *= shrink;
        PARC_UNROLL
        for (int c = 0; c < WIDTH; c++) {
            float *x = &score[tile_register(HALF, KEYS, r, c)];
            *x = parc_exp2(*x * scale2 - less);
            sum[r] += *x;
        }
        PARC_UNROLL
        for (int c = 0; c < SUMS; c++)
            out[tile_register(HALF, SUMS * (HALF ? 4 : 16), r, c)] *= shrink;
    }
}

/* Stores lse of the warp's first `held` rows, and replaces sum by the factor
 * of the outputs. */
PARC_DEVICE void ATTENTION_NAME(finish)(float *lse, int held, const float *top,
                                        float *sum, float scale2, float rate)
{
    enum {
        HALF = ATTENTION_TYPE != TILE_F32, ROWS = FORWARD_ROWS,
        DOWN = HALF ? ROWS / 8 : ROWS / 2,
    };
    PARC_UNROLL
    for (int r = 0; r < DOWN; r++) {
        const int row = tile_row_of(HALF, ROWS, r);
        float total = row_sum(HALF, sum[r]);
        if (row < held && tile_column_of(HALF, 0) == 0)
            lse[row] = ATTENTION_NO_KEYS && total <= 0
                           ? 0
                           : top[r] * (scale2 * (1 / ATTENTION_LOG2E)) + parc_log(total);
        sum[r] = 1.0f / (ATTENTION_DROP ? (1.0f - rate) * total : total);
        if (ATTENTION_NO_KEYS && total <= 0)
            sum[r] = 0;
    }
}

/* Of a step: merges the outputs with those before, whose lse is at lse_before or NULL. Stores
 * the new lse, and replaces sum by the factor of the outputs; `with` is that of those before.
 * The arguments else are those of `finish`. */
PARC_DEVICE void ATTENTION_NAME(merge)(float *lse, const float *lse_before, int held,
                                       const float *top, float *sum, float *with, float scale2,
                                       float rate)
{
    enum {
        HALF = ATTENTION_TYPE != TILE_F32, ROWS = FORWARD_ROWS,
        DOWN = HALF ? ROWS / 8 : ROWS / 2,
    };
    PARC_UNROLL
    for (int r = 0; r < DOWN; r++) {
        const int row = tile_row_of(HALF, ROWS, r);
        with[r] = lse_before && row < held ? lse_before[row] : ATTENTION_LOWEST;
    }
    warp_barrier(); /* all lanes have read what the new lse may overwrite */
    PARC_UNROLL
    for (int r = 0; r < DOWN; r++) {
        const int row = tile_row_of(HALF, ROWS, r);
        const float total = row_sum(HALF, sum[r]), old = with[r];
        const float own = total > 0 ? top[r] * (scale2 * (1 / ATTENTION_LOG2E)) + parc_log(total)
                                    : ATTENTION_LOWEST;
        const float high = parc_max(old, own);
        const int some = high > ATTENTION_LOWEST;
        const float x = some ? parc_exp(own - high) : 0.0f, y = some ? parc_exp(old - high) : 0.0f;
        const float all = some ? x + y : 1.0f;
        if (row < held && tile_column_of(HALF, 0) == 0)
            lse[row] = some ? high + parc_log(all) : ATTENTION_LOWEST;
        with[r] = y / all;
        sum[r] = total > 0 ? x / all / (ATTENTION_DROP ? (1.0f - rate) * total : total) : 0.0f;
    }
}

/* Stores the warp's first `held` rows of o, `stride` elements apart, through its rows of `tile`, and
 * their lse. */
PARC_DEVICE void ATTENTION_NAME(store)(ATTENTION_RESULT o, float *lse, const float *before,
                                       const float *lse_before, int held, int64_t stride,
                                       const float *out, const float *top, float *sum,
                                       float scale2, float rate, ATTENTION_ELEMENT *tile,
                                       int tile_row)
{
    enum { TYPE = ATTENTION_TYPE, E = ATTENTION_E, ROWS = FORWARD_ROWS };
#if ATTENTION_RING
    float with[TYPE != TILE_F32 ? ROWS / 8 : ROWS / 2];
    ATTENTION_NAME(merge)(lse, lse_before, held, top, sum, with, scale2, rate);
    tile_store_sums(TYPE, o, before, with, stride, held, E, out, ROWS, E, sum);
#else
    ATTENTION_NAME(finish)(lse, held, top, sum, scale2, rate);
    tile_store(TYPE, o, stride, held, E, ATTENTION_VECTORS(TYPE, E), out, ROWS, E, sum, tile,
               tile_row);
#endif
}

PARC_KERNEL(FORWARD_THREADS, FORWARD_BLOCKS)
ATTENTION_NAME(forward)(ATTENTION_RESULT o, float *lse,
                        const ATTENTION_ELEMENT *__restrict__ q,
                        const ATTENTION_ELEMENT *__restrict__ k,
                        const ATTENTION_ELEMENT *__restrict__ v,
                        ATTENTION_ARGUMENTS)
{
    enum {
        TYPE = ATTENTION_TYPE, HALF = TYPE != TILE_F32, D = ATTENTION_D,
        E = ATTENTION_E, ROWS = FORWARD_ROWS, KEYS = FORWARD_KEYS,
        QUERIES = ROWS * FORWARD_WARPS, DOWN = HALF ? ROWS / 8 : ROWS / 2,
        D_PAD = ATTENTION_COLUMNS(TYPE, D, 1),
        E_PAD = ATTENTION_COLUMNS(TYPE, E, 1),
        k_row = ATTENTION_ROW(TYPE, D_PAD), v_row = ATTENTION_ROW(TYPE, E_PAD),
        q_row = k_row > v_row ? k_row : v_row, /* o reuses this memory */
    };
    ATTENTION_ELEMENT *queries = (ATTENTION_ELEMENT *)parc_shared();
    ATTENTION_ELEMENT *keys = queries + QUERIES * q_row;
    ATTENTION_ELEMENT *values = keys + KEYS * k_row;
    float *exchange = (float *)(void *)(values + KEYS * v_row) +
                      warp_index() * ROWS * ATTENTION_WEIGHT_ROW(KEYS);
    float score[ATTENTION_REGISTERS(ROWS, KEYS)];
    float out[ATTENTION_SUMS(TYPE, ROWS, E)], top[DOWN], sum[DOWN];

    const int queries_all = (int)s, keys_all = (int)t, all = (int)(kv * g);
    const int near = ATTENTION_WINDOW ? (int)window : 0;
    const AttentionPlace at =
        ATTENTION_PLACE(queries_all, keys_all, all, QUERIES, ROWS, KEYS, near);
    const int b = at.b, h = at.h, warp_first = at.warp_first;
    const int warp_at = warp_first + at.shift;
    const AttentionFactors f = attention_factors(scale_bits, softcap_bits, drop_bits,
                                                 ATTENTION_SOFTCAP, ATTENTION_DROP);
    const float scale2 = parc_max(parc_abs(f.scale2), 1e-30f);
    q += ((b * s + at.query) * all + h) * D;
    k += ((b * t_row + at.begin) * kv + h / (int)g) * D;
    v += ((b * t_row + at.begin) * kv + h / (int)g) * E;

    tile_fill(top, DOWN, ATTENTION_WINDOW || ATTENTION_NO_KEYS ? ATTENTION_LOWEST : -INFINITY);
    tile_fill(sum, DOWN, 0);
    tile_fill(out, ATTENTION_SUMS(TYPE, ROWS, E), 0);
    tile_load(TYPE, queries, q_row, q, (int64_t)all * D,
              at.limit - at.query, QUERIES, D, D_PAD, FORWARD_THREADS);
    tile_load(TYPE, keys, k_row, k, kv * D, keys_all - at.begin, KEYS, D, D_PAD,
              FORWARD_THREADS);
    copy_async_commit();
    for (int first = at.begin; first < at.end; first += KEYS) {
        const int seen = first < at.own_end &&
                         !(near && first + KEYS <= warp_at - near + 1);
        copy_async_wait(0);
        block_barrier(); /* keys have arrived; values may be overwritten */
        tile_load(TYPE, values, v_row, v, kv * E, keys_all - first, KEYS, E,
                  E_PAD, FORWARD_THREADS);
        copy_async_commit();
        uint32_t kept[(ATTENTION_REGISTERS(ROWS, KEYS) + 31) / 32];
        if (seen && ATTENTION_DROP) {
            const AttentionDrop drop = ATTENTION_DRAWN(b, h);
            drop_tile(HALF, kept, ROWS, KEYS, 0, &drop, warp_at, first,
                      !ATTENTION_RING);
        }
        v += KEYS * kv * E;
        k += KEYS * kv * D;
        if (seen)
            tile_scores(TYPE, score, ROWS, KEYS, D_PAD,
                        queries + warp_index() * ROWS * q_row, q_row, keys,
                        k_row);
        copy_async_wait(0);
        block_barrier(); /* values have arrived; keys may be overwritten */
        if (first + KEYS < at.end)
            tile_load(TYPE, keys, k_row, k, kv * D, keys_all - first - KEYS,
                      KEYS, D, D_PAD, FORWARD_THREADS);
        copy_async_commit();
        if (!seen)
            continue;
        if (ATTENTION_SOFTCAP)
            attention_cap(score, ATTENTION_REGISTERS(ROWS, KEYS), f.cap_scale);
        else
            attention_apply_sign(score, ATTENTION_REGISTERS(ROWS, KEYS), f.scale);
        const AttentionBias part = ATTENTION_BIAS_AT(b, h, warp_first, first);
        ATTENTION_NAME(mask)(score, &part, scale2, near, warp_at - first, keys_all - first,
                             query_segment + b * s + warp_first, at.limit - warp_first,
                             key_segment + b * t_row + first);
        ATTENTION_NAME(softmax)(score, out, top, sum, scale2);
        if (ATTENTION_DROP)
            attention_drop_apply(score, score, kept,
                                 ATTENTION_REGISTERS(ROWS, KEYS), 1.0f);
        tile_add(TYPE, out, ROWS, E, KEYS, score, exchange, values, v_row);
    }

    const int64_t first = at.head * s + warp_first;
    const int64_t o_at = (((int64_t)b * s + warp_first) * all + h) * E;
    ATTENTION_NAME(store)(o + o_at, lse + first, before ? before + o_at : 0,
                          lse_before ? lse_before + first : 0, at.limit - warp_first,
                          (int64_t)all * E, out, top, sum, scale2, attention_float(drop_bits),
                          queries + warp_index() * ROWS * q_row, q_row);
}
#undef ATTENTION_NO_KEYS
