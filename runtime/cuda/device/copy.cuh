/* copy.cuh: copies strided blocks within a rank's memory.
 *
 * requires: COPY_BYTES (2, 4, 8 or 16), the size of a vector, and
 *           COPY_NAME(kernel); included once for each size
 *
 * `copy_strided` copies vectors between any strides. `copy_transposed`, up to
 * 8 bytes, transposes a matrix through shared memory, so that both sides access
 * whole cache lines. Sizes and strides are in vectors; unused dims have size 1.
 */
#include "copy_tools.h"

PARC_KERNEL(KERNEL_THREADS)
COPY_NAME(copy_strided)(uint8_t *to, const uint8_t *from, int64_t n, int64_t d1,
                        int64_t d2, int64_t d3, int64_t d4, int64_t d5,
                        int64_t t0, int64_t t1, int64_t t2, int64_t t3,
                        int64_t t4, int64_t t5, int64_t s0, int64_t s1,
                        int64_t s2, int64_t s3, int64_t s4, int64_t s5)
{
    int64_t i = block_index() * KERNEL_THREADS + thread_index();
    if (i >= n)
        return;
    int64_t i5 = copy_digit(&i, d5), i4 = copy_digit(&i, d4);
    int64_t i3 = copy_digit(&i, d3), i2 = copy_digit(&i, d2);
    int64_t i1 = copy_digit(&i, d1);
    to += (i * t0 + i1 * t1 + i2 * t2 + i3 * t3 + i4 * t4 + i5 * t5) *
          COPY_BYTES;
    from += (i * s0 + i1 * s1 + i2 * s2 + i3 * s3 + i4 * s4 + i5 * s5) *
            COPY_BYTES;
    copy_vector(to, from, COPY_BYTES);
}

#if COPY_BYTES < 16
/* to[i][j] = from[j][i] for i < rows, j < columns, with rows t_row and s_row
 * vectors apart, for each index of the dims d0 … d3. A block transposes a
 * tile of COPY_TILE x COPY_TILE vectors. */
PARC_KERNEL(KERNEL_THREADS)
COPY_NAME(copy_transposed)(uint8_t *to, const uint8_t *from, int64_t rows,
                           int64_t columns, int64_t t_row, int64_t s_row,
                           int64_t d1, int64_t d2, int64_t d3, int64_t t0,
                           int64_t t1, int64_t t2, int64_t t3, int64_t s0,
                           int64_t s1, int64_t s2, int64_t s3)
{
    /* Rows of the tile are padded, which avoids bank conflicts. */
    enum { ROW = COPY_TILE + 1, STEP = KERNEL_THREADS / COPY_TILE };
    PARC_SHARED uint64_t turned[COPY_TILE * ROW * COPY_BYTES / 8];
    uint8_t *tile = (uint8_t *)turned;
    int64_t at = block_index();
    int x = thread_index() % COPY_TILE;
    int64_t across = (columns + COPY_TILE - 1) / COPY_TILE;
    int64_t column = copy_digit(&at, across) * COPY_TILE;
    int64_t down = (rows + COPY_TILE - 1) / COPY_TILE;
    int64_t row = copy_digit(&at, down) * COPY_TILE;
    int64_t i3 = copy_digit(&at, d3), i2 = copy_digit(&at, d2);
    int64_t i1 = copy_digit(&at, d1);
    to += (at * t0 + i1 * t1 + i2 * t2 + i3 * t3 + row * t_row + column) *
          COPY_BYTES;
    from += (at * s0 + i1 * s1 + i2 * s2 + i3 * s3 + column * s_row + row) *
            COPY_BYTES;
    PARC_UNROLL
    for (int y = 0; y < COPY_TILE; y += STEP) {
        int j = y + thread_index() / COPY_TILE;
        if (column + j < columns && row + x < rows)
            copy_vector(tile + (j * ROW + x) * COPY_BYTES,
                        from + (j * s_row + x) * COPY_BYTES, COPY_BYTES);
    }
    block_barrier();
    PARC_UNROLL
    for (int y = 0; y < COPY_TILE; y += STEP) {
        int i = y + thread_index() / COPY_TILE;
        if (row + i < rows && column + x < columns)
            copy_vector(to + (i * t_row + x) * COPY_BYTES,
                        tile + (x * ROW + i) * COPY_BYTES, COPY_BYTES);
    }
}
#endif
