/* rt_split.c: packs f32 matrix operands for the AMX tile instructions, and
 * multiplies a packed strip of 32 rows of a by a packed strip of 32 columns of
 * b. rt_split.h describes the layout and the accuracy.
 */
#include "cpu/rt_split.h"

#if RT_HAS_TILES

#include <sys/syscall.h>
#include <unistd.h>

/* ---- packing ------------------------------------------------------------- */

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

/* ---- products ------------------------------------------------------------ */

bool rt_tiles_allowed(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM */
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

/* Eight tiles of 16 rows of 64 bytes. The variable is static because gcc 12
 * assumes that the instruction reads only 8 bytes, and omits the stores to the
 * rest of a local variable. */
typedef struct TileConfig {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileConfig;

static const TileConfig eight_tiles = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

RT_TILES void rt_tiles_open(void)
{
    _tile_loadconfig(&eight_tiles);
}

RT_TILES void rt_tiles_close(void)
{
    _tile_release();
}

/* Tiles 4 and 5 hold a part of a's strip, 6 and 7 a part of b's strip, 0 to 3
 * the sums. */
#define LOAD_A(part)                                                           \
    _tile_loadd(4, a + (part) * 2 * RT_TILE, 64);                              \
    _tile_loadd(5, a + ((part) * 2 + 1) * RT_TILE, 64)
#define LOAD_B(part)                                                           \
    _tile_loadd(6, b + (part) * 2 * RT_TILE, 64);                              \
    _tile_loadd(7, b + ((part) * 2 + 1) * RT_TILE, 64)
#define MULTIPLY                                                               \
    _tile_dpbf16ps(0, 4, 6);                                                   \
    _tile_dpbf16ps(1, 4, 7);                                                   \
    _tile_dpbf16ps(2, 5, 6);                                                   \
    _tile_dpbf16ps(3, 5, 7)

/* The order of products keeps one operand from each product to the next. */
RT_TILES void rt_tiles_multiply(const uint16_t *a, const uint16_t *b,
                                int64_t steps, float *sums, bool fresh,
                                RtPrefetch *prefetch)
{
    /* gcc's tile loads do not declare that they read memory. The barrier
     * orders them after the stores of packing. */
    __asm__ volatile("" ::: "memory");
    if (fresh) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, sums, 64);
        _tile_loadd(1, sums + 256, 64);
        _tile_loadd(2, sums + 512, 64);
        _tile_loadd(3, sums + 768, 64);
    }
    for (; steps > 0; steps--, a += RT_STEP_SIZE, b += RT_STEP_SIZE) {
        LOAD_A(0);
        LOAD_B(2);
        MULTIPLY;
        LOAD_B(1);
        MULTIPLY;
        rt_prefetch_next(prefetch);
        LOAD_A(1);
        MULTIPLY;
        rt_prefetch_next(prefetch);
        LOAD_B(0);
        MULTIPLY;
        rt_prefetch_next(prefetch);
        LOAD_A(2);
        MULTIPLY;
        rt_prefetch_next(prefetch);
        LOAD_A(0);
        MULTIPLY;
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    _tile_stored(2, sums + 512, 64);
    _tile_stored(3, sums + 768, 64);
}

#endif
