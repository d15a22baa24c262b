/* group_rank.cuh: numbers the pairs of each expert in a group of tokens.
 *
 *   ids = [2, 0 | 2, 1], parts of two pairs   ranks in parts       row = [0, 0 | 1, 0]
 *   counts by expert and part                 [0 1 1 0 | 0 0 1 1]' their sums before each part
 *
 * A block sorts a part of SORT_TILE pairs of a group by expert, which gives each pair its rank in
 * the part, and counts its pairs of each expert. Sums over the parts give the number of pairs
 * before a part. The order of an expert's pairs is that of their indices, in every run; the host
 * needs no count.
 */
#ifndef PARC_GROUP_RANK_CUH
#define PARC_GROUP_RANK_CUH

#include "block_sort.h"
#include "expert_groups.h"

/* Replaces n counts by the sums of those before them, by a warp. Returns the sum of all. */
PARC_DEVICE int group_sums(int32_t *x, int n)
{
    int sum = 0;
    PARC_ROLL
    for (int at = 0; at < n; at += PARC_WARP) {
        int i = at + lane_index(), own = i < n ? x[i] : 0, before = warp_before(own);
        if (i < n)
            x[i] = sum + before;
        sum += warp_shuffle_int(before + own, PARC_WARP - 1);
    }
    return sum;
}

/* The expert of a sorted key, and the pair's index in the part. */
PARC_DEVICE int group_key_expert(uint64_t key)
{
    return (int)(~key >> 32);
}

PARC_DEVICE int group_key_pair(uint64_t key)
{
    return (int)~(uint32_t)key;
}

/* The first sorted key with the expert of key `last`. */
PARC_DEVICE int group_first(const uint64_t *tile, int last)
{
    int low = 0, high = last, expert = group_key_expert(tile[last]);
    while (low < high) {
        int middle = (low + high) / 2;
        if (group_key_expert(tile[middle]) < expert)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A block for each part of each group: row becomes a pair's rank in its part, and count
 * [groups, all, parts] the pairs of each of `all` experts. */
PARC_KERNEL(KERNEL_THREADS, 4)
group_rank(int32_t *__restrict__ row, int32_t *__restrict__ count,
           const int32_t *__restrict__ ids, GROUP_SHAPE, int64_t all, int64_t parts)
{
    PARC_SHARED uint64_t tile[SORT_TILE];
    const int64_t group = block_index() / parts, part = block_index() % parts;
    const int64_t first = part * SORT_TILE, left = b * s * k - first;
    const int n = (int)(left < SORT_TILE ? left : SORT_TILE);
    count += group * all * parts + part;
    for (int64_t e = thread_index(); e < all; e += KERNEL_THREADS)
        count[e * parts] = 0;
    for (int i = thread_index(); i < n; i += KERNEL_THREADS) {
        int32_t id = ids[group_pair_at(group, first + i, GROUP_ARGUMENTS)];
        uint64_t expert = id >= 0 && id < all ? (uint64_t)id : (uint64_t)all;
        tile[i] = ~(expert << 32 | (uint32_t)i);
    }
    block_sort(tile, n);
    for (int i = thread_index(); i < n; i += KERNEL_THREADS) {
        int expert = group_key_expert(tile[i]), rank = i - group_first(tile, i);
        if (expert >= all)
            continue;
        row[group_pair_at(group, first + group_key_pair(tile[i]), GROUP_ARGUMENTS)] = rank;
        if (i == n - 1 || group_key_expert(tile[i + 1]) != expert)
            count[expert * parts] = rank + 1;
    }
}

/* A warp for each of n experts of all groups: sums over the parts. */
PARC_KERNEL(KERNEL_THREADS)
group_part_sums(int32_t *__restrict__ count, int32_t *__restrict__ total, int64_t n,
                int64_t parts)
{
    int64_t expert = block_index() * (KERNEL_THREADS / PARC_WARP) + warp_index();
    if (expert >= n)
        return;
    int sum = group_sums(count + expert * parts, (int)parts);
    if (lane_index() == 0)
        total[expert] = sum;
}

#endif
