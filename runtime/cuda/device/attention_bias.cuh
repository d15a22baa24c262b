/* attention_bias.cuh: computes the gradient of attention's bias.
 *
 * requires: what attention_weights.cuh requires
 *
 * A block owns the scores of a tile, QUERY_ROWS * QUERY_WARPS queries by QUERY_KEYS keys, of
 * one head of one sequence, or of all those that share the bias: it sums their gradients in
 * order, in registers. The kernel `delta` runs before.
 */
#include "attention_weights.cuh"

/* The tile of a block, and how many sequences and heads have a bias of their own. */
typedef struct ATTENTION_NAME(BiasTile) {
    int b, h, query, key, own_b, own_h;
    int limit, shift; /* AttentionPlace */
} ATTENTION_NAME(BiasTile);

PARC_DEVICE ATTENTION_NAME(BiasTile) ATTENTION_NAME(bias_tile)(int b, int all, int s, int t,
                                                               int64_t first_s,
                                                               int64_t second_s)
{
    enum { QUERY_SIZES };
    ATTENTION_NAME(BiasTile) p;
    const int pieces = ATTENTION_PARTS && second_s ? 2 : 1;
    const int each = (s / pieces + QUERIES - 1) / QUERIES, down = each * pieces;
    const int across = (t + KEYS - 1) / KEYS;
    const int i = (int)block_index() / across, head = i / down;
    const AttentionQueries piece =
        attention_piece(ATTENTION_PARTS, s, i % down / each, first_s, second_s, 0);
    p.own_b = b;
    p.own_h = all;
    p.key = (int)block_index() % across * KEYS;
    p.query = piece.begin + i % each * QUERIES;
    p.limit = piece.end;
    p.shift = piece.shift;
    p.h = head % all;
    p.b = head / all;
    return p;
}

PARC_KERNEL(QUERY_THREADS, QUERY_BLOCKS)
ATTENTION_NAME(grad)(float *__restrict__ dbias, const ATTENTION_ELEMENT *__restrict__ d_o,
                     const ATTENTION_ELEMENT *__restrict__ q,
                     const ATTENTION_ELEMENT *__restrict__ k,
                     const ATTENTION_ELEMENT *__restrict__ v,
                     const float *__restrict__ lse, const float *__restrict__ delta,
                     ATTENTION_ARGUMENTS)
{
    enum { QUERY_SIZES };
    ATTENTION_ELEMENT *queries = (ATTENTION_ELEMENT *)parc_shared();
    ATTENTION_ELEMENT *outs = queries + QUERIES * k_row;
    ATTENTION_ELEMENT *tile = outs + QUERIES * v_row;
    float ds[REGISTERS], sum[REGISTERS], low[DOWN], mean[DOWN];

    const int queries_all = (int)s, keys_all = (int)t, all = (int)(kv * g);
    const int near = ATTENTION_WINDOW ? (int)window : 0;
    const ATTENTION_NAME(BiasTile) at = ATTENTION_NAME(bias_tile)(
        bias_b ? (int)sequences : 1, bias_h ? all : 1, queries_all, keys_all, first_s, second_s);
    const int warp_first = at.query + warp_index() * ROWS, warp_at = warp_first + at.shift;
    const AttentionFactors f = attention_factors(scale_bits, softcap_bits, drop_bits,
                                                 ATTENTION_SOFTCAP, ATTENTION_DROP);
    tile_fill(sum, REGISTERS, 0);
    for (int b = at.b; b < (int)sequences; b += at.own_b)
        for (int h = at.h; h < all; h += at.own_h) {
            const int64_t row = ((int64_t)b * s + at.query) * all + h;
            const int64_t key_row = ((int64_t)b * t + at.key) * kv + h / (int)g;
            if (b != at.b || h != at.h)
                block_barrier(); /* the tiles before have been read */
            ATTENTION_NAME(load_pair)(queries, q + row * D, d_o + row * E, all,
                                      at.limit - at.query, QUERIES, 1, QUERY_THREADS);
            ATTENTION_NAME(load_pair)(tile, k + key_row * D, v + key_row * E, kv,
                                      keys_all - at.key, KEYS, 1, QUERY_THREADS);
            copy_async_commit();
            ATTENTION_NAME(query_rows)(low, mean, lse, delta,
                                       ((int64_t)b * all + h) * s, warp_first, at.limit);
            copy_async_wait(0);
            block_barrier();
            if (warp_first >= at.limit ||
                attention_none(ATTENTION_CAUSAL, near, warp_at - at.key, ROWS, KEYS))
                continue;
            uint32_t kept[(REGISTERS + 31) / 32];
            if (ATTENTION_DROP) {
                const AttentionDrop drop = ATTENTION_DRAWN(b, h);
                drop_tile(HALF, kept, ROWS, KEYS, 0, &drop, warp_at, at.key,
                          !ATTENTION_RING);
            }
            const AttentionBias part = ATTENTION_BIAS_AT(b, h, warp_first, at.key);
            ATTENTION_NAME(query_weights)(
                ds, queries + warp_index() * ROWS * k_row, outs + warp_index() * ROWS * v_row,
                tile, low, mean, kept, f, keys_all - at.key, warp_at - at.key, near,
                query_segment + b * s + warp_first, at.limit - warp_first,
                key_segment + b * t + at.key, &part, 1);
            PARC_UNROLL
            for (int i = 0; i < REGISTERS; i++)
                sum[i] += ds[i];
        }

    dbias += at.b * bias_b + at.h * bias_h;
    PARC_UNROLL
    for (int i = 0; i < REGISTERS; i++) {
        const int query = warp_first + tile_row_of(HALF, ROWS, i / WIDTH);
        const int key = at.key + tile_column_of(HALF, i % WIDTH);
        if (query < at.limit && key < keys_all)
            dbias[query * bias_s + key] = sum[tile_register(HALF, KEYS, i / WIDTH, i % WIDTH)];
    }
}
#undef QUERY_SIZES
#undef GRAD_SIZES
