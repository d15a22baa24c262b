/* attention_grad_key.cuh: computes the gradients of keys and values;
 * attention_grad.cuh includes it. */

#define KEY_SIZES                                                              \
    GRAD_SIZES(KEY_ROWS, KEY_QUERIES, KEY_PARTS), QUERIES = KEY_QUERIES,       \
    KEYS = ROWS * KEY_WARPS, D_PART = D_PAD / KEY_PARTS,                       \
    E_PART = E_PAD / KEY_PARTS

/* Loads a tile of queries of head `h`, from `query` on, and to `rows` their
 * lse [QUERIES] and delta [QUERIES]. Queries beyond the end become zeros:
 * their d_o is 0, so they add nothing. */
PARC_DEVICE void ATTENTION_NAME(key_load)(
    ATTENTION_ELEMENT *tile, float *rows, const ATTENTION_ELEMENT *d_o,
    const ATTENTION_ELEMENT *q, const float *lse, const float *delta, int s,
    int64_t all, int b, int h, int query)
{
    enum { KEY_SIZES };
    int64_t at = ((int64_t)b * s + query) * all + h;
    int64_t row = (b * all + h) * s + query + thread_index();
    ATTENTION_NAME(load_pair)(tile, q + at * D, d_o + at * E, all, s - query,
                              QUERIES, KEY_PARTS, KEY_THREADS);
    if (thread_index() < QUERIES) {
        int there = query + thread_index() < s;
        copy_async4_if(there, rows + thread_index(), lse + row);
        copy_async4_if(there, rows + QUERIES + thread_index(), delta + row);
    }
}

/* Adds a tile of queries to the warp's part of dk and dv. `ahead`: the first
 * query's index, counted from the warp's first key. */
PARC_DEVICE void ATTENTION_NAME(key_add)(
    float *k_sum, float *v_sum, const ATTENTION_ELEMENT *keys,
    const ATTENTION_ELEMENT *values, const ATTENTION_ELEMENT *tile,
    const float *rows, float *exchange, const uint32_t *kept,
    AttentionFactors f, int part, int ahead)
{
    enum { KEY_SIZES };
    const ATTENTION_ELEMENT *outs = tile + QUERIES * k_row;
    float p[REGISTERS], ds[REGISTERS];
    tile_scores(TYPE, p, ROWS, QUERIES, D_PAD, keys, k_row, tile, k_row);
    if (ATTENTION_CAUSAL && ROWS > ahead + 1)
        attention_mask(HALF, ATTENTION_CAUSAL, p, ROWS, QUERIES, 1, ROWS,
                       ahead);
    PARC_UNROLL
    for (int i = 0; i < REGISTERS; i++) {
        int x = tile_register(HALF, QUERIES, i / WIDTH, i % WIDTH);
        float low = rows[tile_column_of(HALF, i % WIDTH)] * ATTENTION_LOG2E;
        p[x] = parc_exp2(p[x] * f.scale2 - low);
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
    }
    if (!HALF)
        warp_barrier(); /* the product for dv has read its weights */
    tile_add(TYPE, k_sum, ROWS, D_PART, QUERIES, ds, exchange,
             tile + part * D_PART, k_row);
}

/* Stores the warp's sums to the first `held` rows of dk and dv, through its
 * own rows of the tiles. dk and dv begin at the warp's first row. */
PARC_DEVICE void ATTENTION_NAME(key_store)(
    ATTENTION_ELEMENT *dk, ATTENTION_ELEMENT *dv, const float *k_sum,
    const float *v_sum, ATTENTION_ELEMENT *keys, ATTENTION_ELEMENT *values,
    AttentionFactors f, int part, int64_t kv, int held)
{
    enum { KEY_SIZES };
    float by[DOWN];
    tile_fill(by, DOWN, f.scale);
    tile_store(TYPE, dk + part * D_PART, kv * D, held, D - part * D_PART,
               ATTENTION_VECTORS(TYPE, D), k_sum, ROWS, D_PART, by, keys,
               k_row);
    tile_fill(by, DOWN, f.keep_scale);
    tile_store(TYPE, dv + part * E_PART, kv * E, held, E - part * E_PART,
               ATTENTION_VECTORS(TYPE, E), v_sum, ROWS, E_PART, by, values,
               v_row);
}

PARC_KERNEL(KEY_THREADS, KEY_BLOCKS)
ATTENTION_NAME(key)(ATTENTION_ELEMENT *__restrict__ dk,
                    ATTENTION_ELEMENT *__restrict__ dv,
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
    const int begin = ATTENTION_CAUSAL ? at.key / QUERIES * QUERIES : 0;
    const AttentionFactors f =
        attention_factors(scale_bits, drop_bits, ATTENTION_DROP);
    const int64_t first_row = (at.b * t + at.key) * kv + at.head;

    tile_fill(k_sum, ATTENTION_SUMS(TYPE, ROWS, D_PART), 0);
    tile_fill(v_sum, ATTENTION_SUMS(TYPE, ROWS, E_PART), 0);
    /* Loops over heads and tiles of queries; i is the half of the buffer in
     * use. */
    int h = begin < queries_all ? 0 : (int)g, query = begin;
    if (h < (int)g) {
        ATTENTION_NAME(load_pair)(keys, k + first_row * D, v + first_row * E,
                                  kv, keys_all - at.key, KEYS, KEY_PARTS,
                                  KEY_THREADS);
        ATTENTION_NAME(key_load)(tiles, rows, d_o, q, lse, delta, queries_all,
                                 kv * g, at.b, at.head * (int)g, query);
    }
    copy_async_commit();
    keys += warp_index() * ROWS * k_row;
    values += warp_index() * ROWS * v_row;
    for (int i = 0; h < (int)g; i ^= 1) {
        const int at_query = query, at_head = h;
        copy_async_wait(0);
        block_barrier(); /* this half has arrived; the other one may be
                            overwritten */
        query += QUERIES;
        if (query >= queries_all)
            query = begin, h++;
        if (h < (int)g)
            ATTENTION_NAME(key_load)(tiles + (i ^ 1) * half,
                                     rows + (i ^ 1) * 2 * QUERIES, d_o, q, lse,
                                     delta, queries_all, kv * g, at.b,
                                     at.head * (int)g + h, query);
        copy_async_commit();
        if (at.warp_first >= keys_all ||
            (ATTENTION_CAUSAL && at.warp_first >= at_query + QUERIES))
            continue;
        uint32_t kept[(REGISTERS + 31) / 32];
        if (ATTENTION_DROP) {
            const AttentionDrop drop =
                ATTENTION_DRAWN(at.b, at.head * g + at_head);
            drop_tile(HALF, kept, ROWS, QUERIES, 1, &drop, at_query,
                      at.warp_first);
        }
        ATTENTION_NAME(key_add)(k_sum, v_sum, keys, values, tiles + i * half,
                                rows + i * 2 * QUERIES, exchange, kept, f,
                                at.part, at_query - at.warp_first);
    }
    const int64_t own_row = (at.b * t + at.warp_first) * kv + at.head;
    ATTENTION_NAME(key_store)(dk + own_row * D, dv + own_row * E, k_sum, v_sum,
                              keys, values, f, at.part, kv,
                              keys_all - at.warp_first);
}
#undef KEY_SIZES
