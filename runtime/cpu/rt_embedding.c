/* rt_embedding.c: copies rows of a table by id, and computes the table's
 * gradient.
 *
 * With vocabulary parallelism a rank holds rows base … base+rows-1; other ids
 * give zeros, and a sum over the group gives the result. Threads split the
 * gradient by columns: each row is summed in order of position, for any number
 * of threads.
 */
#include <string.h>

#include "common/type.h"
#include "rt.h"

enum { LINE = 16, GRAIN = 1 << 14, TILE = 256, CLEARED = 1 << 20 };

void parc_embedding(ParcRt *rt, ParcType type, void *out, const void *table,
                    const int32_t *ids, int64_t n, int64_t rows, int64_t width,
                    const int64_t *base)
{
    size_t bytes = (size_t)(width * rt_type_size(type));
    int64_t first = base ? *base : 0;
    (void)rt;
#pragma omp parallel for schedule(static) if (n * width > GRAIN)
    for (int64_t i = 0; i < n; i++) {
        int64_t row = ids[i] - first;
        void *to = rt_element_out(type, out, i * width);
        if (row >= 0 && row < rows)
            memcpy(to, rt_element(type, table, row * width), bytes);
        else
            memset(to, 0, bytes);
    }
}

static void add_row_piece(float *restrict sum, ParcType type, const void *dy,
                      int64_t n)
{
    float scratch[TILE];
    const float *restrict y = rt_as_floats(type, dy, n, scratch);
#pragma omp simd
    for (int64_t c = 0; c < n; c++)
        sum[c] += y[c];
}

/* Adds columns [from, to) of all positions. */
static void add_columns(float *grad, ParcType type, const void *dy,
                        const int32_t *ids, int64_t n, int64_t rows,
                        int64_t width, int64_t base, int64_t from, int64_t to)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t row = ids[i] - base;
        if (row < 0 || row >= rows)
            continue;
        for (int64_t c = from; c < to; c += TILE)
            add_row_piece(grad + row * width + c, type,
                      rt_element(type, dy, i * width + c),
                      rt_least(to - c, TILE));
    }
}

void parc_embedding_add(ParcRt *rt, ParcType type, float *grad, const void *dy,
                        const int32_t *ids, int64_t n, int64_t rows,
                        int64_t width, const int64_t *base)
{
    int64_t first = base ? *base : 0;
    int64_t parts = (width + LINE - 1) / LINE;
    parts = rt_least(parts, rt->threads);
    int64_t step = ((width + parts - 1) / parts + LINE - 1) / LINE * LINE;
#pragma omp parallel for schedule(static) if (n * width > GRAIN)
    for (int64_t p = 0; p < parts; p++) {
        int64_t from = p * step, to = rt_least(from + step, width);
        if (from < to)
            add_columns(grad, type, dy, ids, n, rows, width, first, from, to);
    }
}

void parc_embedding_grad(ParcRt *rt, ParcType type, float *grad, const void *dy,
                         const int32_t *ids, int64_t n, int64_t rows,
                         int64_t width, const int64_t *base)
{
    int64_t all = rows * width, pieces = (all + CLEARED - 1) / CLEARED;
#pragma omp parallel for schedule(static) if (all > GRAIN)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t at = p * CLEARED, count = rt_least(all - at, CLEARED);
        memset(grad + at, 0, (size_t)count * sizeof *grad);
    }
    parc_embedding_add(rt, type, grad, dy, ids, n, rows, width, base);
}
