/* rt_split.h: f32 operands as parts of bf16, in tiles.
 *
 * Where a processor multiplies tiles of bf16 (AMX) it does so sixteen times as
 * fast as vectors of f32. An f32 is the sum of three bf16, each the rounding of
 * what the ones before it leave (8 + 8 + 8 bits), so that
 *
 *   a b = a1 b1 + (a1 b2 + a2 b1) + (a1 b3 + a2 b2 + a3 b1) + rest
 *
 * with |rest| at most 2^-23 |a b| and 2^-27 in the root mean square, a quarter
 * of what rounding a b to f32 costs. Products of bf16 are exact in f32 and are
 * summed in f32: six products of tiles are as exact as one in f32 (G. Henry,
 * P. T. P. Tang and A. Heinecke, Leveraging the bfloat16 Artificial
 * Intelligence Datatype For Higher-Precision Computations, ARITH 2019).
 *
 * At the ends of f32's range that does not hold. Parts and their products under
 * 2^-126 are 0: operands and products keep fewer digits from about 2^-105 down,
 * 8 bits at 2^-118. And where f32 gives infinity, an infinite operand or one
 * from 2^128 (1 - 2^-9) on, or a product that overflows, the result is mostly
 * NaN, from a factor of 2 before.
 *
 * Operands are packed: 32 rows (of a) or columns (of b), a strip, 32 of the
 * summed index at a time, a step.
 *
 *   step:  part 1  part 2  part 3      part:  tile of 16 edges, the next 16
 *
 * The instruction multiplies pairs along the summed index. A tile of a has a
 * row of 16 pairs for each edge, a tile of b a row of 16 edges for each pair.
 * Which two make a pair is for us to say, if we say the same for both: k and k
 * + 16, which vectors load side by side. What lies outside the matrix is 0.
 */
#ifndef PARC_RT_SPLIT_H
#define PARC_RT_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__linux__) &&                               \
    (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define RT_HAS_TILES 1
#include <immintrin.h>
#define RT_TILES                                                               \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,"     \
                          "amx-tile,amx-bf16")))
#else
#define RT_HAS_TILES 0
#endif

enum {
    RT_STRIP = 32,
    RT_STEP = 32,
    RT_PARTS = 3,
    RT_TILE = 16 * 32, /* bf16 in a tile */
    RT_STEP_SIZE = RT_PARTS * 2 * RT_TILE,
    RT_SUMS = RT_STRIP * RT_STRIP, /* of two strips, as four tiles */
};

/* Packs a strip of `edges` rows or columns (over 32: the first 32) of `depth`
 * summed indices. Element (edge, k) is at[edge * along_edges + k *
 * along_depth]; one of the two strides is 1. `to` has room for ceil(depth / 32)
 * steps, on a boundary of 64 bytes; `pairs` for b. As it goes it fetches the
 * same strip `soon` elements further into the core's second cache (0: nothing).
 */
void rt_split_pack(const float *at, int64_t along_edges, int64_t along_depth,
                   int64_t edges, int64_t depth, bool pairs, int64_t soon,
                   uint16_t *to);

/* Memory that is read soon: `rows` of `bytes`, `stride` bytes apart. While
 * tiles are multiplied it is fetched into the core's second cache, `each` lines
 * of 64 bytes at a time, four times a step; more at once would keep the tiles'
 * own loads waiting. */
typedef struct RtAhead {
    const char *at;
    int64_t stride, bytes, rows, each;
    int64_t row, byte; /* the next line */
} RtAhead;

/* `rows` of n floats, `stride` floats apart: all of it in `steps` steps, one at
 * least. */
RtAhead rt_ahead(const float *at, int64_t stride, int64_t n, int64_t rows,
                 int64_t steps);

/* This process may use tiles: asks Linux for them. */
bool rt_tiles_allowed(void);
/* Sets up this thread's tiles, and gives them back; only where they are
 * allowed. */
void rt_tiles_open(void);
void rt_tiles_close(void);
/* sums (32 x 32: tiles of 16 x 16, by rows; on a boundary of 64 bytes) =
 * (fresh) or += a's strip times b's, both of so many steps. */
void rt_tiles_multiply(const uint16_t *a, const uint16_t *b, int64_t steps,
                       float *sums, bool fresh, RtAhead *ahead);

#endif
