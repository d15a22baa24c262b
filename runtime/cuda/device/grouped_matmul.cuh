/* grouped_matmul.cuh: multiplies the rows of each expert by its matrix, and computes the
 * gradients (ParcGrouped, parc_experts.h).
 *
 *   ends = [2, 2, 261], tiles of 128 rows     tile 0: rows 0 … 1 and weight[0]
 *                                             tile 1, 2, 3: rows 2 …, 130 …, 258 … and weight[2]
 *                                             tile 4 …: none
 *
 * requires: GROUPED_NAME(kernel); GROUPED_KIND, what is computed: 0 y, 1 the gradient of rows,
 *           2 that of the weight; GROUPED_TYPE (TILE_BF16 …) and GROUPED_ELEMENT, the type of
 *           the operands; GROUPED_RESULT and GROUPED_WRITE, the C type of the result and its
 *           conversion from f32; GROUPED_ROWS, the rows of a tile, 64 or 128; GROUPED_VECTORS:
 *           f and d are multiples of 16 bytes
 *
 * A block computes tiles of the result. For y and the gradient of rows, there are as many tiles as
 * the rows may need; a block finds the rows of tiles index, index + blocks, … in `ends`, up to the
 * last rows. Blocks that run together share rows and matrices: GROUPED_BAND tiles of rows come
 * before the next columns. For the gradient of the weight, a block adds the rows of an expert in
 * all groups, in order. Parts of the operands are copied to GROUPED_STAGES buffers while others
 * are multiplied; rows without a pair become zeros there, and are not read. Sums are in f32 and
 * have a fixed order.
 */
#include "grouped_tile.h"

PARC_KERNEL(KERNEL_THREADS, GROUPED_TYPE == TILE_F32 ? 1 : 2)
GROUPED_NAME(grouped_matmul)(GROUPED_RESULT *__restrict__ out,
                             const GROUPED_ELEMENT *__restrict__ a,
                             const GROUPED_ELEMENT *__restrict__ b,
                             const int32_t *__restrict__ ends, int64_t groups, int64_t x,
                             int64_t r, int64_t experts, int64_t f, int64_t d, int64_t tiles,
                             int64_t blocks)
{
    enum {
        TYPE = GROUPED_TYPE, KIND = GROUPED_KIND, ROWS = GROUPED_ROWS, WEIGHT = KIND == 2,
        TURNED = KIND != 0, SUMS = ROWS * GROUPED_COLUMNS / KERNEL_THREADS,
        AT_B = GROUPED_A_TILE(KIND, TYPE, ROWS), STAGE = AT_B + GROUPED_B_TILE(KIND, TYPE),
        MANY = TYPE != TILE_F32 ? 2 : TURNED ? 4 : 1 /* adjacent sums of a thread */
    };
    GROUPED_ELEMENT *shared = (GROUPED_ELEMENT *)parc_shared();
    float sum[SUMS];
    const int64_t width = KIND == 0 ? f : d;
    const int64_t strips = (width + GROUPED_COLUMNS - 1) / GROUPED_COLUMNS;
    int64_t held, matrix, row;
#if GROUPED_KIND != 2
    PARC_SHARED GroupedTile tile;
    PARC_SHARED int32_t total[KERNEL_THREADS / PARC_WARP];
#endif
    PARC_ROLL
    for (int64_t index = block_index(); index < tiles; index += blocks) {
        GroupedPart part = {0, 0, 0, 0};
#if GROUPED_KIND == 2
        const int64_t column = index % strips * GROUPED_COLUMNS;
        const int64_t down_tiles = (f + ROWS - 1) / ROWS;
        row = index / strips % down_tiles * ROWS;
        matrix = index / strips / down_tiles;
        held = f - row;
        const GROUPED_ELEMENT *from_a = a + row, *from_b = b + column;
        row += matrix * f;
        grouped_next(&part, ends, groups, x, r, experts, matrix, f, d);
#else
        const int64_t band = GROUPED_BAND * strips, in_band = index % band;
        const int64_t column = in_band / GROUPED_BAND * GROUPED_COLUMNS;
        const int first = (int)(index / band * GROUPED_BAND);
        const int wanted = first + (int)(in_band % GROUPED_BAND);
        const int found = grouped_find(&tile, total, ends, (int)(groups * x * experts), (int)x, r,
                                       (int)experts, ROWS, wanted);
        if (found <= first)
            return;
        if (found <= wanted)
            continue;
        held = tile.rows;
        row = tile.row;
        matrix = tile.matrix;
        part.left = KIND == 0 ? d : f;
        const GROUPED_ELEMENT *from_a = a + row * part.left;
        const GROUPED_ELEMENT *from_b = b + matrix * f * d + (KIND == 0 ? column * d : column);
#endif
        const int64_t columns = width - column;
        tile_fill(sum, SUMS, 0);
        int loaded = 0;
        PARC_ROLL
        for (int i = 1 - GROUPED_STAGES; i < loaded; i++) {
            if (i >= 0) {
                copy_async_wait(GROUPED_STAGES - 2);
                block_barrier();
            }
            GROUPED_ELEMENT *to = shared + (i + GROUPED_STAGES - 1) % GROUPED_STAGES * STAGE;
            loaded += grouped_load_part(KIND, TYPE, GROUPED_VECTORS, ROWS, to, to + AT_B, from_a,
                                        from_b, &part, f, d, held, columns);
            copy_async_commit();
            if (WEIGHT)
                grouped_next(&part, ends, groups, x, r, experts, matrix, f, d);
            if (i < 0)
                continue;
            const GROUPED_ELEMENT *from = shared + i % GROUPED_STAGES * STAGE;
            grouped_product(TYPE, sum, ROWS, WEIGHT, TURNED, from, from + AT_B);
        }
        GROUPED_RESULT *result = out + row * width + column;
        PARC_UNROLL
        for (int i = 0; i < SUMS; i += MANY) {
            int down = grouped_row_of(TYPE, ROWS, i);
            int across = grouped_column_of(TYPE, TURNED, i);
            GROUPED_RESULT *to = result + down * width + across;
            if (GROUPED_VECTORS && down < held && across < columns)
                GROUPED_WRITE(to, sum + i, MANY);
            PARC_UNROLL
            for (int j = 0; j < MANY && !GROUPED_VECTORS; j++)
                if (down < held && across + j < columns)
                    GROUPED_WRITE(to + j, sum + i + j, 1);
        }
        if (WEIGHT) /* which has a block for each tile: only grouped_find has a barrier */
            return;
    }
}
