/* rt_split_pack.c: packs f32 matrix operands for the AMX tile instructions.
 *
 * Each f32 is split into the sum of three bf16 numbers, its parts. A strip of
 * 32 rows (of a) or columns (of b), its edges, becomes tiles of 16 edges x 32
 * contracted indices. rt_split.h describes the layout and the accuracy.
 */
#include "cpu/rt_split.h"

#if RT_HAS_TILES

enum { LINES = 16 };

/* A mask of the first n of 16 lanes. */
static inline __mmask16 first(int64_t n)
{
    return n >= LINES ? 0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : 0;
}

/* Transposes 16 x 16 words of 32 bits: first by words, then by double words,
 * then by quarters of vectors. */
RT_TILES static inline void transpose(__m512i r[LINES])
{
    __m512i t[LINES];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < LINES; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
        r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
        r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

/* Rounds `low` and `high` to bf16 and subtracts the result from them. Returns
 * the 16 pairs of bf16, low in the lower half of each word. NaN stays NaN. */
RT_TILES static inline __m512i first_part(__m512 *low, __m512 *high)
{
    __m512i l = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(*low));
    __m512i h = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(*high));
    h = _mm512_slli_epi32(h, 16);
    *low = _mm512_sub_ps(*low, (__m512)_mm512_slli_epi32(l, 16));
    *high = _mm512_sub_ps(*high, (__m512)h);
    return _mm512_or_si512(l, h);
}

/* Does the work of first_part for the later parts, with ties rounded away from
 * 0: the integer operations for this take fewer instructions. */
RT_TILES static inline __m512i next_part(__m512 *low, __m512 *high)
{
    __m512i half = _mm512_set1_epi32(0x8000),
            upper = _mm512_set1_epi32(-0x10000);
    __m512i l = _mm512_add_epi32((__m512i)*low, half);
    __m512i h = _mm512_add_epi32((__m512i)*high, half);
    l = _mm512_and_si512(l, upper);
    h = _mm512_and_si512(h, upper);
    *low = _mm512_sub_ps(*low, (__m512)l);
    *high = _mm512_sub_ps(*high, (__m512)h);
    return _mm512_or_si512(_mm512_srli_epi32(l, 16), h);
}

RT_TILES static inline void store(__m512i part[RT_PARTS][LINES], bool turned,
                                  uint16_t *to)
{
    for (int p = 0; p < RT_PARTS; p++) {
        if (turned)
            transpose(part[p]);
        for (int i = 0; i < LINES; i++)
            _mm512_store_si512(to + 2 * p * RT_TILE + i * RT_STEP, part[p][i]);
    }
}

/* Packs at most 16 edges and 32 contracted indices: one tile of each part.
 * `rows`: memory is contiguous along the contracted index; vectors l and h then
 * load edge i. Otherwise they load indices i and i + 16 of all edges. The tile
 * is transposed if this is not the order that the operand (`pairs`: b)
 * needs. */
RT_TILES static inline void pack_tiles(const float *at, int64_t stride,
                                       bool rows, int64_t edges, int64_t depth,
                                       bool pairs, uint16_t *to)
{
    __m512i part[RT_PARTS][LINES];
    __mmask16 low = first(rows ? depth : edges);
    __mmask16 high = rows ? first(depth - LINES) : low;
    int64_t lows = rows ? edges : depth, highs = rows ? edges : depth - LINES;
    int64_t distance = rows ? LINES : LINES * stride;
    for (int i = 0; i < LINES; i++) {
        __m512 l = _mm512_setzero_ps(), h = l;
        if (i < lows)
            l = _mm512_maskz_loadu_ps(low, at + i * stride);
        if (i < highs && high) /* the element exists */
            h = _mm512_maskz_loadu_ps(high, at + i * stride + distance);
        part[0][i] = first_part(&l, &h);
        part[1][i] = next_part(&l, &h);
        part[2][i] = next_part(&l, &h);
    }
    store(part, rows == pairs, to);
}

/* Prefetches 32 rows of 32 floats. The addresses may be outside the matrix: a
 * prefetch never faults. */
static inline void fetch(const float *at, int64_t soon, int64_t stride)
{
    uintptr_t from = (uintptr_t)at + (uintptr_t)soon * sizeof *at;
    for (int64_t i = 0; i < RT_STRIP; i++) {
        uintptr_t line = from + (uintptr_t)(i * stride) * sizeof *at;
        _mm_prefetch((const char *)line, _MM_HINT_T1);
        _mm_prefetch((const char *)(line + 64), _MM_HINT_T1);
    }
}

RT_TILES void rt_split_pack(const float *at, int64_t along_edges,
                            int64_t along_depth, int64_t edges, int64_t depth,
                            bool pairs, int64_t soon, uint16_t *to)
{
    bool rows = along_depth == 1;
    int64_t stride = rows ? along_edges : along_depth;
    for (int64_t k = 0; k < depth; k += RT_STEP, to += RT_STEP_SIZE) {
        const float *step = at + k * along_depth;
        if (soon)
            fetch(step, soon, stride);
        for (int64_t e = 0; e < RT_STRIP; e += LINES) {
            int64_t some = edges - e;
            /* If no edges remain, pack_tiles reads nothing; `from` stays
             * inside the matrix. */
            const float *from = step + (some > 0 ? e * along_edges : 0);
            uint16_t *tile = to + e / LINES * RT_TILE;
            pack_tiles(from, stride, rows, some, depth - k, pairs, tile);
        }
    }
}

#else

typedef int RtNothingHere;

#endif
