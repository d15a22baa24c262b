/* attention_grad_query.cuh: computes the gradient of queries;
 * attention_grad.cuh includes it. */
#define QUERY_SIZES                                                            \
    GRAD_SIZES(QUERY_ROWS, QUERY_KEYS, 1), KEYS = QUERY_KEYS,                  \
    QUERIES = ROWS * QUERY_WARPS

/* Computes ds of the warp's rows and a tile. low, mean: lse (in base 2) and
 * delta of each row. `keys`: the end of the keys; `ahead`: the index of the
 * warp's first query; both count from the tile's first key. */
PARC_DEVICE void ATTENTION_NAME(query_weights)(
    float *ds, const ATTENTION_ELEMENT *queries, const ATTENTION_ELEMENT *outs,
    const ATTENTION_ELEMENT *tile, const float *low, const float *mean,
    const uint32_t *kept, AttentionFactors f, int keys, int ahead)
{
    enum { QUERY_SIZES };
    float score[REGISTERS];
    tile_scores(TYPE, score, ROWS, KEYS, D_PAD, queries, k_row, tile, k_row);
    PARC_UNROLL
    for (int i = 0; i < REGISTERS; i++)
        score[i] *= f.scale2;
    if (keys < KEYS || (ATTENTION_CAUSAL && KEYS > ahead + 1))
        attention_mask(HALF, ATTENTION_CAUSAL, score, ROWS, KEYS, 0, keys,
                       ahead);
    tile_scores(TYPE, ds, ROWS, KEYS, E_PAD, outs, v_row, tile + KEYS * k_row,
                v_row);
    if (ATTENTION_DROP)
        attention_drop_apply(ds, ds, kept, REGISTERS, f.keep_scale);
    PARC_UNROLL
    for (int i = 0; i < REGISTERS; i++) {
        int r = i / WIDTH, x = tile_register(HALF, KEYS, r, i % WIDTH);
        ds[x] = parc_exp2(score[x] - low[r]) * (ds[x] - mean[r]);
    }
}

PARC_KERNEL(QUERY_THREADS, QUERY_BLOCKS)
ATTENTION_NAME(query)(ATTENTION_ELEMENT *__restrict__ dq,
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
    const AttentionPlace at = attention_place(queries_all, keys_all, all,
                                              QUERIES, ROWS, ATTENTION_CAUSAL);
    const int b = at.b, h = at.h, warp_first = at.warp_first;
    const AttentionFactors f =
        attention_factors(scale_bits, drop_bits, ATTENTION_DROP);
    const AttentionDrop drop = ATTENTION_DRAWN(b, h);
    const int64_t first_row = ((int64_t)b * s + at.query) * all + h;
    k += (b * t * kv + h / (int)g) * D;
    v += (b * t * kv + h / (int)g) * E;

    ATTENTION_NAME(load_pair)(queries, q + first_row * D, d_o + first_row * E,
                              all, queries_all - at.query, QUERIES, 1,
                              QUERY_THREADS);
    ATTENTION_NAME(load_pair)(tiles, k, v, kv, keys_all, KEYS, 1,
                              QUERY_THREADS);
    copy_async_commit();
    PARC_UNROLL
    for (int r = 0; r < DOWN; r++) {
        const int row = warp_first + tile_row_of(HALF, ROWS, r);
        const int64_t x = at.head * s + row;
        low[r] = row < queries_all ? lse[x] * ATTENTION_LOG2E : INFINITY;
        mean[r] = row < queries_all ? delta[x] : 0.0f;
    }
    tile_fill(sum, ATTENTION_SUMS(TYPE, ROWS, D), 0);
    queries += warp_index() * ROWS * k_row;
    outs += warp_index() * ROWS * v_row;
    for (int first = 0; first < at.end; first += KEYS) {
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
        if (first >= at.own_end)
            continue;
        uint32_t kept[(REGISTERS + 31) / 32];
        if (ATTENTION_DROP)
            drop_tile(HALF, kept, ROWS, KEYS, 0, &drop, warp_first, first);
        ATTENTION_NAME(query_weights)(ds, queries, outs, tile, low, mean, kept,
                                      f, keys_all - first, warp_first - first);
        tile_add(TYPE, sum, ROWS, D, KEYS, ds, exchange, tile, k_row);
    }

    tile_fill(low, DOWN, f.scale);
    tile_store(TYPE, dq + (((int64_t)b * s + warp_first) * all + h) * D,
               (int64_t)all * D, queries_all - warp_first, D,
               ATTENTION_VECTORS(TYPE, D), sum, ROWS, D, low, queries, k_row);
}
#undef QUERY_SIZES
