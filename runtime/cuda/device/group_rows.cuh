/* group_rows.cuh: sorts the pairs of tokens and choices by expert (parc_experts.h).
 *
 *   ids = [2, 0 | 2, 1], parts of two pairs   ranks in parts       row = [0, 0 | 1, 0]
 *   first rows of experts 0, 1, 2             [0, 1, 2]            row = [2, 0 | 3, 1]
 *
 * A counting sort: after group_rank.cuh, sums over the experts of a shard give the first row of
 * an expert and a part.
 */
#include "group_rank.cuh"

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
