/* attention_grad.cuh: attention, backward, without a score matrix.
 *
 * Included behind what attention.cuh wants and the tiles of two more kernels:
 * QUERY_ROWS, _WARPS, _THREADS, _KEYS of `query`, KEY_ROWS, _WARPS, _THREADS,
 * _QUERIES, _PARTS of `key` (a block sums that part of the columns; it has no
 * registers for more).
 *
 * With weights p = exp(score - lse), made again tile by tile:
 *   dv = p' do          dp = do v'         delta = rowsum(do * o)
 *   ds = p * (dp - delta)   dq = scale ds k    dk = scale ds' q
 * Under dropout p and dp are multiplied by what was drawn, drawn once more.
 *
 * Three kernels, in this order: `delta`; `query`, whose blocks own queries,
 * walk the keys and sum dq; `key`, whose blocks own keys, walk the queries of
 * all heads that share them and sum dk and dv. Scores are computed twice, but
 * every sum has one owner and one order: no atomics, the same bits each time.
 * While a tile is worked on the next is on its way to the other half of the
 * room for it.
 */
#include "attention_shape.h"

/* Columns of a tile of `key`, a multiple of its parts. */
#define KEY_COLUMNS(width)                                                     \
    (ATTENTION_COLUMNS(ATTENTION_TYPE, ((width) + KEY_PARTS - 1) / KEY_PARTS) * \
     KEY_PARTS)

