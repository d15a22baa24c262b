/* rt_matmul_wide.c: matrix products in f32, whatever the operands are.
 *
 * For element types that this machine has no instructions for, or the library
 * no kernel: blocks of the operands are widened to f32, in the order they
 * have in memory, and multiplied by the library's sgemm; a block of the
 * result is summed over all of k in f32 and rounded once. Emulating 16 bits
 * inside the product costs three times as much where AVX-512 has no bf16.
 */
#include <oneapi/dnnl/dnnl.h>

#include "rt_matmul.h"
#include "rt_type.h"

enum { ROWS = 512, COLUMNS = 512, SUMMED = 1024, ALIGN = 16 };

/* Floats of scratch for a block of at most rows x columns. */
static int64_t block_floats(const View *v, int64_t rows, int64_t columns)
{
    if (v->type == PARC_F32)
        return 0;
    int64_t n = rt_least(rows, v->rows) * rt_least(columns, v->columns);
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

int64_t rt_wide_scratch(const Plan *p)
{
    return (block_floats(&p->view[SRC], ROWS, SUMMED) +
            block_floats(&p->view[WEIGHTS], SUMMED, COLUMNS) +
            block_floats(&p->view[DST], ROWS, COLUMNS)) *
           (int64_t)sizeof(float);
}

/* A block as sgemm wants it: lines, contiguous, `line` floats apart; the
 * lines are columns of the matrix where it is transposed. */
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
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < lines; i++) {
        rt_widen(room + i * n, v->type, rt_element(v->type, from, i * line), n);
    }
    return b;
}

static void narrowed(const View *v, void *base, int64_t row, int64_t column,
                     int64_t rows, int64_t columns, const float *from)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = (row + i) * v->stride[1] + column;
        rt_narrow(v->type, rt_element_out(v->type, base, at),
                  from + i * columns, columns);
    }
}

/* Rows [i, i+rows) by columns [j, j+columns) of the result. */
static void product_block(const Plan *p, const void *src, const void *weights,
                          void *dst, float *scratch, int64_t i, int64_t j)
{
    const View *a = &p->view[SRC], *b = &p->view[WEIGHTS], *c = &p->view[DST];
    int64_t rows = rt_least(ROWS, c->rows - i), k = a->columns;
    int64_t columns = rt_least(COLUMNS, c->columns - j);
    float *room_b = scratch + block_floats(a, ROWS, SUMMED);
    float *sum = room_b + block_floats(b, SUMMED, COLUMNS);
    int64_t line = columns;
    if (c->type == PARC_F32) {
        sum = (float *)dst + i * c->stride[1] + j;
        line = c->stride[1];
    }
    for (int64_t x = 0; x < k; x += SUMMED) {
        int64_t n = rt_least(SUMMED, k - x);
        Block from = widened(a, src, i, x, rows, n, scratch);
        Block by = widened(b, weights, x, j, n, columns, room_b);
        dnnl_sgemm(from.transposed, by.transposed, rows, columns, n, 1,
                   from.at, from.line, by.at, by.line, x ? 1 : 0, sum, line);
    }
    if (c->type != PARC_F32)
        narrowed(c, dst, i, j, rows, columns, sum);
}

void rt_wide_product(const Plan *p, const void *src, const void *weights,
                     void *dst, void *scratch)
{
    const View *c = &p->view[DST];
    for (int64_t j = 0; j < c->columns; j += COLUMNS) {
        for (int64_t i = 0; i < c->rows; i += ROWS) {
            product_block(p, src, weights, dst, scratch, i, j);
        }
    }
}
