/* grouped_tile.h: multiplies tiles in shared memory, for grouped_matmul.cuh.
 *
 * A block of KERNEL_THREADS threads computes [rows, GROUPED_COLUMNS] += a b, GROUPED_DEPTH(type)
 * deep. A tile has lines in the order of memory: a [rows, depth], or turned, [depth, rows]; b
 * [columns, depth], or turned, [depth, columns]. In 16 bits each of 4 x 2 warps has a part of
 * the sums, as the fragments of tensor cores; in f32 each of 16 x 16 threads, by FMA. All sizes
 * are constants at the call, so loops unroll and arrays of sums are registers.
 */
#ifndef PARC_GROUPED_TILE_H
#define PARC_GROUPED_TILE_H

#include "attention_tile.h"
#include "block_sort.h"

enum { GROUPED_WARPS = 4, /* that divide the rows, in 16 bits */
       GROUPED_SIDE = 16, /* threads that divide rows and columns in f32 */
       GROUPED_QUADS = 4 * GROUPED_SIDE };

/* ---- loads ---------------------------------------------------------------- */

/* Copies `lines` lines of `width` elements, `stride` apart in memory, to a tile. Lines from
 * `held` on, and elements from `valid` on, become zeros. `vectors`: lines begin and end at
 * multiples of 16 bytes. The threads copy equally many times 16 bytes. */
PARC_DEVICE void grouped_load(int type, int vectors, void *to, int lines, int width,
                              const void *from, int stride, int64_t held, int64_t valid)
{
    const int size = tile_half(type) ? 2 : 4, many = 16 / size, pieces = width / many;
    PARC_UNROLL
    for (int first = 0; first < lines * pieces; first += KERNEL_THREADS) {
        int i = first + thread_index(), line = i / pieces, column = i % pieces * many, there = line < held;
        uint8_t *at = (uint8_t *)to + (line * ATTENTION_ROW(type, width) + column) * size;
        const uint8_t *x = (const uint8_t *)from + (line * stride + column) * size;
        if (vectors)
            copy_async16_if(there && column < valid, at, x);
        else
            tile_elements(type, at, x, column, (int)(valid < width ? valid : width), there);
    }
}

/* The next part of the operands, as elements of them from where it begins, and what is left of
 * the sum there. For the gradient of a weight: the group after its rows. */
typedef struct GroupedPart {
    int64_t a, b, left, group;
} GroupedPart;

/* Loads a part to the tiles of a and b, and moves to the next one; returns 0 if there is none.
 * `kind`, `type`, `vectors` and `rows` are those of an instance; a and b begin at the result's
 * first row and column, of which `held` and `columns` exist. */
PARC_DEVICE int grouped_load_part(int kind, int type, int vectors, int rows, void *to_a,
                                  void *to_b, const void *a, const void *b, GroupedPart *p,
                                  int64_t f, int64_t d, int64_t held, int64_t columns)
{
    const int size = tile_half(type) ? 2 : 4, depth = GROUPED_DEPTH(type);
    const uint8_t *from_a = (const uint8_t *)a + p->a * size;
    const uint8_t *from_b = (const uint8_t *)b + p->b * size;
    if (p->left <= 0)
        return 0;
    if (kind == 2)
        grouped_load(type, vectors, to_a, depth, rows, from_a, (int)f, p->left, held);
    else
        grouped_load(type, vectors, to_a, rows, depth, from_a, (int)(kind ? f : d), held, p->left);
    if (kind)
        grouped_load(type, vectors, to_b, depth, GROUPED_COLUMNS, from_b, (int)d, p->left, columns);
    else
        grouped_load(type, vectors, to_b, GROUPED_COLUMNS, depth, from_b, (int)d, columns, p->left);
    p->a += kind == 2 ? depth * f : depth;
    p->b += kind ? depth * d : depth;
    p->left -= depth;
    return 1;
}

/* ---- tensor cores -------------------------------------------------------- */

/* Loads the fragment of 16 rows and 16 of the depth. */
PARC_DEVICE void grouped_rows_of(uint32_t x[4], int turned, const uint16_t *a, int line)
{
    int lane = lane_index();
    if (turned)
        load_matrices_turned(x, a + (lane / 16 * 8 + lane % 8) * line + lane / 8 % 2 * 8);
    else
        load_matrices(x, a + lane % 16 * line + lane / 16 * 8);
}

/* Loads the fragments of twice 8 columns and 16 of the depth. */
PARC_DEVICE void grouped_columns_of(uint32_t y[4], int turned, const uint16_t *b, int line)
{
    int lane = lane_index();
    if (turned)
        load_matrices_turned(y, b + lane % 16 * line + lane / 16 * 8);
    else
        load_matrices(y, b + (lane / 16 * 8 + lane % 8) * line + lane / 8 % 2 * 8);
}

