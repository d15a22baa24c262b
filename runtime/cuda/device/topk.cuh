/* topk.cuh: finds the elements of each row that come first in its order, by their keys
 * (parc_order.h), and their gradient.
 *
 * requires: TOPK_NAME(kernel); TOPK_ELEMENT, the C type of x; TOPK_READ, which converts it to
 *           f32 (parc_read_bf16 …); TOPK_KIND, the kernel: 0 topk_few, 1 topk, 2 topk_grad
 *
 * topk_few: a warp finds the largest key of a row, then the largest of those below it, and so
 * on. topk: a block determines the n-th largest key digit by digit, lists the keys from that
 * one on, and sorts the list: parts of SORT_TILE keys in shared memory, which it merges in
 * its workspace. Keys differ, so the result does not depend on the order of the list.
 */
#include "block_sort.h"

#ifndef PARC_TOPK
#define PARC_TOPK
enum { TOPK_DIGIT = 4, TOPK_DIGITS = 1 << TOPK_DIGIT, TOPK_WARPS = KERNEL_THREADS / PARC_WARP,
       TOPK_PIECE = 32 /* keys that a thread merges at a time */ };

PARC_DEVICE int topk_warp_sum(int x)
{
    PARC_UNROLL
    for (int mask = PARC_WARP / 2; mask > 0; mask /= 2)
        x += warp_shuffle_xor_int(x, mask);
    return x;
}

PARC_DEVICE uint64_t topk_warp_max(uint64_t x)
{
    PARC_UNROLL
    for (int mask = PARC_WARP / 2; mask > 0; mask /= 2) {
        uint32_t high = (uint32_t)warp_shuffle_xor_int((int)(x >> 32), mask);
        uint32_t low = (uint32_t)warp_shuffle_xor_int((int)(uint32_t)x, mask);
        uint64_t other = (uint64_t)high << 32 | low;
        x = other > x ? other : x;
    }
    return x;
}

/* Merges pairs of sorted runs of `run` keys, a multiple of TOPK_PIECE, of n keys. A piece of
 * the result begins after the `first` largest keys of a pair: `i` of its first run and the
 * others of its second one, which a binary search finds. */
PARC_DEVICE void topk_merge(uint64_t *to, const uint64_t *from, int run, int n)
{
    PARC_ROLL
    for (int at = thread_index() * TOPK_PIECE; at < n; at += KERNEL_THREADS * TOPK_PIECE) {
        int pair = at / (2 * run) * (2 * run), first = at - pair;
        int na = n - pair < run ? n - pair : run, nb = n - pair - na;
        nb = nb < run ? nb : run;
        const uint64_t *a = from + pair, *b = a + na;
        int low = first > nb ? first - nb : 0, i = first < na ? first : na;
        while (low < i) {
            int middle = (low + i) / 2;
            if (a[middle] > b[first - 1 - middle])
                low = middle + 1;
            else
                i = middle;
        }
        int j = first - i;
        PARC_ROLL
        for (int k = 0; k < TOPK_PIECE && at + k < n; k++) {
            int of_a = j >= nb || (i < na && a[i] > b[j]);
            to[at + k] = of_a ? a[i] : b[j];
            i += of_a;
            j += !of_a;
        }
    }
}
#endif

#if TOPK_KIND != 2
#if TOPK_KIND == 0
#define TOPK_KEY TOPK_NAME(topk_few_key)
#else
#define TOPK_KEY TOPK_NAME(topk_key)
#endif
PARC_DEVICE uint64_t TOPK_KEY(const TOPK_ELEMENT *x, int at, int largest)
{
    float value[1];
    TOPK_READ(value, x + at, 1);
    return parc_order_key(value[0], at, largest);
}
#endif

#if TOPK_KIND == 0
PARC_KERNEL(KERNEL_THREADS)
TOPK_NAME(topk_few)(TOPK_ELEMENT *__restrict__ values, int32_t *__restrict__ ids,
                    const TOPK_ELEMENT *__restrict__ x, int64_t rows, int64_t width,
                    int64_t n, int64_t largest)
{
    int64_t row = block_index() * TOPK_WARPS + warp_index();
    uint64_t last = ~(uint64_t)0;
    if (row >= rows)
        return;
    x += row * width;
    for (int64_t j = row * n; j < (row + 1) * n; j++) {
        uint64_t best = 0;
        PARC_UNROLL_2
        for (int at = lane_index(); at < (int)width; at += PARC_WARP) {
            uint64_t key = TOPK_KEY(x, at, largest != 0);
            best = key < last && key > best ? key : best;
        }
        last = topk_warp_max(best);
        if (lane_index() == 0) {
            ids[j] = parc_order_index(last);
            values[j] = x[parc_order_index(last)];
        }
    }
}
#endif

#if TOPK_KIND == 1
/* A number that exactly n keys of the row are not below, for n < width. `count` has a column
 * of TOPK_DIGITS counts for each thread, `total` their sums. */
