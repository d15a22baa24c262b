/* rt_embedding.c: rows of a table by number, and the gradient of that.
 *
 * Under vocabulary parallelism a rank holds rows base … base+rows-1; the
 * other numbers give zeros, to be summed over the group. The gradient is cut
 * among threads by columns: each row is summed in the order of positions,
 * whatever the number of threads.
 */
#include <string.h>

#include "rt.h"

enum { LINE = 16, GRAIN = 1 << 14 };

void parc_embedding(ParcRt *rt, float *out, const float *table,
                    const int32_t *ids, int64_t n, int64_t rows, int64_t width,
                    int64_t base)
{
    size_t bytes = (size_t)width * sizeof *out;
    (void)rt;
#pragma omp parallel for schedule(static) if (n * width > GRAIN)
    for (int64_t i = 0; i < n; i++) {
        int64_t row = ids[i] - base;
        if (row >= 0 && row < rows) {
            memcpy(out + i * width, table + row * width, bytes);
        } else {
            memset(out + i * width, 0, bytes);
        }
    }
}

/* Columns [from, to) of all rows. */
static void add_columns(float *grad, const float *dy, const int32_t *ids,
                        int64_t n, int64_t rows, int64_t width, int64_t base,
                        int64_t from, int64_t to)
{
    for (int64_t row = 0; row < rows; row++) {
        memset(grad + row * width + from, 0,
               (size_t)(to - from) * sizeof *grad);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t row = ids[i] - base;
        if (row >= 0 && row < rows) {
            float *restrict g = grad + row * width;
            const float *restrict y = dy + i * width;
#pragma omp simd
            for (int64_t c = from; c < to; c++) {
                g[c] += y[c];
            }
        }
    }
}

void parc_embedding_grad(ParcRt *rt, float *grad, const float *dy,
                         const int32_t *ids, int64_t n, int64_t rows,
                         int64_t width, int64_t base)
{
    int64_t parts = (width + LINE - 1) / LINE;
    parts = parts < rt->threads ? parts : rt->threads;
    int64_t step = ((width + parts - 1) / parts + LINE - 1) / LINE * LINE;
#pragma omp parallel for schedule(static) if ((n + rows) * width > GRAIN)
    for (int64_t p = 0; p < parts; p++) {
        int64_t from = p * step, to = from + step < width ? from + step : width;
        if (from < to) {
            add_columns(grad, dy, ids, n, rows, width, base, from, to);
        }
    }
}
