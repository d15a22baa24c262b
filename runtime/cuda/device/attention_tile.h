/* attention_tile.h: multiplies tiles in shared memory, for attention*.cuh.
 *
 * A warp owns `rows` whole rows of a product, so operations along rows need no
 * barrier. Its threads hold the product's elements in registers:
 * tile_register(half, columns, r, c) is the index of a thread's r-th row and
 * c-th column; tile_row_of and tile_column_of give their positions in the tile.
 * 16-bit elements (half) are multiplied by tensor cores, whose fragments
 * prescribe the registers; f32 is multiplied by FMA, with 16 lanes per row.
 *
 *   tile_scores   [rows, columns] = a[rows, depth] b[columns, depth]'
 *   tile_add      [rows, columns] += weights[rows, depth] b[depth, columns]
 *
 * requires: rows of a tile are padded, which avoids bank conflicts; columns up to
 *           the next multiple of 16 (f32: 4) are zeros. All sizes are constants
 *           at the call, so loops unroll and arrays of elements are registers
 */
#ifndef PARC_ATTENTION_TILE_H
#define PARC_ATTENTION_TILE_H

#include "parc_device.h"

PARC_DEVICE int tile_half(int type)
{
    return type != TILE_F32;
}

PARC_DEVICE int tile_up(int n, int to)
{
    return (n + to - 1) / to * to;
}

/* ---- registers ----------------------------------------------------------- */

PARC_DEVICE int tile_register(int half, int columns, int r, int c)
{
    return half ? ((r / 2 * (columns / 8) + c / 2) * 2 + r % 2) * 2 + c % 2
                : r * (columns / 16) + c;
}

/* The index of a thread's r-th row in the warp's rows. */
PARC_DEVICE int tile_row_of(int half, int rows, int r)
{
    int lane = lane_index();
    return half ? r / 2 * 16 + r % 2 * 8 + lane / 4 : lane / 16 * (rows / 2) + r;
}

PARC_DEVICE int tile_column_of(int half, int c)
{
    int lane = lane_index();
    return half ? c / 2 * 8 + lane % 4 * 2 + c % 2 : c * 16 + lane % 16;
}

/* The columns of the sums of tile_add: in f32 a thread has four adjacent
 * ones. */
PARC_DEVICE int sum_column_of(int half, int c)
{
    int lane = lane_index();
    return half ? tile_column_of(half, c) : c / 4 * 64 + lane % 16 * 4 + c % 4;
}

/* Maximum and sum over the lanes that share a row. */
PARC_DEVICE float row_max(int half, float x)
{
    PARC_UNROLL
    for (int mask = half ? 2 : 8; mask > 0; mask /= 2)
        x = parc_max(x, warp_shuffle_xor(x, mask));
    return x;
}

PARC_DEVICE float row_sum(int half, float x)
{
    PARC_UNROLL
    for (int mask = half ? 2 : 8; mask > 0; mask /= 2)
        x += warp_shuffle_xor(x, mask);
    return x;
}

PARC_DEVICE void tile_fill(float *x, int n, float value)
{
    PARC_UNROLL
    for (int i = 0; i < n; i++)
        x[i] = value;
}

/* ---- loads to shared memory ---------------------------------------------- */

/* Copies 16 bytes of a tile's row from `x`, element by element. Elements from `width` on are
 * zeros, as is a row that is not `there`. */
PARC_DEVICE void tile_elements(int type, void *to, const void *x, int column, int width,
                               int there)
{
    PARC_UNROLL
    for (int i = 0; i < (tile_half(type) ? 8 : 4); i++) {
        int held = there && column + i < width;
        if (tile_half(type))
            ((uint16_t *)to)[i] = held ? ((const uint16_t *)x)[i] : 0;
        else
            ((float *)to)[i] = held ? ((const float *)x)[i] : 0.0f;
    }
}

/* The same, asynchronously if rows are multiples of 16 bytes. */
PARC_DEVICE void tile_piece(int type, void *to, const void *x, int column,
                            int width, int there)
{
    if (width % (tile_half(type) ? 8 : 4) == 0)
        copy_async16_if(there && column < width, to, x);
    else
        tile_elements(type, to, x, column, width, there);
}

