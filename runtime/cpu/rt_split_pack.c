/* rt_split_pack.c: packs strips of f32 as tiles of three bf16 parts. */
#include "rt_split.h"

#if RT_HAS_TILES

enum { LINES = 16 };

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The first n of 16. */
static inline __mmask16 first(int64_t n)
{
    return n >= LINES ? 0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : 0;
}

/* 16 x 16 words of 32 bits, by words, double words and quarters of lines. */
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

/* The next part of 32 numbers in a row; they become what it leaves. */
RT_TILES static inline __m512i part_of_row(__m512 *low, __m512 *high)
{
    __m512i part = (__m512i)_mm512_cvtne2ps_pbh(*high, *low);
    __m512i l = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(part));
    __m512i h = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(part, 1));
    *low = _mm512_sub_ps(*low, (__m512)_mm512_slli_epi32(l, 16));
    *high = _mm512_sub_ps(*high, (__m512)_mm512_slli_epi32(h, 16));
    return part;
}

/* The same of two rows of 16, as pairs of a number of each. */
RT_TILES static inline __m512i part_of_pairs(__m512 *even, __m512 *odd)
{
    __m512i e = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(*even));
    __m512i o = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(*odd));
    o = _mm512_slli_epi32(o, 16);
    *even = _mm512_sub_ps(*even, (__m512)_mm512_slli_epi32(e, 16));
    *odd = _mm512_sub_ps(*odd, (__m512)o);
    return _mm512_or_si512(e, o);
}

RT_TILES static inline void store(__m512i part[RT_PARTS][LINES], bool turned,
                                  uint16_t *to)
{
    for (int p = 0; p < RT_PARTS; p++) {
        if (turned) {
            transpose(part[p]);
        }
        for (int i = 0; i < LINES; i++) {
            _mm512_store_si512(to + (2 * p * LINES + i) * 32, part[p][i]);
        }
    }
}

/* A tile of each part out of rows of the summed index, one for each edge. */
RT_TILES static inline void pack_rows(const float *at, int64_t stride,
                                      int64_t edges, int64_t depth, bool pairs,
                                      uint16_t *to)
{
    __m512i part[RT_PARTS][LINES];
    __mmask16 low = first(depth), high = first(depth - LINES);
    for (int i = 0; i < LINES; i++) {
        __m512 l = _mm512_setzero_ps(), h = l;
        if (i < edges) {
            l = _mm512_maskz_loadu_ps(low, at + i * stride);
            h = _mm512_maskz_loadu_ps(high, at + i * stride + LINES);
        }
        for (int p = 0; p < RT_PARTS; p++) {
            part[p][i] = part_of_row(&l, &h);
        }
    }
    store(part, pairs, to);
}

/* Out of rows of edges, one for each of the summed index. */
RT_TILES static inline void pack_columns(const float *at, int64_t stride,
                                         int64_t edges, int64_t depth,
                                         bool pairs, uint16_t *to)
{
    __m512i part[RT_PARTS][LINES];
    __mmask16 mask = first(edges);
    for (int i = 0; i < LINES; i++) {
        __m512 e = _mm512_setzero_ps(), o = e;
        if (2 * i < depth) {
            e = _mm512_maskz_loadu_ps(mask, at + 2 * i * stride);
        }
        if (2 * i + 1 < depth) {
            o = _mm512_maskz_loadu_ps(mask, at + (2 * i + 1) * stride);
        }
        for (int p = 0; p < RT_PARTS; p++) {
            part[p][i] = part_of_pairs(&e, &o);
        }
    }
    store(part, !pairs, to);
}

RT_TILES void rt_split_pack(const float *at, int64_t along_edges,
                            int64_t along_depth, int64_t edges, int64_t depth,
                            bool pairs, uint16_t *to)
{
    for (int64_t k = 0; k < depth; k += RT_STEP, to += RT_STEP_SIZE) {
        for (int64_t e = 0; e < RT_STRIP; e += LINES) {
            int64_t some = least(edges - e, LINES), deep = least(depth - k, RT_STEP);
            /* Where there is no edge, nothing is read: any address will do. */
            const float *from =
                at + k * along_depth + (some > 0 ? e * along_edges : 0);
            uint16_t *tile = to + e / LINES * RT_TILE;
            if (along_depth == 1) {
                pack_rows(from, along_edges, some, deep, pairs, tile);
            } else {
                pack_columns(from, along_depth, some, deep, pairs, tile);
            }
        }
    }
}

#else

typedef int RtNothingHere;

#endif
