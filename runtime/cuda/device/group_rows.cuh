/* group_rows.cuh: sorts the pairs of tokens and choices by expert (parc_experts.h).
 *
 *   ids = [2, 0 | 2, 1], parts of two pairs   ranks in parts       row = [0, 0 | 1, 0]
 *   counts by expert and part                 [0 1 1 0 | 0 0 1 1]' their sums before each part
 *   first rows of experts 0, 1, 2             [0, 1, 2]            row = [2, 0 | 3, 1]
 *
 * A counting sort: a block sorts a part of SORT_TILE pairs of a group by expert, which gives
 * each pair its rank in the part, and counts its pairs of each expert. Sums over the parts, then
 * over the experts of a shard, give the first row of an expert and a part. The order of an
 * expert's pairs is that of their indices, in every run; the host needs no count.
 */
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

/* A warp for each of n shards of all groups: total becomes the first rows of its experts. */
PARC_KERNEL(KERNEL_THREADS)
group_ends(int32_t *__restrict__ ends, float *__restrict__ needed, int32_t *__restrict__ total,
           int64_t n, int64_t shards, int64_t experts, int64_t x, int64_t r,
           const int32_t *round, const int64_t *base)
{
    int64_t at = block_index() * (KERNEL_THREADS / PARC_WARP) + warp_index();
    if (at >= n)
        return;
    int32_t *first = total + at * experts;
    int64_t own = at % shards - (base ? *base : 0);
    int sum = group_sums(first, (int)experts);
    if (own < 0 || own >= x)
        return;
    own += at / shards * x;
    const int64_t begin = *round * r;
    warp_barrier();
    for (int64_t e = lane_index(); e < experts; e += PARC_WARP) {
        int64_t end = (e + 1 < experts ? first[e + 1] : sum) - begin;
        ends[own * experts + e] = end < 0 ? 0 : (int32_t)(end < r ? end : r);
    }
    if (lane_index() == 0)
        needed[own] = (float)sum;
}

/* A thread for each pair, and for each row of the rank, of all groups. */
PARC_KERNEL(KERNEL_THREADS)
group_place(int32_t *__restrict__ pair, int32_t *__restrict__ row,
            const int32_t *__restrict__ ends, const int32_t *__restrict__ ids,
            const int32_t *__restrict__ count, const int32_t *__restrict__ first, GROUP_SHAPE,
            int64_t shards, int64_t experts, int64_t parts, const int32_t *round,
            const int64_t *base)
{
    int64_t i = block_index() * KERNEL_THREADS + thread_index(), group = i;
    int64_t index = copy_digit(&group, b * s * k), all = shards * experts;
    if (group < g * h) {
        int64_t at = group_pair_at(group, index, GROUP_ARGUMENTS), to = r, shard = 0;
        int32_t id = ids[at];
        if (id >= 0 && id < all) {
            int64_t expert = group * all + id;
            to = (int64_t)first[expert] + count[expert * parts + index / SORT_TILE] + row[at] -
                 *round * r;
            shard = id / (int32_t)experts;
        }
        int64_t own = shard - (base ? *base : 0);
        bool fits = to >= 0 && to < r;
        row[at] = fits ? (int32_t)(shard * r + to) : -1;
        if (fits && own >= 0 && own < x)
            pair[(group * x + own) * r + to] = (int32_t)index;
    }
    int64_t shard = i, place = copy_digit(&shard, r);
    if (shard < g * h * x && place >= ends[(shard + 1) * experts - 1])
        pair[i] = -1;
}