/* Loads rows [rows, width], `stride` elements apart, to a tile with rows of
 * `row` elements. Rows from `held` on, and columns from `width` to `padded`,
 * become zeros. All threads call it; the caller commits and waits. If each
 * pass of the threads covers whole rows, a thread keeps its column. */
PARC_DEVICE void tile_load(int type, void *to, int row, const void *from,
                           int64_t stride, int held, int rows, int width,
                           int padded, int threads)
{
    int size = tile_half(type) ? 2 : 4, many = 16 / size;
    int pieces = padded / many;
    int step = threads / pieces, i0 = thread_index() / pieces;
    int column = thread_index() % pieces * many;
    uint8_t *at = (uint8_t *)to + (i0 * row + column) * size;
    const uint8_t *x = (const uint8_t *)from + (i0 * stride + column) * size;
    if (threads % pieces == 0) {
        PARC_ROLL
        for (int i = 0; i < rows; i += step) {
            if (rows % step == 0 || i0 + i < rows)
                tile_piece(type, at + i * row * size, x, column, width,
                           i0 + i < held);
            x += step * (int)stride * size;
        }
        return;
    }
    PARC_ROLL
    for (int piece = thread_index(); piece < rows * pieces; piece += threads) {
        int i = piece / pieces;
        column = piece % pieces * many;
        at = (uint8_t *)to + (i * row + column) * size;
        x = (const uint8_t *)from + (i * stride + column) * size;
        tile_piece(type, at, x, column, width, i < held);
    }
}

/* ---- tensor cores -------------------------------------------------------- */

PARC_DEVICE void half_mma(int type, float *d, const uint32_t *a,
                          const uint32_t *b)
{
    if (type == TILE_BF16)
        mma_bf16(d, a, b);
    else
        mma_f16(d, a, b);
}

PARC_DEVICE uint32_t half_pack(int type, float low, float high)
{
    return type == TILE_BF16 ? parc_pack_bf16(low, high)
                             : parc_pack_f16(low, high);
}

PARC_DEVICE void half_scores(int type, float *score, int rows, int columns,
                             int depth, const uint16_t *a, int a_row,
                             const uint16_t *b, int b_row)
{
    int lane = lane_index(), per_row = columns / 8;
    const uint16_t *x_at = a + lane % 16 * a_row + lane / 16 * 8;
    const uint16_t *y_at =
        b + (lane / 16 * 8 + lane % 8) * b_row + lane / 8 % 2 * 8;
    PARC_UNROLL_2
    for (int k = 0; k < depth; k += 16) {
        uint32_t x[2][4], y[4];
        PARC_UNROLL
        for (int m = 0; m < rows / 16; m++)
            load_matrices(x[m], x_at + m * 16 * a_row + k);
        PARC_UNROLL
        for (int n = 0; n < per_row; n += 2) {
            load_matrices(y, y_at + n * 8 * b_row + k);
            PARC_UNROLL
            for (int m = 0; m < rows / 16; m++) {
                half_mma(type, score + (m * per_row + n) * 4, x[m], y);
                half_mma(type, score + (m * per_row + n + 1) * 4, x[m], y + 2);
            }
        }
    }
}

/* The registers of two adjacent products have the layout of a first operand, so
 * the weights need no exchange between lanes. */
PARC_DEVICE void half_add(int type, float *sum, int rows, int columns,
                          int depth, const float *weight, const uint16_t *b,
                          int b_row)
{
    int lane = lane_index(), per_row = columns / 8;
    const uint16_t *y_at = b + lane % 16 * b_row + lane / 16 * 8;
    PARC_UNROLL
    for (int k = 0; k < depth / 16; k++) {
        uint32_t x[2][4], y[4];
        PARC_UNROLL
        for (int m = 0; m < rows / 16; m++) {
            const float *w = weight + (m * (depth / 8) + k * 2) * 4;
            PARC_UNROLL
            for (int i = 0; i < 4; i++)
                x[m][i] = half_pack(type, w[i * 2], w[i * 2 + 1]);
        }
        PARC_UNROLL
        for (int n = 0; n < per_row; n += 2) {
            load_matrices_turned(y, y_at + k * 16 * b_row + n * 8);
            PARC_UNROLL
            for (int m = 0; m < rows / 16; m++) {
                half_mma(type, sum + (m * per_row + n) * 4, x[m], y);
                half_mma(type, sum + (m * per_row + n + 1) * 4, x[m], y + 2);
            }
        }
    }
}

