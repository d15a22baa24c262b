/* block_sort.h: sorts keys in a block's shared memory, and sums over the threads before one. */
#ifndef PARC_BLOCK_SORT_H
#define PARC_BLOCK_SORT_H

#include "parc_device.h"

/* The sum of `own` over the lanes before this one. */
PARC_DEVICE int warp_before(int own)
{
    int lane = lane_index(), sum = own;
    PARC_UNROLL
    for (int d = 1; d < PARC_WARP; d *= 2) {
        int other = warp_shuffle_int(sum, (lane - d) & (PARC_WARP - 1));
        sum += lane >= d ? other : 0;
    }
    return sum - own;
}

/* The sum of `own` over the threads of the block before this one; `total` has an entry for
 * each warp. It passes one barrier. */
PARC_DEVICE int block_before(int own, int32_t *total)
{
    int sum = warp_before(own);
    if (lane_index() == PARC_WARP - 1)
        total[warp_index()] = sum + own;
    block_barrier();
    for (int w = 0; w < warp_index(); w++)
        sum += total[w];
    return sum;
}

/* Sorts the first n keys of the tile, n <= SORT_TILE, in descending order; the others up to
 * the next power of 2 become 0. A bitonic sort by KERNEL_THREADS threads. The caller has written
 * the keys without a barrier. */
PARC_DEVICE void block_sort(uint64_t *tile, int n)
{
    int padded = 2;
    while (padded < n)
        padded *= 2;
    for (int i = n + thread_index(); i < padded; i += KERNEL_THREADS)
        tile[i] = 0;
    for (int size = 2; size <= padded; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            block_barrier();
            PARC_ROLL
            for (int i = thread_index(); i < padded / 2; i += KERNEL_THREADS) {
                int a = 2 * i - (i & (stride - 1)), b = a + stride;
                uint64_t x = tile[a], y = tile[b];
                if ((x < y) == ((a & size) == 0)) {
                    tile[a] = y;
                    tile[b] = x;
                }
            }
        }
    block_barrier();
}

#endif
