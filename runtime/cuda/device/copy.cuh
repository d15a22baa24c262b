/* copy.cuh: copies strided blocks within a rank's memory.
 *
 * `copy_strided` copies vectors of 2, 4, 8 or 16 bytes between any strides.
 * `copy_transposed`, up to 8 bytes, transposes a matrix through shared memory,
 * so that both sides access whole cache lines. Sizes and strides are in vectors;
 * unused dims have size 1. The size of a vector is an argument: all threads take
 * the same branch, and most of the code computes indices.
 */
#include "copy_tools.h"

PARC_KERNEL(KERNEL_THREADS)
copy_strided(uint8_t *to, const uint8_t *from, int64_t bytes, int64_t n,
             int64_t d1, int64_t d2, int64_t d3, int64_t d4, int64_t d5,
             int64_t t0, int64_t t1, int64_t t2, int64_t t3, int64_t t4,
             int64_t t5, int64_t s0, int64_t s1, int64_t s2, int64_t s3,
             int64_t s4, int64_t s5)
{
    int64_t i = block_index() * KERNEL_THREADS + thread_index();
    if (i >= n)
        return;
    int64_t i5 = copy_digit(&i, d5), i4 = copy_digit(&i, d4);
    int64_t i3 = copy_digit(&i, d3), i2 = copy_digit(&i, d2);
    int64_t i1 = copy_digit(&i, d1);
    to += (i * t0 + i1 * t1 + i2 * t2 + i3 * t3 + i4 * t4 + i5 * t5) * bytes;
    from += (i * s0 + i1 * s1 + i2 * s2 + i3 * s3 + i4 * s4 + i5 * s5) * bytes;
    switch (bytes) {
    case 2: copy_vector(to, from, 2); return;
    case 4: copy_vector(to, from, 4); return;
    case 8: copy_vector(to, from, 8); return;
    default: copy_vector(to, from, 16); return;
    }
}

/* Transposes a tile through shared memory: to[i][j] = from[j][i] for
 * i < rows, j < columns. `bytes` is a constant. */
PARC_DEVICE void transpose_tile(uint8_t *to, int64_t t_row, const uint8_t *from,
                                int64_t s_row, int64_t rows, int64_t columns,
                                uint8_t *tile, int bytes)
{
    /* Rows of the tile are padded, which avoids bank conflicts. */
    enum { ROW = COPY_TILE + 1, STEP = KERNEL_THREADS / COPY_TILE };
    int x = thread_index() % COPY_TILE, y0 = thread_index() / COPY_TILE;
    PARC_UNROLL
    for (int y = 0; y < COPY_TILE; y += STEP) {
        int j = y + y0;
        if (j < columns && x < rows)
            copy_vector(tile + (j * ROW + x) * bytes,
                        from + (j * s_row + x) * bytes, bytes);
    }
    block_barrier();
    PARC_UNROLL
    for (int y = 0; y < COPY_TILE; y += STEP) {
        int i = y + y0;
        if (i < rows && x < columns)
            copy_vector(to + (i * t_row + x) * bytes,
                        tile + (x * ROW + i) * bytes, bytes);
    }
}

/* to[i][j] = from[j][i] for i < rows, j < columns, with rows t_row and s_row
 * vectors apart, for each index of the dims d0 … d3. A block transposes a
 * tile of COPY_TILE x COPY_TILE vectors. */
PARC_KERNEL(KERNEL_THREADS)
copy_transposed(uint8_t *to, const uint8_t *from, int64_t bytes, int64_t rows,
                int64_t columns, int64_t t_row, int64_t s_row, int64_t d1,
                int64_t d2, int64_t d3, int64_t t0, int64_t t1, int64_t t2,
                int64_t t3, int64_t s0, int64_t s1, int64_t s2, int64_t s3)
{
    PARC_SHARED uint64_t turned[COPY_TILE * (COPY_TILE + 1)];
    uint8_t *tile = (uint8_t *)turned;
    int64_t at = block_index();
    int64_t across = (columns + COPY_TILE - 1) / COPY_TILE;
    int64_t column = copy_digit(&at, across) * COPY_TILE;
    int64_t down = (rows + COPY_TILE - 1) / COPY_TILE;
    int64_t row = copy_digit(&at, down) * COPY_TILE;
    int64_t i3 = copy_digit(&at, d3), i2 = copy_digit(&at, d2);
    int64_t i1 = copy_digit(&at, d1);
    to += (at * t0 + i1 * t1 + i2 * t2 + i3 * t3 + row * t_row + column) * bytes;
    from += (at * s0 + i1 * s1 + i2 * s2 + i3 * s3 + column * s_row + row) * bytes;
    rows -= row;
    columns -= column;
    switch (bytes) {
    case 2: transpose_tile(to, t_row, from, s_row, rows, columns, tile, 2); return;
    case 4: transpose_tile(to, t_row, from, s_row, rows, columns, tile, 4); return;
    default: transpose_tile(to, t_row, from, s_row, rows, columns, tile, 8); return;
    }
}
