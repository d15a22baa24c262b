/* attention_weights.cuh: recomputes the weights of attention and their gradients, for
 * attention_grad.cuh and attention_bias.cuh, which include it.
 *
 * requires: what attention.cuh requires; DELTA_THREADS of `delta`; QUERY_ROWS, _WARPS,
 *           _THREADS, _BLOCKS, _KEYS if a kernel owns queries
 */
#include "attention_shape.h"

#ifdef DELTA_THREADS
/* Each warp processes a row of o. The result is delta [b, kv * g, s]. */
PARC_KERNEL(DELTA_THREADS)
ATTENTION_NAME(delta)(float *__restrict__ delta,
                      const ATTENTION_ELEMENT *__restrict__ d_o,
                      const ATTENTION_ELEMENT *__restrict__ o, int64_t rows,
                      int64_t s, int64_t all)
{
    enum { E = ATTENTION_E, N = E % 4 == 0 ? 4 : 1 };
    int64_t row = block_index() * (DELTA_THREADS / PARC_WARP) + warp_index();
    float sum = 0, x[N], y[N];
    if (row >= rows)
        return;
    for (int c = lane_index() * N; c < E; c += PARC_WARP * N) {
        ATTENTION_READ(x, o + row * E + c, N);
        ATTENTION_READ(y, d_o + row * E + c, N);
        PARC_UNROLL
        for (int i = 0; i < N; i++)
            sum += x[i] * y[i];
    }
    sum = warp_sum(sum);
    int64_t position = row / all, h = row % all;
    if (lane_index() == 0)
        delta[(position / s * all + h) * s + position % s] = sum;
}
#endif

/* The sizes of a kernel whose warps own `rows` rows of one side and loop over
 * the other by `step`: registers of a thread, and columns and rows of a
 * tile. */
#define GRAD_SIZES(rows, step, parts)                                          \
    TYPE = ATTENTION_TYPE, HALF = TYPE != TILE_F32, D = ATTENTION_D,           \
    E = ATTENTION_E, ROWS = rows, DOWN = HALF ? ROWS / 8 : ROWS / 2,           \
    REGISTERS = ATTENTION_REGISTERS(ROWS, step), WIDTH = REGISTERS / DOWN,     \
    D_PAD = ATTENTION_COLUMNS(TYPE, D, parts),                                 \
    E_PAD = ATTENTION_COLUMNS(TYPE, E, parts),                                 \
    k_row = ATTENTION_ROW(TYPE, D_PAD), v_row = ATTENTION_ROW(TYPE, E_PAD)

/* Loads n rows of k and v, or of q and d_o, to a tile: first those of x, then
 * those of y. Consecutive rows are `stride` heads apart; the first `held` rows
 * exist. n, parts and threads are constants. */
PARC_DEVICE void ATTENTION_NAME(load_pair)(ATTENTION_ELEMENT *tile,
                                           const ATTENTION_ELEMENT *x,
                                           const ATTENTION_ELEMENT *y,
                                           int64_t stride, int held, int n,
                                           int parts, int threads)
{
    const int type = ATTENTION_TYPE, d = ATTENTION_D, e = ATTENTION_E;
    const int d_pad = ATTENTION_COLUMNS(type, d, parts);
    const int e_pad = ATTENTION_COLUMNS(type, e, parts);
    const int x_row = ATTENTION_ROW(type, d_pad);
    tile_load(type, tile, x_row, x, stride * d, held, n, d, d_pad, threads);
    tile_load(type, tile + n * x_row, ATTENTION_ROW(type, e_pad), y, stride * e,
              held, n, e, e_pad, threads);
}

/* ---- queries ------------------------------------------------------------- */

#ifdef QUERY_ROWS
#define QUERY_SIZES                                                            \
    GRAD_SIZES(QUERY_ROWS, QUERY_KEYS, 1), KEYS = QUERY_KEYS,                  \
    QUERIES = ROWS * QUERY_WARPS

/* Reads lse (in base 2) and delta of the warp's rows, which begin at element `at` + `first`;
 * `rows` exist from `at` on, and others have no weights. */
PARC_DEVICE void ATTENTION_NAME(query_rows)(float *low, float *mean, const float *lse,
                                            const float *delta, int64_t at, int first,
                                            int rows)
{
    enum { QUERY_SIZES };
    PARC_UNROLL
    for (int r = 0; r < DOWN; r++) {
        const int row = first + tile_row_of(HALF, ROWS, r);
        low[r] = row < rows ? lse[at + row] * ATTENTION_LOG2E : INFINITY;
        mean[r] = row < rows ? delta[at + row] : 0.0f;
    }
}

/* Computes ds of the warp's rows and a tile. low, mean: lse (in base 2) and
 * delta of each row. `keys`: the end of the keys; `ahead`: the index of the
 * warp's first query; both count from the tile's first key. query_segment, key_segment:
 * those of the warp's `held` rows and of the tile's keys; bias: of both. of_scores, a
 * constant: ds are the gradients of scores with the softcap, of the bias that is. */
PARC_DEVICE void ATTENTION_NAME(query_weights)(
    float *ds, const ATTENTION_ELEMENT *queries, const ATTENTION_ELEMENT *outs,
    const ATTENTION_ELEMENT *tile, const float *low, const float *mean,
    const uint32_t *kept, AttentionFactors f, int keys, int ahead, int near,
    const int32_t *query_segment, int held, const int32_t *key_segment,
    const AttentionBias *bias, int of_scores)
{
    enum { QUERY_SIZES };
    float score[REGISTERS], slope[REGISTERS];
    tile_scores(TYPE, score, ROWS, KEYS, D_PAD, queries, k_row, tile, k_row);
    if (ATTENTION_SOFTCAP)
        attention_cap(score, REGISTERS, f.cap_scale);
    PARC_UNROLL
    for (int i = 0; i < REGISTERS; i++)
        score[i] *= f.scale2;
    PARC_UNROLL
    for (int i = 0; i < REGISTERS && ATTENTION_SOFTCAP && !of_scores; i++)
        slope[i] = attention_cap_slope(score[i], f.scale2);
    if (ATTENTION_BIAS)
        attention_bias(HALF, score, ROWS, KEYS, 0, bias, ATTENTION_LOG2E);
    if (keys < KEYS ||
        !attention_full(ATTENTION_CAUSAL, near, ahead, ROWS, KEYS))
        attention_mask(HALF, ATTENTION_CAUSAL, near, score, ROWS, KEYS, 0, keys,
                       ahead);
    if (ATTENTION_SEGMENTS)
        attention_segments(HALF, score, ROWS, KEYS, 0, query_segment, held, key_segment,
                           keys);
    tile_scores(TYPE, ds, ROWS, KEYS, E_PAD, outs, v_row, tile + KEYS * k_row,
                v_row);
    if (ATTENTION_DROP)
        attention_drop_apply(ds, ds, kept, REGISTERS, f.keep_scale);
    PARC_UNROLL
    for (int i = 0; i < REGISTERS; i++) {
        int r = i / WIDTH, x = tile_register(HALF, KEYS, r, i % WIDTH);
        ds[x] = parc_exp2(score[x] - low[r]) * (ds[x] - mean[r]);
        if (ATTENTION_SOFTCAP && !of_scores)
            ds[x] *= ATTENTION_BIAS ? slope[x] : attention_cap_slope(score[x], f.scale2);
    }
}
#endif
