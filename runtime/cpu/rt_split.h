/* rt_split.h: declares the packing of f32 operands as sums of bf16 parts, and
 * their product with the AMX tile instructions (rt_matmul_split.c).
 *
 * A processor with AMX multiplies tiles of bf16 sixteen times as fast as
 * vectors of f32. An f32 is the sum of three bf16 numbers: each is the rounded
 * remainder after the previous ones (8 + 8 + 8 bits). Hence
 *
 *   a b = a1 b1 + (a1 b2 + a2 b1) + (a1 b3 + a2 b2 + a3 b1) + rest
 *
 * where |rest| is at most 2^-23 |a b| and 2^-27 |a b| in the root mean square,
 * a quarter of the error of rounding a b to f32. Products of bf16 are exact in
 * f32 and are summed in f32: six products of tiles are as exact as one in f32
 * (G. Henry, P. T. P. Tang and A. Heinecke, Leveraging the bfloat16 Artificial
 * Intelligence Datatype For Higher-Precision Computations, ARITH 2019).
 *
 * This does not hold at the limits of f32's range. Parts and products below
 * 2^-126 are flushed to 0: operands and products lose digits from about 2^-105
 * down, and have 8 bits at 2^-118. If f32 gives infinity, because an operand
 * is infinite or at least 2^128 (1 - 2^-9) or a product overflows, the result
 * is usually NaN, beginning a factor of 2 earlier.
 *
 * Operands are packed. A strip is 32 rows (of a) or columns (of b), the edges;
 * a step is 32 contracted indices of a strip.
 *
 *   step:  part 1  part 2  part 3      part:  tile of 16 edges, the next 16
 *
 * The instruction multiplies pairs along the contracted index. A tile of a has
 * a row of 16 pairs for each edge; a tile of b has a row of 16 edges for each
 * pair. Any pairing is correct if both operands use the same one. k is paired
 * with k + 16, because vectors can load both together. Elements outside the
 * matrix are 0.
 */
#ifndef PARC_RT_SPLIT_H
#define PARC_RT_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/rt_prefetch.h"

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
    RT_STRIP = 32, /* edges (rows of a, columns of b) of a strip */
    RT_STEP = 32,  /* contracted indices of a step */
    RT_PARTS = 3,
    RT_TILE = 16 * 32, /* bf16 in a tile */
    RT_STEP_SIZE = RT_PARTS * 2 * RT_TILE,
    RT_SUMS = RT_STRIP * RT_STRIP, /* the product of two strips: four tiles */
    RT_FETCHES = 4,
};

/* Packs a strip of `edges` rows or columns (at most 32 of them) and `depth`
 * contracted indices. Element (edge, k) is at[edge * along_edges + k *
 * along_depth]; one of the two strides is 1. `to` holds ceil(depth / 32)
 * steps, at a multiple of 64 bytes. `pairs`: packs b. While it packs, it
 * prefetches the strip `soon` elements later to the core's L2 cache (0: no
 * prefetch).
 */
void rt_split_pack(const float *at, int64_t along_edges, int64_t along_depth,
                   int64_t edges, int64_t depth, bool pairs, int64_t soon,
                   uint16_t *to);

/* Requests Linux's permission to use tiles in this process; whether it is
 * granted. */
bool rt_tiles_allowed(void);
/* Configure and release this thread's tiles. Requires rt_tiles_allowed. */
void rt_tiles_open(void);
void rt_tiles_close(void);
/* sums = (`fresh`) or += the product of a's strip and b's, both of `steps`
 * steps. sums is 32 x 32: tiles of 16 x 16, by rows, at a multiple of 64
 * bytes. Each step fetches RT_FETCHES times from `prefetch`. */
void rt_tiles_multiply(const uint16_t *a, const uint16_t *b, int64_t steps,
                       float *sums, bool fresh, RtPrefetch *prefetch);

#endif
