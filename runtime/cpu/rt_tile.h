/* rt_tile.h: multiplies f32 tiles that fit in the cache, for rt_attention*.c and
 * rt_matmul_vector.c.
 *
 * c[m, n] (+)= a[m, k] b[k, n]. b and c have contiguous rows, padded so that n
 * is a multiple of RT_PAD = 16. a has any strides, so a transposed product
 * needs no copy. The kernel keeps up to 6 rows by 2 vectors of c in registers
 * and broadcasts the elements of a.
 */
#ifndef PARC_RT_TILE_H
#define PARC_RT_TILE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__FMA__)
#include <immintrin.h>
#endif

enum { RT_PAD = 16, RT_TILE_ROWS = 6 };

#if defined(__AVX512F__)
enum { RT_LANES = 16 };
#elif defined(__AVX__)
enum { RT_LANES = 8 };
#else
enum { RT_LANES = 4 };
#endif

typedef float RtVector __attribute__((vector_size(RT_LANES * 4)));
/* An unaligned vector in memory. */
typedef float RtUnaligned
    __attribute__((vector_size(RT_LANES * 4), aligned(4), may_alias));

/* a * b + c, with a in every lane. Intrinsics, because standard C does not let
 * a compiler fuse the operations by itself. */
__attribute__((always_inline)) static inline RtVector
rt_fused(float a, RtVector b, RtVector c)
{
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(_mm512_set1_ps(a), b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(_mm256_set1_ps(a), b, c);
#else
    return a * b + c;
#endif
}

static inline int64_t rt_padded(int64_t n)
{
    return (n + RT_PAD - 1) / RT_PAD * RT_PAD;
}

/* The length of a row of n in scratch: an odd number of cache lines, because
 * the elements of a column would otherwise map to few sets of the cache. */
static inline int64_t rt_row(int64_t n)
{
    int64_t lines = (n + RT_PAD - 1) / RT_PAD;
    return (lines | 1) * RT_PAD;
}

/* Four floats; RT_PICK is a vector of four elements of a and b, which have the
 * numbers 0 to 7. */
typedef float RtFour __attribute__((vector_size(16)));
#if defined(__clang__) || __GNUC__ >= 12
#define RT_PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t RtLanes __attribute__((vector_size(16)));
#define RT_PICK(a, b, ...) __builtin_shuffle(a, b, (RtLanes){__VA_ARGS__})
#endif

static inline RtFour rt_load_four(const float *at)
{
    RtFour x;
    memcpy(&x, at, sizeof x);
    return x;
}

/* Stores to[k * row + i] = line[i][from + k] for i, k < 4. */
__attribute__((always_inline)) static inline void
rt_transpose_four(float *to, int64_t row, const float *const line[4],
                  int64_t from)
{
    RtFour a = rt_load_four(line[0] + from), b = rt_load_four(line[1] + from);
    RtFour c = rt_load_four(line[2] + from), d = rt_load_four(line[3] + from);
    RtFour ab = RT_PICK(a, b, 0, 4, 1, 5), cd = RT_PICK(c, d, 0, 4, 1, 5);
    RtFour ab2 = RT_PICK(a, b, 2, 6, 3, 7), cd2 = RT_PICK(c, d, 2, 6, 3, 7);
    RtFour columns[4] = {RT_PICK(ab, cd, 0, 1, 4, 5),
                         RT_PICK(ab, cd, 2, 3, 6, 7),
                         RT_PICK(ab2, cd2, 0, 1, 4, 5),
                         RT_PICK(ab2, cd2, 2, 3, 6, 7)};
    for (int i = 0; i < 4; i++)
        memcpy(to + i * row, &columns[i], sizeof columns[i]);
}

typedef struct RtTile {
    int64_t m, n, k;
    const float *a;
    int64_t a_row, a_column;
    const float *b;
    int64_t b_row;
    float *c;
    int64_t c_row;
    bool add;
} RtTile;

/* Callers pass constants for `rows` and `vectors`, so the sums stay in
 * registers. */
__attribute__((always_inline)) static inline void
rt_tile_kernel(const RtTile *t, int64_t i, int64_t j, int rows, int vectors)
{
    RtVector sum[RT_TILE_ROWS][2];
    const float *a = t->a + i * t->a_row, *b = t->b + j;
    float *c = t->c + i * t->c_row + j;
    int64_t a_row = t->a_row, a_column = t->a_column, b_row = t->b_row;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = (RtVector){0};
            if (t->add)
                sum[r][v] =
                    *(const RtUnaligned *)(c + r * t->c_row + v * RT_LANES);
        }
    }
    int64_t k = t->k;
#pragma GCC unroll 4
    for (int64_t x = 0; x < k; x++) {
        RtVector from[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            from[v] = *(const RtUnaligned *)(b + v * RT_LANES);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            float one = a[r * a_row];
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[r][v] = rt_fused(one, from[v], sum[r][v]);
        }
        a += a_column;
        b += b_row;
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            *(RtUnaligned *)(c + r * t->c_row + v * RT_LANES) = sum[r][v];
    }
}

/* All rows of `vectors` columns from column j on. Each row of a reads the same
 * part of b, which stays in the L1 cache. */
__attribute__((always_inline)) static inline void
rt_tile_columns(const RtTile *t, int64_t j, int vectors)
{
    int64_t i = 0;
    for (; i + RT_TILE_ROWS <= t->m; i += RT_TILE_ROWS)
        rt_tile_kernel(t, i, j, RT_TILE_ROWS, vectors);
    for (; i + 2 <= t->m; i += 2)
        rt_tile_kernel(t, i, j, 2, vectors);
    if (i < t->m)
        rt_tile_kernel(t, i, j, 1, vectors);
}

static inline void rt_tile(const RtTile *t)
{
    int64_t j = 0;
    for (; j + 2 * RT_LANES <= t->n; j += 2 * RT_LANES)
        rt_tile_columns(t, j, 2);
    for (; j < t->n; j += RT_LANES)
        rt_tile_columns(t, j, 1);
}

#endif
