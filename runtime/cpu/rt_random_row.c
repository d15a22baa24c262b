/* rt_random_row.c: draws rows of random numbers for kernels (parc_random.h),
 * and computes the keys of layers.
 *
 * One block of Philox gives four consecutive numbers. LANES blocks are computed
 * together, word by word, which the compiler vectorizes. The numbers before the
 * first whole block, and the fewer than LANES blocks at the end, are drawn one
 * block at a time. `parc_split_key` computes the keys.
 */
#include "params/philox.h"
#include "parc_random.h"
#include "rt.h"

enum { LANES = RT_LANES_OF_BLOCKS };

/* Draws LANES blocks from `block` on. Their low words must not overflow. */
static void draw_lanes(float *restrict to, int64_t key, uint32_t site,
                       int64_t block)
{
    uint32_t x[LANES], y[LANES], z[LANES], w[LANES];
    uint32_t low = (uint32_t)block, high = (uint32_t)((uint64_t)block >> 32);
    for (uint32_t i = 0; i < LANES; i++)
        x[i] = low + i, y[i] = high, z[i] = site, w[i] = 0;
    rt_philox_lanes(x, y, z, w, (uint32_t)key,
                    (uint32_t)((uint64_t)key >> 32));
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        to[4 * i] = parc_unit(x[i]);
        to[4 * i + 1] = parc_unit(y[i]);
        to[4 * i + 2] = parc_unit(z[i]);
        to[4 * i + 3] = parc_unit(w[i]);
    }
}

void parc_random_row(float *to, int64_t key, uint32_t site, int64_t first,
                     int64_t n)
{
    int64_t at = 0;
    while (at < n) {
        int64_t index = first + at, block = index >> 2;
        int word = (int)(index & 3);
        if (word == 0 && n - at >= 4 * LANES &&
            (uint32_t)block <= UINT32_MAX - LANES) {
            draw_lanes(to + at, key, site, block);
            at += 4 * LANES;
            continue;
        }
        uint32_t c[4];
        parc_random_block(c, key, site, block);
        for (; word < 4 && at < n; word++)
            to[at++] = parc_unit(c[word]);
    }
}

void parc_split_key(ParcRt *rt, int64_t *to, const int64_t *from, int64_t first,
                    int64_t step, int64_t n)
{
    (void)rt;
    for (int64_t i = 0; i < n; i++)
        to[i] = parc_layer_key(*from, first + i * step);
}