/* A warp takes a row of o: delta [b, kv * g, s]. */
PARC_KERNEL(256)
ATTENTION_NAME(delta)(float *__restrict__ delta,
                      const ATTENTION_ELEMENT *__restrict__ d_o,
                      const ATTENTION_ELEMENT *__restrict__ o, int64_t rows,
                      int64_t s, int64_t all)
{
    enum { E = ATTENTION_E, N = E % 4 == 0 ? 4 : 1 };
    int64_t row = block_index() * 8 + warp_index();
    float sum = 0, x[N], y[N];
    if (row >= rows)
        return;
    for (int c = lane_index() * N; c < E; c += 32 * N) {
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

/* Scores that count for nothing. `turned`: rows are keys. There are `keys` of
 * them, and the first query's own is number `ahead`, both counted from the
 * tile's first key. */
PARC_DEVICE void ATTENTION_NAME(mask_grad)(float *score, int rows, int columns,
                                           int turned, int keys, int ahead)
{
    const int half = ATTENTION_TYPE != TILE_F32;
    const int wide = rows * columns / 32 / (half ? rows / 8 : rows / 2);
    PARC_UNROLL
    for (int i = 0; i < rows * columns / 32; i++) {
        int r = row_of(half, rows, i / wide), c = column_of(half, i % wide);
        int key = turned ? r : c, query = turned ? c : r;
        if (key >= keys || (ATTENTION_CAUSAL && key > query + ahead))
            score[slot(half, columns, i / wide, i % wide)] = -INFINITY;
    }
}

/* The sizes of a tile of `query`, in its functions. */
#define QUERY_SIZES                                                            \
    enum {                                                                     \
        TYPE = ATTENTION_TYPE, HALF = TYPE != TILE_F32, D = ATTENTION_D,       \
        E = ATTENTION_E, ROWS = QUERY_ROWS, KEYS = QUERY_KEYS,                 \
        QUERIES = ROWS * QUERY_WARPS, DOWN = HALF ? ROWS / 8 : ROWS / 2,       \
        SLOTS = ATTENTION_SLOTS(ROWS, KEYS), WIDE = SLOTS / DOWN,              \
        D_PAD = ATTENTION_COLUMNS(TYPE, D),                                    \
        E_PAD = ATTENTION_COLUMNS(TYPE, E),                                    \
        k_row = ATTENTION_ROW(TYPE, D_PAD), v_row = ATTENTION_ROW(TYPE, E_PAD), \
        half = KEYS * (k_row + v_row),                                         \
    }

/* A tile of keys and its values, of which `left` are there. */
PARC_DEVICE void ATTENTION_NAME(query_load)(ATTENTION_ELEMENT *tile,
                                            const ATTENTION_ELEMENT *k,
                                            const ATTENTION_ELEMENT *v,
                                            int64_t heads, int left)
{
    QUERY_SIZES;
    tile_load(TYPE, tile, k_row, k, heads * D, left, KEYS, D, D_PAD,
              QUERY_THREADS);
    tile_load(TYPE, tile + KEYS * k_row, v_row, v, heads * E, left, KEYS, E,
              E_PAD, QUERY_THREADS);
}

PARC_KERNEL(QUERY_THREADS)
ATTENTION_NAME(query)(ATTENTION_ELEMENT *__restrict__ dq,
                      const ATTENTION_ELEMENT *__restrict__ d_o,
                      const ATTENTION_ELEMENT *__restrict__ q,
                      const ATTENTION_ELEMENT *__restrict__ k,
                      const ATTENTION_ELEMENT *__restrict__ v,
                      const float *__restrict__ lse,
                      const float *__restrict__ delta, ATTENTION_ARGUMENTS)
{
    QUERY_SIZES;
    ATTENTION_ELEMENT *queries = (ATTENTION_ELEMENT *)parc_shared();
    ATTENTION_ELEMENT *outs = queries + QUERIES * k_row;
    ATTENTION_ELEMENT *tiles = outs + QUERIES * v_row;
    float *room = (float *)(void *)(tiles + 2 * half) +
                  warp_index() * ROWS * (KEYS + 4);
    float score[SLOTS], dp[SLOTS], sum[ATTENTION_SUMS(TYPE, ROWS, D)];
    float low[DOWN], mean[DOWN];

    const int queries_all = (int)s, keys_all = (int)t, all = (int)(kv * g);
    const AttentionPlace at = attention_place(queries_all, keys_all, all,
                                              QUERIES, ROWS, ATTENTION_CAUSAL);
    const int b = at.b, h = at.h, mine = at.mine;
    const float scale = attention_float(scale_bits);
    const float scale2 = scale * ATTENTION_LOG2E;
    const AttentionDrop drop = ATTENTION_DRAWN(b, h);
    const float grow = ATTENTION_DROP ? 1.0f / (1.0f - drop.rate) : 1.0f;
    q += (((int64_t)b * s + at.query) * all + h) * D;
    d_o += (((int64_t)b * s + at.query) * all + h) * E;
    k += (b * t * kv + h / (int)g) * D;
    v += (b * t * kv + h / (int)g) * E;

    tile_load(TYPE, queries, k_row, q, (int64_t)all * D, queries_all - at.query,
              QUERIES, D, D_PAD, QUERY_THREADS);
    tile_load(TYPE, outs, v_row, d_o, (int64_t)all * E, queries_all - at.query,
              QUERIES, E, E_PAD, QUERY_THREADS);
    ATTENTION_NAME(query_load)(tiles, k, v, kv, keys_all);
    copy_async_commit();
    PARC_UNROLL
    for (int r = 0; r < DOWN; r++) {
        const int row = mine + row_of(HALF, ROWS, r);
        const int64_t x = at.head * s + row;
        low[r] = row < queries_all ? lse[x] * ATTENTION_LOG2E : INFINITY;
        mean[r] = row < queries_all ? delta[x] : 0.0f;
    }
    PARC_UNROLL
    for (int i = 0; i < ATTENTION_SUMS(TYPE, ROWS, D); i++)
        sum[i] = 0;
    queries += warp_index() * ROWS * k_row;
    outs += warp_index() * ROWS * v_row;
    for (int first = 0; first < at.end; first += KEYS) {
        ATTENTION_ELEMENT *keys = tiles + (first / KEYS % 2) * half;
        ATTENTION_ELEMENT *values = keys + KEYS * k_row;
        copy_async_wait(0);
        block_barrier(); /* this half is there, and the other one free */
        k += KEYS * kv * D;
        v += KEYS * kv * E;
        if (first + KEYS < at.end)
            ATTENTION_NAME(query_load)(
                tiles + ((first / KEYS + 1) % 2) * half, k, v, kv,
                keys_all - first - KEYS);
        copy_async_commit();
        if (first >= at.own_end)
            continue;
        uint32_t kept[(SLOTS + 31) / 32];
        if (ATTENTION_DROP)
            drop_tile(HALF, kept, ROWS, KEYS, 0, &drop, mine, first);
        tile_scores(TYPE, score, ROWS, KEYS, D_PAD, queries, k_row, keys, k_row);
        PARC_UNROLL
        for (int i = 0; i < SLOTS; i++)
            score[i] *= scale2;
        if (first + KEYS > keys_all ||
            (ATTENTION_CAUSAL && first + KEYS > mine + 1))
            ATTENTION_NAME(mask_grad)(score, ROWS, KEYS, 0, keys_all - first,
                                      mine - first);
        tile_scores(TYPE, dp, ROWS, KEYS, E_PAD, outs, v_row, values, v_row);
        PARC_UNROLL
        for (int i = 0; i < SLOTS && ATTENTION_DROP; i++)
            dp[i] = attention_is_kept(kept, i) ? dp[i] * grow : 0.0f;
        PARC_UNROLL
        for (int i = 0; i < SLOTS; i++) {
            int r = i / WIDE, x = slot(HALF, KEYS, r, i % WIDE);
            dp[x] = parc_exp2(score[x] - low[r]) * (dp[x] - mean[r]);
        }
        tile_add(TYPE, sum, ROWS, D, KEYS, dp, room, keys, k_row);
    }

    PARC_UNROLL
    for (int r = 0; r < DOWN; r++)
        low[r] = scale;
    tile_store(TYPE, dq + (((int64_t)b * s + mine) * all + h) * D,
               (int64_t)all * D, queries_all - mine, D,
               ATTENTION_VECTORS(TYPE, D), sum, ROWS, D, low, queries, k_row);
}

/* The sizes of a tile of `key`, in its functions. */
#define KEY_SIZES                                                              \
    enum {                                                                     \
        TYPE = ATTENTION_TYPE, HALF = TYPE != TILE_F32, D = ATTENTION_D,       \
        E = ATTENTION_E, ROWS = KEY_ROWS, QUERIES = KEY_QUERIES,               \
        KEYS = ROWS * KEY_WARPS, DOWN = HALF ? ROWS / 8 : ROWS / 2,            \
        SLOTS = ATTENTION_SLOTS(ROWS, QUERIES), WIDE = SLOTS / DOWN,           \
        D_PAD = KEY_COLUMNS(D), E_PAD = KEY_COLUMNS(E),                        \
        D_PART = D_PAD / KEY_PARTS, E_PART = E_PAD / KEY_PARTS,                \
        k_row = ATTENTION_ROW(TYPE, D_PAD), v_row = ATTENTION_ROW(TYPE, E_PAD), \
        half = QUERIES * (k_row + v_row),                                      \
    }

/* A tile of queries of head `head`, and what their rows have summed up: the
 * tile, and lse and delta of the thread's row in `own`. */
PARC_DEVICE void ATTENTION_NAME(key_load)(
    ATTENTION_ELEMENT *tile, float own[2], const ATTENTION_ELEMENT *d_o,
    const ATTENTION_ELEMENT *q, const float *lse, const float *delta, int s,
    int64_t all, int b, int h, int query)
{
    KEY_SIZES;
    int64_t at = ((int64_t)b * s + query) * all + h;
    int64_t row = (b * all + h) * s + query + thread_index();
    tile_load(TYPE, tile, k_row, q + at * D, all * D, s - query, QUERIES, D,
              D_PAD, KEY_THREADS);
    tile_load(TYPE, tile + QUERIES * k_row, v_row, d_o + at * E, all * E,
              s - query, QUERIES, E, E_PAD, KEY_THREADS);
    own[0] = INFINITY;
    own[1] = 0.0f;
    if (thread_index() < QUERIES && query + thread_index() < s) {
        own[0] = lse[row] * ATTENTION_LOG2E;
        own[1] = delta[row];
    }
}

/* That, for all threads to read: [2][QUERIES]. */
PARC_DEVICE void ATTENTION_NAME(key_keep)(float *rows, const float own[2])
{
    if (thread_index() < KEY_QUERIES) {
        rows[thread_index()] = own[0];
        rows[KEY_QUERIES + thread_index()] = own[1];
    }
}

/* What a warp's keys, from `mine` on, get of a tile of queries from `query` on;
 * `low` and `mean` are of the queries. */
PARC_DEVICE void ATTENTION_NAME(key_add)(
    float *k_sum, float *v_sum, const ATTENTION_ELEMENT *keys,
    const ATTENTION_ELEMENT *values, const ATTENTION_ELEMENT *queries,
    const float *low, const float *mean, float *room, const uint32_t *kept,
    int query, int mine, int part, float scale2, float grow)
{
    KEY_SIZES;
    const ATTENTION_ELEMENT *outs = queries + QUERIES * k_row;
    float score[SLOTS], dp[SLOTS];
    tile_scores(TYPE, score, ROWS, QUERIES, D_PAD, keys, k_row, queries, k_row);
    if (ATTENTION_CAUSAL && mine + ROWS > query + 1)
        ATTENTION_NAME(mask_grad)(score, ROWS, QUERIES, 1, ROWS, query - mine);
    PARC_UNROLL
    for (int j = 0; j < SLOTS; j++) {
        int x = slot(HALF, QUERIES, j / WIDE, j % WIDE);
        score[x] = parc_exp2(score[x] * scale2 -
                             low[column_of(HALF, j % WIDE)]);
    }
    PARC_UNROLL
    for (int j = 0; j < SLOTS && ATTENTION_DROP; j++)
        dp[j] = attention_is_kept(kept, j) ? score[j] : 0.0f;
    tile_add(TYPE, v_sum, ROWS, E_PART, QUERIES, ATTENTION_DROP ? dp : score,
             room, outs + part * E_PART, v_row);
    tile_scores(TYPE, dp, ROWS, QUERIES, E_PAD, values, v_row, outs, v_row);
    PARC_UNROLL
    for (int j = 0; j < SLOTS && ATTENTION_DROP; j++)
        dp[j] = attention_is_kept(kept, j) ? dp[j] * grow : 0.0f;
    PARC_UNROLL
    for (int j = 0; j < SLOTS; j++) {
        int x = slot(HALF, QUERIES, j / WIDE, j % WIDE);
        dp[x] = score[x] * (dp[x] - mean[column_of(HALF, j % WIDE)]);
    }
    if (!HALF)
        warp_barrier(); /* dv has read its weights */
    tile_add(TYPE, k_sum, ROWS, D_PART, QUERIES, dp, room,
             queries + part * D_PART, k_row);
}

PARC_KERNEL(KEY_THREADS)
ATTENTION_NAME(key)(ATTENTION_ELEMENT *__restrict__ dk,
                    ATTENTION_ELEMENT *__restrict__ dv,
                    const ATTENTION_ELEMENT *__restrict__ d_o,
                    const ATTENTION_ELEMENT *__restrict__ q,
                    const ATTENTION_ELEMENT *__restrict__ k,
                    const ATTENTION_ELEMENT *__restrict__ v,
                    const float *__restrict__ lse,
                    const float *__restrict__ delta, ATTENTION_ARGUMENTS)
{
    KEY_SIZES;
    ATTENTION_ELEMENT *keys = (ATTENTION_ELEMENT *)parc_shared();
    ATTENTION_ELEMENT *values = keys + KEYS * k_row;
    ATTENTION_ELEMENT *tiles = values + KEYS * v_row;
    float *rows = (float *)(void *)(tiles + 2 * half); /* [2][2][QUERIES] */
    float *room = rows + 4 * QUERIES + warp_index() * ROWS * (QUERIES + 4);
    float k_sum[ATTENTION_SUMS(TYPE, ROWS, D_PART)];
    float v_sum[ATTENTION_SUMS(TYPE, ROWS, E_PART)], own[2], by[DOWN];

    const int queries_all = (int)s, keys_all = (int)t;
    const int blocks = (keys_all + KEYS - 1) / KEYS;
    const int part = (int)block_index() % KEY_PARTS;
    const int tile = (int)block_index() / KEY_PARTS;
    const int b = tile / blocks / (int)kv, head = tile / blocks % (int)kv;
    const int key0 = tile % blocks * KEYS, mine = key0 + warp_index() * ROWS;
    const int begin = ATTENTION_CAUSAL ? key0 / QUERIES * QUERIES : 0;
    const int64_t at = (b * t + key0) * kv + head;
    const float scale = attention_float(scale_bits);
    const float scale2 = scale * ATTENTION_LOG2E;
    AttentionDrop drop = ATTENTION_DRAWN(b, 0);
    const int64_t drop_row = drop.row;
    const float grow = ATTENTION_DROP ? 1.0f / (1.0f - drop.rate) : 1.0f;

    PARC_UNROLL
    for (int i = 0; i < ATTENTION_SUMS(TYPE, ROWS, D_PART); i++)
        k_sum[i] = 0;
    PARC_UNROLL
    for (int i = 0; i < ATTENTION_SUMS(TYPE, ROWS, E_PART); i++)
        v_sum[i] = 0;
    /* Tile by tile of queries, head by head; i counts them. */
    int h = begin < queries_all ? 0 : (int)g, query = begin;
    if (h < (int)g) {
        tile_load(TYPE, keys, k_row, k + at * D, kv * D, keys_all - key0, KEYS,
                  D, D_PAD, KEY_THREADS);
        tile_load(TYPE, values, v_row, v + at * E, kv * E, keys_all - key0,
                  KEYS, E, E_PAD, KEY_THREADS);
        ATTENTION_NAME(key_load)(tiles, own, d_o, q, lse, delta, queries_all,
                                 kv * g, b, head * (int)g, query);
        ATTENTION_NAME(key_keep)(rows, own);
    }
    copy_async_commit();
    keys += warp_index() * ROWS * k_row;
    values += warp_index() * ROWS * v_row;
    for (int i = 0; h < (int)g; i ^= 1) {
        const float *low = rows + i * 2 * QUERIES;
        const int at_query = query, at_head = h;
        copy_async_wait(0);
        block_barrier(); /* this half is there, and the other one free */
        query += QUERIES;
        if (query >= queries_all)
            query = begin, h++;
        if (h < (int)g)
            ATTENTION_NAME(key_load)(tiles + (i ^ 1) * half, own, d_o, q, lse,
                                     delta, queries_all, kv * g, b,
                                     head * (int)g + h, query);
        copy_async_commit();
        if (mine < keys_all &&
            (!ATTENTION_CAUSAL || mine < at_query + QUERIES)) {
            uint32_t kept[(SLOTS + 31) / 32];
            if (ATTENTION_DROP) {
                drop.row = drop_row + (head * g + at_head) * s;
                drop_tile(HALF, kept, ROWS, QUERIES, 1, &drop, at_query, mine);
            }
            ATTENTION_NAME(key_add)(k_sum, v_sum, keys, values,
                                    tiles + i * half, low,
                                    low + QUERIES, room, kept, at_query, mine,
                                    part, scale2, grow);
        }
        if (h < (int)g)
            ATTENTION_NAME(key_keep)(rows + (i ^ 1) * 2 * QUERIES, own);
    }

    dk += ((b * t + mine) * kv + head) * D + part * D_PART;
    dv += ((b * t + mine) * kv + head) * E + part * E_PART;
    PARC_UNROLL
    for (int r = 0; r < DOWN; r++)
        by[r] = scale;
    tile_store(TYPE, dk, kv * D, keys_all - mine, D - part * D_PART,
               ATTENTION_VECTORS(TYPE, D), k_sum, ROWS, D_PART, by, keys,
               k_row);
    PARC_UNROLL
    for (int r = 0; r < DOWN; r++)
        by[r] = grow;
    tile_store(TYPE, dv, kv * E, keys_all - mine, E - part * E_PART,
               ATTENTION_VECTORS(TYPE, E), v_sum, ROWS, E_PART, by, values,
               v_row);
}
#undef KEY_SIZES
#undef KEY_COLUMNS
#undef QUERY_SIZES