/* The warp's `rows` rows and half of the columns. */
PARC_DEVICE void grouped_half(int type, float *sum, int rows, int turned_a, int turned_b,
                              const uint16_t *a, const uint16_t *b)
{
    enum { FRAGMENTS = GROUPED_COLUMNS / 16 };
    const int depth = GROUPED_DEPTH(type);
    const int a_line = ATTENTION_ROW(type, turned_a ? rows * GROUPED_WARPS : depth);
    const int b_line = ATTENTION_ROW(type, turned_b ? GROUPED_COLUMNS : depth);
    const int row = warp_index() / 2 * rows, column = warp_index() % 2 * GROUPED_COLUMNS / 2;
    a += turned_a ? row : row * a_line;
    b += turned_b ? column : column * b_line;
    PARC_UNROLL
    for (int k = 0; k < depth; k += 16) {
        uint32_t x[2][4], y[4];
        PARC_UNROLL
        for (int m = 0; m < rows / 16; m++)
            grouped_rows_of(x[m], turned_a,
                            a + (turned_a ? k * a_line + m * 16 : m * 16 * a_line + k), a_line);
        PARC_UNROLL
        for (int n = 0; n < FRAGMENTS; n += 2) {
            grouped_columns_of(
                y, turned_b, b + (turned_b ? k * b_line + n * 8 : n * 8 * b_line + k), b_line);
            PARC_UNROLL
            for (int m = 0; m < rows / 16; m++) {
                half_mma(type, sum + (m * FRAGMENTS + n) * 4, x[m], y);
                half_mma(type, sum + (m * FRAGMENTS + n + 1) * 4, x[m], y + 2);
            }
        }
    }
}

/* ---- f32 ----------------------------------------------------------------- */

/* The row, or the column of a turned b, of a thread's element i: four adjacent ones of each
 * GROUPED_QUADS. */
PARC_DEVICE int grouped_quad(int thread, int i)
{
    return i / 4 * GROUPED_QUADS + thread * 4 + i % 4;
}

/* The thread's rows / 16 rows and GROUPED_COLUMNS / 16 columns. */
PARC_DEVICE void grouped_full(float *sum, int rows, int turned_a, int turned_b, const float *a,
                              const float *b)
{
    enum { N = GROUPED_COLUMNS / GROUPED_SIDE };
    const int depth = GROUPED_DEPTH(TILE_F32), m = rows / GROUPED_SIDE;
    const int a_line = ATTENTION_ROW(TILE_F32, turned_a ? rows : depth);
    const int b_line = ATTENTION_ROW(TILE_F32, turned_b ? GROUPED_COLUMNS : depth);
    const int down = thread_index() / GROUPED_SIDE, across = thread_index() % GROUPED_SIDE;
    PARC_ROLL
    for (int k = 0; k < depth; k += 4) {
        float x[8][4], y[N];
        PARC_UNROLL
        for (int r = 0; r < m && !turned_a; r++)
            parc_load16(x[r], a + grouped_quad(down, r) * a_line + k);
        PARC_UNROLL
        for (int i = 0; i < 4 * m && turned_a; i += 4) {
            float quad[4];
            parc_load16(quad, a + (k + i / m) * a_line + grouped_quad(down, i % m));
            PARC_UNROLL
            for (int r = 0; r < 4; r++)
                x[i % m + r][i / m] = quad[r];
        }
        PARC_UNROLL
        for (int i = 0; i < 4 && turned_b; i++) {
            PARC_UNROLL
            for (int c = 0; c < N; c += 4)
                parc_load16(y + c, b + (k + i) * b_line + grouped_quad(across, c));
            PARC_UNROLL
            for (int r = 0; r < m; r++)
                PARC_UNROLL
                for (int c = 0; c < N; c++)
                    sum[r * N + c] += x[r][i] * y[c];
        }
        PARC_UNROLL
        for (int c = 0; c < N && !turned_b; c++) {
            parc_load16(y, b + (c * GROUPED_SIDE + across) * b_line + k);
            PARC_UNROLL
            for (int r = 0; r < m; r++)
                PARC_UNROLL
                for (int i = 0; i < 4; i++)
                    sum[r * N + c] += x[r][i] * y[i];
        }
    }
}

/* Adds the product of a part to the sums of a tile. */
PARC_DEVICE void grouped_product(int type, float *sum, int rows, int turned_a, int turned_b,
                                 const void *a, const void *b)
{
    if (tile_half(type))
        grouped_half(type, sum, rows / GROUPED_WARPS, turned_a, turned_b, (const uint16_t *)a,
                     (const uint16_t *)b);
    else
        grouped_full(sum, rows, turned_a, turned_b, (const float *)a, (const float *)b);
}