PARC_DEVICE uint64_t TOPK_NAME(topk_bound)(const TOPK_ELEMENT *x, int width, int n,
                                           int largest, int32_t *count, int32_t *total)
{
    uint64_t bound = 0, known = 0;
    int missing = n;
    PARC_ROLL
    for (int shift = 64 - TOPK_DIGIT; shift >= 0; shift -= TOPK_DIGIT) {
        uint64_t digits = (uint64_t)(TOPK_DIGITS - 1) << shift;
        known |= digits;
        if (shift < 32 && (unsigned)width < 1u << shift) { /* the same for all indices */
            bound |= digits;
            continue;
        }
        for (int d = 0; d < TOPK_DIGITS; d++)
            count[d * KERNEL_THREADS + thread_index()] = 0;
        PARC_ROLL
        for (int at = thread_index(); at < width; at += KERNEL_THREADS) {
            uint64_t key = TOPK_KEY(x, at, largest);
            int digit = (int)(key >> shift) & (TOPK_DIGITS - 1);
            if (((key ^ bound) & known & ~digits) == 0)
                count[digit * KERNEL_THREADS + thread_index()]++;
        }
        block_barrier();
        for (int d = warp_index(); d < TOPK_DIGITS; d += TOPK_WARPS) {
            int sum = 0;
            PARC_ROLL
            for (int i = lane_index(); i < KERNEL_THREADS; i += PARC_WARP)
                sum += count[d * KERNEL_THREADS + i];
            sum = topk_warp_sum(sum);
            if (lane_index() == 0)
                total[d] = sum;
        }
        block_barrier();
        int digit = TOPK_DIGITS - 1;
        for (; digit > 0 && total[digit] < missing; digit--)
            missing -= total[digit];
        bound |= (uint64_t)digit << shift;
        if (total[digit] == missing)
            break;
    }
    return bound;
}

/* Writes the n keys of the row that are not below `bound` to the list. */
PARC_DEVICE void TOPK_NAME(topk_list)(uint64_t *list, const TOPK_ELEMENT *x, int width,
                                      uint64_t bound, int largest, int32_t *total)
{
    int own = 0;
    PARC_ROLL
    for (int at = thread_index(); at < width; at += KERNEL_THREADS)
        own += TOPK_KEY(x, at, largest) >= bound;
    int to = block_before(own, total);
    PARC_ROLL
    for (int at = thread_index(); own > 0 && at < width; at += KERNEL_THREADS) {
        uint64_t key = TOPK_KEY(x, at, largest);
        if (key >= bound)
            list[to++] = key;
    }
}

/* Sorts n keys, those of the row x, or of the list if x is NULL: parts of SORT_TILE keys,
 * which are merged. Returns the sorted list: `list` or `other`. */
PARC_DEVICE uint64_t *TOPK_NAME(topk_sort)(uint64_t *list, uint64_t *other, uint64_t *tile,
                                           const TOPK_ELEMENT *x, int n, int largest)
{
    for (int at = 0; at < n; at += SORT_TILE) {
        int held = n - at < SORT_TILE ? n - at : SORT_TILE;
        for (int i = thread_index(); i < held; i += KERNEL_THREADS)
            tile[i] = x ? TOPK_KEY(x, at + i, largest) : list[at + i];
        block_sort(tile, held);
        for (int i = thread_index(); i < held; i += KERNEL_THREADS)
            list[at + i] = tile[i];
        block_barrier();
    }
    for (int run = SORT_TILE; run < n; run *= 2) {
        uint64_t *from = list;
        topk_merge(other, from, run, n);
        list = other;
        other = from;
        block_barrier();
    }
    return list;
}

/* Each block processes the rows block_index(), block_index() + blocks, … No barrier is needed
 * between them: a thread reads the sorted keys that it is the first one to overwrite. */
PARC_KERNEL(KERNEL_THREADS, 4)
TOPK_NAME(topk)(TOPK_ELEMENT *__restrict__ values, int32_t *__restrict__ ids,
                const TOPK_ELEMENT *__restrict__ x, int64_t rows, int64_t columns,
                int64_t chosen, int64_t largest_first, uint64_t *scratch, int64_t blocks)
{
    const int width = (int)columns, n = (int)chosen, largest = largest_first != 0;
    PARC_SHARED uint64_t tile[SORT_TILE];
    PARC_SHARED int32_t count[TOPK_DIGITS * KERNEL_THREADS];
    PARC_SHARED int32_t total[TOPK_DIGITS], warp_total[TOPK_WARPS];
    uint64_t *list = n > SORT_TILE ? scratch + block_index() * 2 * n : tile;
    for (int64_t row = block_index(); row < rows; row += blocks) {
        const TOPK_ELEMENT *from = x + row * width;
        const TOPK_ELEMENT *unlisted = n < width ? (const TOPK_ELEMENT *)0 : from;
        const uint64_t *sorted = tile;
        if (n < width) {
            uint64_t bound =
                TOPK_NAME(topk_bound)(from, width, n, largest, count, total);
            TOPK_NAME(topk_list)(list, from, width, bound, largest, warp_total);
            if (n > SORT_TILE)
                block_barrier();
        }
        if (n > SORT_TILE) {
            sorted = TOPK_NAME(topk_sort)(list, list + n, tile, unlisted, n, largest);
        } else {
            for (int i = thread_index(); n == width && i < n; i += KERNEL_THREADS)
                tile[i] = TOPK_KEY(from, i, largest);
            block_sort(tile, n);
        }
        for (int j = thread_index(); j < n; j += KERNEL_THREADS) {
            int32_t at = parc_order_index(sorted[j]);
            ids[row * n + j] = at;
            values[row * n + j] = from[at];
        }
    }
}
#endif

#if TOPK_KIND == 2
/* dx is 0. A thread for each of `all` elements of dy. */
PARC_KERNEL(KERNEL_THREADS)
TOPK_NAME(topk_grad)(TOPK_ELEMENT *__restrict__ dx, const TOPK_ELEMENT *__restrict__ dy,
                     const int32_t *__restrict__ ids, int64_t all, int64_t width, int64_t n)
{
    int64_t i = block_index() * KERNEL_THREADS + thread_index();
    if (i < all)
        dx[i / n * width + ids[i]] = dy[i];
}
#endif
#undef TOPK_KEY
