/* rt_matmul_wide.c: computes matrix products in f32 for operands of any float
 * type.
 *
 * It is used for element types without instructions on this machine or without
 * a kernel in the library. Blocks of the operands are converted to f32, in the
 * order that they have in memory, and multiplied by the library's sgemm. A
 * block of the result is summed over all of k in f32 and rounded once. On
 * AVX-512 without bf16, emulating 16 bits inside the product costs three times
 * as much.
 *
 * Every thread has its own rows and columns of the result:
 *
 *   for rows, for columns              limited by the buffer for sums
 *     for pieces of k
 *       convert b's block              once
 *       for blocks of these rows: convert a's, sums += a's block x b's
 *     round the sums
 */
#include <oneapi/dnnl/dnnl.h>

#include "common/type.h"
#include "cpu/rt_matmul.h"

enum { ROWS = 512, COLUMNS = 512, SUMMED = 1024, KEPT = 2048, ALIGN = 16 };

/* Rows and columns of the result per thread; the last threads may have
 * fewer. */
typedef struct Share {
    int64_t rows, columns;
} Share;

/* A thread converts its rows of a and its columns of b. The chosen grid of
 * threads has the smallest sum of both. */
static Share share_of(const Plan *p, int threads)
{
    const View *c = &p->view[DST];
    Share best = {c->rows, c->columns};
    int64_t least = INT64_MAX;
    for (int over = 1; over <= threads; over++) {
        Share s = {rt_pieces(rt_pieces(c->rows, ALIGN), over) * ALIGN,
                   rt_pieces(rt_pieces(c->columns, ALIGN), threads / over) *
                       ALIGN};
        if (threads % over == 0 && s.rows + s.columns < least) {
            least = s.rows + s.columns;
            best = s;
        }
    }
    return best;
}

/* Floats of scratch for a block of at most rows x columns; 0 for f32. */
static int64_t block_floats(const View *v, int64_t rows, int64_t columns)
{
    int64_t n = rt_least(rows, v->rows) * rt_least(columns, v->columns);
    return v->type == PARC_F32 ? 0 : rt_pieces(n, ALIGN) * ALIGN;
}

static int64_t floats_a(const Plan *p)
{
    return block_floats(&p->view[SRC], ROWS, SUMMED);
}

static int64_t floats_b(const Plan *p)
{
    return block_floats(&p->view[WEIGHTS], SUMMED, COLUMNS);
}

static int64_t thread_floats(const Plan *p, const Share *s)
{
    return floats_a(p) + floats_b(p) +
           block_floats(&p->view[DST], rt_least(KEPT, s->rows), COLUMNS);
}

int64_t rt_wide_scratch(const Plan *p, int threads)
{
    const View *c = &p->view[DST];
    int64_t most = 0;
    for (int n = 1; n <= threads; n++) { /* a run may use fewer threads */
        Share s = share_of(p, n);
        int64_t floats = thread_floats(p, &s) * rt_shares(c, s.rows, s.columns);
        most = floats > most ? floats : most;
    }
    return most * (int64_t)sizeof(float);
}

/* A block in sgemm's format: contiguous lines, `line` floats apart. Lines are
 * columns of the matrix if it is transposed. */
typedef struct Block {
    const float *at;
    int64_t line;
    char transposed; /* 'N' or 'T' */
} Block;

static Block widened(const View *v, const void *base, int64_t row,
                     int64_t column, int64_t rows, int64_t columns, float *room)
{
    bool across = v->stride[2] != 1;
    int64_t line = across ? v->stride[2] : v->stride[1];
    int64_t lines = across ? columns : rows, n = across ? rows : columns;
    const char *from =
        rt_element(v->type, base, row * v->stride[1] + column * v->stride[2]);
    Block b = {room, n, across ? 'T' : 'N'};
    if (v->type == PARC_F32) {
        b.at = (const float *)(const void *)from;
        b.line = line;
        return b;
    }
    for (int64_t i = 0; i < lines; i++)
        rt_widen(room + i * n, v->type, rt_element(v->type, from, i * line), n);
    return b;
}

static void narrowed(const View *v, void *base, int64_t row, int64_t column,
                     int64_t rows, int64_t columns, const float *from)
{
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = (row + i) * v->stride[1] + column;
        rt_narrow(v->type, rt_element_out(v->type, base, at),
                  from + i * columns, columns);
    }
}

/* Computes rows [i, i+rows) by columns [j, j+columns) of the result. The
 * scratch holds the block of a, then that of b, then the sums. */
static void product_block(const Plan *p, const void *src, const void *weights,
                          void *dst, float *scratch, int64_t i, int64_t j,
                          int64_t rows, int64_t columns)
{
    const View *a = &p->view[SRC], *b = &p->view[WEIGHTS], *c = &p->view[DST];
    float *room_b = scratch + floats_a(p), *sum = room_b + floats_b(p);
    int64_t line = columns, k = a->columns;
    if (c->type == PARC_F32) {
        sum = (float *)dst + i * c->stride[1] + j;
        line = c->stride[1];
    }
    for (int64_t x = 0; x < k; x += SUMMED) {
        int64_t deep = rt_least(SUMMED, k - x);
        Block by = widened(b, weights, x, j, deep, columns, room_b);
        for (int64_t y = 0; y < rows; y += ROWS) {
            int64_t n = rt_least(ROWS, rows - y);
            Block from = widened(a, src, i + y, x, n, deep, scratch);
            dnnl_sgemm(from.transposed, by.transposed, n, columns, deep, 1,
                       from.at, from.line, by.at, by.line, x ? 1 : 0,
                       sum + y * line, line);
        }
    }
    if (c->type != PARC_F32)
        narrowed(c, dst, i, j, rows, columns, sum);
}

void rt_wide_product(const Plan *p, const void *src, const void *weights,
                     void *dst, void *scratch, int threads)
{
    const View *c = &p->view[DST];
    Share s = share_of(p, threads);
    int64_t across = rt_pieces(c->columns, s.columns);
    int64_t shares = rt_shares(c, s.rows, s.columns);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int64_t t = 0; t < shares; t++) {
        float *room = (float *)scratch + t * thread_floats(p, &s);
        int64_t row = t / across * s.rows, column = t % across * s.columns;
        int64_t to_row = rt_least(row + s.rows, c->rows);
        int64_t to_column = rt_least(column + s.columns, c->columns);
        for (int64_t i = row; i < to_row; i += KEPT) {
            for (int64_t j = column; j < to_column; j += COLUMNS)
                product_block(p, src, weights, dst, room, i, j,
                              rt_least(KEPT, to_row - i),
                              rt_least(COLUMNS, to_column - j));
        }
    }
}