/* ---- f32 ----------------------------------------------------------------- */

PARC_DEVICE void full_scores(float *score, int rows, int columns, int depth,
                             const float *a, int a_row, const float *b,
                             int b_row)
{
    int lane = lane_index(), down = rows / 2, per_row = columns / 16;
    const float *x_at = a + lane / 16 * down * a_row;
    const float *y_at = b + lane % 16 * b_row;
    PARC_ROLL
    for (int k = 0; k < depth; k += 4) {
        float x[4], y[4][4];
        PARC_UNROLL
        for (int c = 0; c < per_row; c++)
            parc_load16(y[c], y_at + c * 16 * b_row + k);
        PARC_UNROLL
        for (int r = 0; r < down; r++) {
            parc_load16(x, x_at + r * a_row + k);
            PARC_UNROLL
            for (int c = 0; c < per_row; c++)
                PARC_UNROLL
                for (int i = 0; i < 4; i++)
                    score[r * per_row + c] += x[i] * y[c][i];
        }
    }
}

/* Stores a warp's weights to its own `exchange`, with ATTENTION_WEIGHT_ROW. */
PARC_DEVICE void full_put(float *exchange, int rows, int depth,
                          const float *weight)
{
    PARC_UNROLL
    for (int r = 0; r < rows / 2; r++)
        PARC_UNROLL
        for (int c = 0; c < depth / 16; c++)
            exchange[tile_row_of(0, rows, r) * ATTENTION_WEIGHT_ROW(depth) +
                     tile_column_of(0, c)] =
                weight[tile_register(0, depth, r, c)];
}

PARC_DEVICE void full_add(float *sum, int rows, int columns, int depth,
                          const float *exchange, const float *b, int b_row)
{
    int lane = lane_index(), down = rows / 2;
    int per_row = tile_up(columns, 64) / 64;
    const int x_row = ATTENTION_WEIGHT_ROW(depth);
    const float *x_at = exchange + lane / 16 * down * x_row;
    const float *y_at = b + lane % 16 * 4;
    const int step = per_row > 1 ? 2 : 4; /* wider sums leave fewer registers */
    PARC_ROLL
    for (int k = 0; k < depth; k += step) {
        float x[4][4], y[4];
        PARC_UNROLL
        for (int r = 0; r < down; r++)
            parc_read_words(x[r], x_at + r * x_row + k, step);
        PARC_UNROLL
        for (int c = 0; c < per_row; c++) {
            if (c * 64 + lane % 16 * 4 >= columns)
                continue;
            PARC_UNROLL
            for (int i = 0; i < step; i++) {
                parc_load16(y, y_at + (k + i) * b_row + c * 64);
                PARC_UNROLL
                for (int r = 0; r < down; r++)
                    PARC_UNROLL
                    for (int z = 0; z < 4; z++)
                        sum[(r * per_row + c) * 4 + z] += x[r][i] * y[z];
            }
        }
    }
}

/* ---- both ---------------------------------------------------------------- */

PARC_DEVICE void tile_scores(int type, float *score, int rows, int columns,
                             int depth, const void *a, int a_row, const void *b,
                             int b_row)
{
    tile_fill(score, rows * columns / PARC_WARP, 0);
    if (tile_half(type))
        half_scores(type, score, rows, columns, tile_up(depth, 16),
                    (const uint16_t *)a, a_row, (const uint16_t *)b, b_row);
    else
        full_scores(score, rows, columns, tile_up(depth, 4), (const float *)a,
                    a_row, (const float *)b, b_row);
}

/* `exchange`: buffer through which lanes exchange weights in f32; the caller
 * must not have it in use. */
PARC_DEVICE void tile_add(int type, float *sum, int rows, int columns,
                          int depth, const float *weight, float *exchange,
                          const void *b, int b_row)
{
    if (tile_half(type)) {
        half_add(type, sum, rows, tile_up(columns, 16), depth, weight,
                 (const uint16_t *)b, b_row);
        return;
    }
    full_put(exchange, rows, depth, weight);
    warp_barrier();
    full_add(sum, rows, columns, depth, exchange, (const float *)b, b_row);
}