/* ---- positions of sums ----------------------------------------------------- */

/* The tile's row of a thread's sum i, of a tile of `rows` rows. */
PARC_DEVICE int grouped_row_of(int type, int rows, int i)
{
    if (tile_half(type))
        return warp_index() / 2 * (rows / GROUPED_WARPS) + i / (2 * GROUPED_COLUMNS / 8) * 16 +
               i % 4 / 2 * 8 + lane_index() / 4;
    return grouped_quad(thread_index() / GROUPED_SIDE, i / (GROUPED_COLUMNS / GROUPED_SIDE));
}

PARC_DEVICE int grouped_column_of(int type, int turned_b, int i)
{
    if (tile_half(type))
        return warp_index() % 2 * (GROUPED_COLUMNS / 2) + i % (2 * GROUPED_COLUMNS / 8) / 4 * 8 +
               lane_index() % 4 * 2 + i % 2;
    int c = i % (GROUPED_COLUMNS / GROUPED_SIDE), across = thread_index() % GROUPED_SIDE;
    return turned_b ? grouped_quad(across, c) : c * GROUPED_SIDE + across;
}

/* ---- tiles of rows --------------------------------------------------------- */

/* Rows of one expert in one group and shard: `rows` from `row` of [groups, x, r] on. The
 * expert's matrix. */
typedef struct GroupedTile {
    int64_t row;
    int rows, matrix;
} GroupedTile;

/* Rows begin … end - 1 of a shard: those of expert `expert`, entry `at` of `ends` [groups, x,
 * experts]. */
typedef struct GroupedRows {
    int at, expert, begin, end;
} GroupedRows;

PARC_DEVICE GroupedRows grouped_rows(const int32_t *ends, int at, int experts)
{
    GroupedRows x = {at, at % experts, 0, ends[at]};
    if (x.expert > 0)
        x.begin = ends[at - 1];
    return x;
}

PARC_DEVICE void grouped_next_rows(GroupedRows *x, const int32_t *ends, int experts)
{
    x->at++;
    x->expert = x->expert + 1 < experts ? x->expert + 1 : 0;
    x->begin = x->expert > 0 ? x->end : 0;
    x->end = ends[x->at];
}

PARC_DEVICE int grouped_tiles(const GroupedRows *x, int each)
{
    return (x->end - x->begin + each - 1) / each;
}

/* Finds tile `wanted` of the experts' rows, at most `each` rows of an expert in each, among n
 * entries of `ends`; the threads divide the entries. `tile` is in shared memory. Returns the number
 * of tiles. */
PARC_DEVICE int grouped_find(GroupedTile *tile, int32_t *total, const int32_t *ends, int n,
                              int x, int64_t r, int experts, int each, int wanted)
{
    int span = (n + KERNEL_THREADS - 1) / KERNEL_THREADS, first = thread_index() * span;
    int left = n - first < span ? n - first : span, own = 0;
    if (left > 0) {
        GroupedRows rows = grouped_rows(ends, first, experts);
        own = grouped_tiles(&rows, each);
        for (int i = 1; i < left; i++) {
            grouped_next_rows(&rows, ends, experts);
            own += grouped_tiles(&rows, each);
        }
    }
    wanted -= block_before(own, total);
    if (wanted >= 0 && wanted < own) {
        GroupedRows rows = grouped_rows(ends, first, experts);
        PARC_ROLL
        for (int tiles; wanted >= (tiles = grouped_tiles(&rows, each)); wanted -= tiles)
            grouped_next_rows(&rows, ends, experts);
        int begin = rows.begin + wanted * each, shard = rows.at / experts;
        tile->row = shard * r + begin;
        tile->rows = rows.end - begin < each ? rows.end - begin : each;
        tile->matrix = shard % x * experts + rows.expert;
    }
    int all = 0;
    PARC_UNROLL
    for (int w = 0; w < KERNEL_THREADS / PARC_WARP; w++)
        all += total[w];
    block_barrier();
    return all;
}

/* Moves to the rows of the expert in the next group that has some, if none are left. */
PARC_DEVICE void grouped_next(GroupedPart *p, const int32_t *ends, int64_t groups, int64_t x,
                              int64_t r, int64_t experts, int64_t matrix, int64_t f, int64_t d)
{
    PARC_ROLL
    for (; p->left <= 0 && p->group < groups; p->group++) {
        int64_t shard = p->group * x + matrix / experts;
        GroupedRows rows = grouped_rows(ends, (int)(shard * experts + matrix % experts),
                                        (int)experts);
        p->a = (shard * r + rows.begin) * f;
        p->b = (shard * r + rows.begin) * d;
        p->left = rows.end - rows.begin;
    }
}

#endif
