/* rt_vector_pack.c: packs matrix operands for the product with vectors of f32
 * (rt_vector.h).
 *
 * If memory is contiguous along the edges, a line of edges is copied to all
 * strips, so whole cache lines are read. Otherwise four edges at a time are
 * transposed. Elements in 16 bits are widened line by line.
 */
#include <string.h>

#include "cpu/rt_vector.h"

enum { FOUR = 4 };

typedef float Four __attribute__((vector_size(16)));

/* A vector of four elements of a and b, which have the numbers 0 to 7. */
#if defined(__clang__) || __GNUC__ >= 12
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t Lanes __attribute__((vector_size(16)));
#define PICK(a, b, ...) __builtin_shuffle(a, b, (Lanes){__VA_ARGS__})
#endif

static const float zeros[RT_MOST_DEPTH];

/* n elements that are `stride` apart, as contiguous floats. */
static const float *line_of(ParcType type, const void *at, int64_t stride,
                            int64_t n, float *scratch)
{
    if (stride == 1)
        return rt_as_floats(type, at, n, scratch);
    for (int64_t i = 0; i < n; i++)
        rt_widen(scratch + i, type, rt_element(type, at, i * stride), 1);
    return scratch;
}

static inline Four load(const float *at)
{
    Four x;
    memcpy(&x, at, sizeof x);
    return x;
}

/* Store to[k * strip + i] = line[i][k] for two or four lines. */
__attribute__((always_inline)) static inline void
transpose_two(const float *const line[FOUR], int64_t n, int strip, float *to)
{
    enum { TWO = 2 * sizeof *to };
    int64_t k = 0;
    for (; k + FOUR <= n; k += FOUR, to += FOUR * strip) {
        Four a = load(line[0] + k), b = load(line[1] + k);
        Four first = PICK(a, b, 0, 4, 1, 5);
        Four last = PICK(a, b, 2, 6, 3, 7);
        memcpy(to, &first, TWO);
        memcpy(to + strip, (const char *)&first + TWO, TWO);
        memcpy(to + 2 * strip, &last, TWO);
        memcpy(to + 3 * strip, (const char *)&last + TWO, TWO);
    }
    for (; k < n; k++, to += strip) {
        to[0] = line[0][k];
        to[1] = line[1][k];
    }
}

__attribute__((always_inline)) static inline void
transpose_four(const float *const line[FOUR], int64_t n, int strip, float *to)
{
    int64_t k = 0;
    for (; k + FOUR <= n; k += FOUR, to += FOUR * strip) {
        Four a = load(line[0] + k), b = load(line[1] + k);
        Four c = load(line[2] + k), d = load(line[3] + k);
        Four ab = PICK(a, b, 0, 4, 1, 5);
        Four cd = PICK(c, d, 0, 4, 1, 5);
        Four ab2 = PICK(a, b, 2, 6, 3, 7);
        Four cd2 = PICK(c, d, 2, 6, 3, 7);
        Four turned[FOUR] = {PICK(ab, cd, 0, 1, 4, 5),
                             PICK(ab, cd, 2, 3, 6, 7),
                             PICK(ab2, cd2, 0, 1, 4, 5),
                             PICK(ab2, cd2, 2, 3, 6, 7)};
        for (int i = 0; i < FOUR; i++)
            memcpy(to + i * strip, &turned[i], sizeof turned[i]);
    }
    for (; k < n; k++, to += strip)
        for (int i = 0; i < FOUR; i++)
            to[i] = line[i][k];
}

/* Callers pass constants for `strip`. */
__attribute__((always_inline)) static inline void
pack_columns(const RtOperand *x, const void *at, int64_t edges, int64_t n,
             int strip, float *to)
{
    float scratch[FOUR][RT_MOST_DEPTH];
    for (int64_t s = 0; s < edges; s += strip, to += n * strip) {
#pragma GCC unroll 8
        for (int e = 0; e < strip; e += FOUR) {
            const float *line[FOUR];
            for (int i = 0; i < FOUR; i++) {
                bool exists = e + i < strip && s + e + i < edges;
                int64_t from = exists ? (s + e + i) * x->along_edges : 0;
                line[i] = !exists
                              ? zeros
                              : line_of(x->type, rt_element(x->type, at, from),
                                        x->along_depth, n, scratch[i]);
            }
            if (strip - e < FOUR)
                transpose_two(line, n, strip, to + e);
            else
                transpose_four(line, n, strip, to + e);
        }
    }
}

__attribute__((always_inline)) static inline void
pack_lines(const RtOperand *x, const void *at, int64_t edges, int64_t n,
           int strip, float *to)
{
    float scratch[RT_MOST_EDGES];
    for (int64_t k = 0; k < n; k++, to += strip) {
        const void *from = rt_element(x->type, at, k * x->along_depth);
        const float *line = rt_as_floats(x->type, from, edges, scratch);
        float *strips = to;
        int64_t e = 0;
        for (; e + strip <= edges; e += strip, strips += n * strip)
            memcpy(strips, line + e, (size_t)strip * sizeof *to);
        for (int i = 0; e < edges && i < strip; i++)
            strips[i] = e + i < edges ? line[e + i] : 0;
    }
}

__attribute__((always_inline)) static inline void
pack(const RtOperand *x, int64_t edge, int64_t edges, int64_t k, int64_t depth,
     int strip, float *to)
{
    const void *at = rt_operand_at(x, edge, k);
    if (x->along_edges == 1)
        pack_lines(x, at, edges, depth, strip, to);
    else
        pack_columns(x, at, edges, depth, strip, to);
}

void rt_pack_a(const RtOperand *x, int64_t edge, int64_t edges, int64_t k,
               int64_t depth, float *to)
{
    pack(x, edge, edges, k, depth, RT_STRIP_A, to);
}

void rt_pack_b(const RtOperand *x, int64_t edge, int64_t edges, int64_t k,
               int64_t depth, float *to)
{
    pack(x, edge, edges, k, depth, RT_STRIP_B, to);
}