/* ---- stores to global memory --------------------------------------------- */

/* Stores sums in f32, row r multiplied by by[r], to the first `limit` rows of
 * `valid` columns. `fours`: the rows are multiples of 16 bytes. */
PARC_DEVICE void full_store(float *to, int64_t stride, int limit, int valid,
                            int fours, const float *sum, int rows, int width,
                            const float *by)
{
    int per_row = tile_up(width, 64) / 16;
    PARC_UNROLL
    for (int r = 0; r < rows / 2; r++) {
        int row = tile_row_of(0, rows, r);
        PARC_UNROLL
        for (int c = 0; c < per_row; c += 4) {
            int column = sum_column_of(0, c);
            float x[4];
            PARC_UNROLL
            for (int i = 0; i < 4; i++)
                x[i] = sum[r * per_row + c + i] * by[r];
            if (row < limit && fours && column < valid)
                parc_write_f32(to + row * stride + column, x, 4);
            PARC_UNROLL
            for (int i = 0; i < 4; i++)
                if (!fours && row < limit && column + i < valid)
                    to[row * stride + column + i] = x[i];
        }
    }
}

/* Stores sums in 16 bits, through the warp's own rows of a tile, which gives
 * writes of whole cache lines. A lane overwrites only words of the tile that it
 * alone has read as a first operand. */
PARC_DEVICE void half_store(int type, uint16_t *to, int64_t stride, int limit,
                            int valid, int eights, const float *sum, int rows,
                            int width, const float *by, uint16_t *tile,
                            int tile_row)
{
    int per_row = tile_up(width, 16) / 8, many = eights ? 8 : 1;
    PARC_UNROLL
    for (int r = 0; r < rows / 8; r++)
        PARC_UNROLL
        for (int n = 0; n < per_row; n++) {
            const float *x = sum + ((r / 2 * per_row + n) * 2 + r % 2) * 2;
            uint32_t two = half_pack(type, x[0] * by[r], x[1] * by[r]);
            parc_store4(tile + tile_row_of(1, rows, r) * tile_row +
                            tile_column_of(1, n * 2),
                        &two);
        }
    warp_barrier();
    int pieces = tile_up(width, 8) / many;
    for (int i = lane_index(); i < rows * pieces; i += PARC_WARP) {
        int row = i / pieces, column = i % pieces * many;
        const uint16_t *from = tile + row * tile_row + column;
        uint32_t x[4];
        if (row >= limit || column >= valid)
            continue;
        if (eights) {
            parc_load16(x, from);
            parc_store16(to + row * stride + column, x);
        } else {
            to[row * stride + column] = *from;
        }
    }
}

/* Stores sums in f32, row r multiplied by by[r]. Adds `before`, which is as `to`, multiplied by
 * with[r]; NULL: nothing. */
PARC_DEVICE void tile_store_sums(int type, float *to, const float *before, const float *with,
                                 int64_t stride, int limit, int valid, const float *sum,
                                 int rows, int width, const float *by)
{
    const int half = tile_half(type), down = half ? rows / 8 : rows / 2;
    const int columns = tile_up(width, half ? 16 : 64);
    PARC_UNROLL
    for (int r = 0; r < down; r++) {
        const int row = tile_row_of(half, rows, r);
        PARC_UNROLL
        for (int c = 0; c < rows * columns / PARC_WARP / down; c++) {
            const int column = sum_column_of(half, c);
            const int64_t at = row * stride + column;
            float x = sum[tile_register(half, columns, r, c)] * by[r];
            if (row >= limit || column >= valid)
                continue;
            if (before)
                x += before[at] * with[r];
            to[at] = x;
        }
    }
}

PARC_DEVICE void tile_store(int type, void *to, int64_t stride, int limit,
                            int valid, int vectors, const float *sum, int rows,
                            int width, const float *by, void *tile,
                            int tile_row)
{
    if (tile_half(type))
        half_store(type, (uint16_t *)to, stride, limit, valid, vectors, sum,
                   rows, width, by, (uint16_t *)tile, tile_row);
    else
        full_store((float *)to, stride, limit, valid, vectors, sum, rows, width,
                   by);
}

#endif
