/* rt_split_tiles.c: multiplies a packed strip of 32 rows of a by a packed strip
 * of 32 columns of b with the AMX tile instructions (rt_split.h). */
#include "cpu/rt_split.h"

#if RT_HAS_TILES

#include <sys/syscall.h>
#include <unistd.h>

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

#else

typedef int RtNothingHere;

#endif
