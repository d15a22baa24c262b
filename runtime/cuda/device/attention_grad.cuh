/* attention_grad.cuh: computes attention, backward, without a score matrix.
 *
 * requires: what attention.cuh requires; DELTA_THREADS of `delta`; and the tiles
 *           of two more kernels: QUERY_ROWS, _WARPS, _THREADS, _BLOCKS, _KEYS of
 *           `query`, KEY_ROWS, _WARPS, _THREADS, _BLOCKS, _QUERIES, _PARTS of
 *           `key` (a block sums one part of the columns, for lack of
 *           registers). A kernel without sizes is omitted
 *
 * The weights p = exp(score - lse) are recomputed tile by tile:
 *   dv = p' do          dp = do v'         delta = rowsum(do * o)
 *   ds = p * (dp - delta)   dq = scale ds k    dk = scale ds' q
 * With dropout, p and dp are multiplied by the same factors as in the forward
 * pass, which are drawn a second time.
 *
 * Three kernels run in this order: `delta`; `query`, whose blocks own queries,
 * loop over the keys and sum dq (attention_grad_query.cuh); `key`, whose blocks
 * own keys, loop over the queries of all heads that share them and sum dk and
 * dv (attention_grad_key.cuh). Scores are computed twice, but every sum has one
 * owner and one order: no atomics, and the same bits each time. While a tile is
 * multiplied, the next tile is loaded to the other half of the buffer.
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

#ifdef KEY_ROWS
#include "attention_grad_key.cuh"
#endif
#ifdef QUERY_ROWS
#include "attention_grad_query.cuh"
#endif
#undef GRAD_SIZES
