/* blas_product.c: computes matrix products fast enough for tests: operands are
 * packed as f32, and the result is computed in tiles of 32 x 4 elements, whose
 * columns are vectors that stay in registers.
 */
#include "blas_product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parc_math.h"

enum { ROWS = 32, COLUMNS = 4 }; /* size of a tile */

static float load(const ProductMatrix *x, int64_t i)
{
    const uint16_t *half = x->at;
    return x->type == PRODUCT_F32    ? ((const float *)x->at)[i]
           : x->type == PRODUCT_BF16 ? parc_from_bf16(half[i])
                                     : parc_from_f16(half[i]);
}

static void store(const ProductMatrix *x, int64_t i, float value)
{
    uint16_t *half = x->at;
    if (x->type == PRODUCT_F32)
        ((float *)x->at)[i] = value;
    else
        half[i] = x->type == PRODUCT_BF16 ? parc_to_bf16(value)
                                          : parc_to_f16(value);
}

/* Packs panels of `width` rows (of a) or columns (of b), each [k, width]; the
 * last one is padded with zeros. */
static float *pack(const ProductMatrix *x, int64_t offset, int64_t along,
                   int64_t across, int64_t n, int64_t k, int width)
{
    int64_t panels = (n + width - 1) / width;
    float *to = calloc((size_t)(panels * width * k), sizeof *to);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++)
            to[(i / width * k + j) * width + i % width] =
                load(x, offset + i * across + j * along);
    return to;
}

/* sum [COLUMNS][ROWS] of terms from … to - 1. */
static void tile(float sum[COLUMNS][ROWS], const float *a, const float *b,
                 int64_t from, int64_t to)
{
    memset(sum, 0, sizeof(float) * ROWS * COLUMNS);
    for (int64_t k = from; k < to; k++)
        for (int j = 0; j < COLUMNS; j++)
            for (int i = 0; i < ROWS; i++)
                sum[j][i] += a[k * ROWS + i] * b[k * COLUMNS + j];
}

/* x (1 + tanh(…)) / 2 and its derivative. */
static float gelu(float x)
{
    return x / 2 * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

static float gelu_grad(float x)
{
    float t = tanhf(0.79788456f * (x + 0.044715f * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.79788456f *
                             (1 + 3 * 0.044715f * x * x);
}

static float ended(const Product *p, int64_t row, int64_t column, float x)
{
    ProductMatrix vector = {.at = p->vector, .type = p->d.type};
    int64_t aux = column * p->aux.leading + row;
    switch (p->end) {
    case PRODUCT_BIAS: return x + load(&vector, row);
    case PRODUCT_GELU_GRAD: return x * gelu_grad(load(&p->aux, aux));
    case PRODUCT_GELU_BIAS: x += load(&vector, row); /* fall through */
    case PRODUCT_GELU: store(&p->aux, aux, x); return gelu(x);
    case PRODUCT_AS_IT_IS:
    case PRODUCT_SUM_A:
    case PRODUCT_SUM_B: break;
    }
    return x;
}

/* Sums terms for each of n rows, which are `across` elements apart. */
static void sum_terms(const Product *p, const ProductMatrix *x, int64_t n,
                      int64_t along, int64_t across)
{
    ProductMatrix vector = {.at = p->vector, .type = p->d.type};
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int64_t k = 0; k < p->k; k++)
            sum += load(x, i * across + k * along);
        store(&vector, i, sum);
    }
}

static void finish(const Product *p, int64_t batch, int64_t row,
                   int64_t column, float sum[COLUMNS][ROWS])
{
    for (int j = 0; j < COLUMNS && column + j < p->n; j++)
        for (int i = 0; i < ROWS && row + i < p->m; i++) {
            int64_t c = batch * p->c.stride + (column + j) * p->c.leading +
                        row + i;
            int64_t d = batch * p->d.stride + (column + j) * p->d.leading +
                        row + i;
            float x = p->alpha * sum[j][i];
            if (p->beta != 0.0f)
                x += p->beta * load(&p->c, c);
            store(&p->d, d, ended(p, row + i, column + j, x));
        }
}

static void compute_one(const Product *p, int64_t batch)
{
    const ProductMatrix *a = &p->a, *b = &p->b;
    float *x = pack(a, batch * a->stride, p->a_transposed ? 1 : a->leading,
                    p->a_transposed ? a->leading : 1, p->m, p->k, ROWS);
    float *y = pack(b, batch * b->stride, p->b_transposed ? b->leading : 1,
                    p->b_transposed ? 1 : b->leading, p->n, p->k, COLUMNS);
    for (int64_t j = 0; j < p->n; j += COLUMNS)
        for (int64_t i = 0; i < p->m; i += ROWS) {
            float sum[COLUMNS][ROWS], part[COLUMNS][ROWS];
            for (int q = 0; q < p->parts; q++) {
                tile(q ? part : sum, x + i * p->k, y + j * p->k,
                     p->k * q / p->parts, p->k * (q + 1) / p->parts);
                for (int t = 0; q && t < ROWS * COLUMNS; t++)
                    sum[t / ROWS][t % ROWS] += part[t / ROWS][t % ROWS];
            }
            finish(p, batch, i, j, sum);
        }
    free(x);
    free(y);
}

void product_compute(const Product *p)
{
    for (int64_t i = 0; i < p->batch; i++)
        compute_one(p, i);
    if (p->end == PRODUCT_SUM_A)
        sum_terms(p, &p->a, p->m, p->a_transposed ? 1 : p->a.leading,
                  p->a_transposed ? p->a.leading : 1);
    if (p->end == PRODUCT_SUM_B)
        sum_terms(p, &p->b, p->n, p->b_transposed ? p->b.leading : 1,
                  p->b_transposed ? 1 : p->b.leading);
}
