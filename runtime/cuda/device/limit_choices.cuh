/* limit_choices.cuh: limits the choices of an expert in a sequence (parc_experts.h).
 *
 * The sequences are groups of one, whose pairs group_rank.cuh numbers: a choice is kept if its
 * expert has fewer than `limit` choices before it.
 */
#include "group_rank.cuh"

/* ParcChoices, but for the experts. */
#define LIMIT_SHAPE int64_t sequences, int64_t length, int64_t own, int64_t piece, int64_t k
#define LIMIT_ARGUMENTS length, own, piece, k, base

/* The index in [sequences, length, k] of element i of [sequences, own, k]; the rank's tokens are
 * pieces of `piece` tokens. */
PARC_DEVICE int64_t limit_at(int64_t i, int64_t length, int64_t own, int64_t piece, int64_t k,
                             const int64_t *base)
{
    if (!base)
        return i;
    int64_t choice = copy_digit(&i, k), token = copy_digit(&i, own);
    int64_t in_piece = copy_digit(&token, piece);
    return (i * length + base[token] + in_piece) * k + choice;
}

/* A thread for each of the rank's choices. rank [sequences, length, k] and count [sequences,
 * experts, parts] are group_rank's. */
PARC_KERNEL(KERNEL_THREADS)
limit_keep(int32_t *__restrict__ kept, const int32_t *__restrict__ ids,
           const int32_t *__restrict__ rank, const int32_t *__restrict__ count, LIMIT_SHAPE,
           int64_t experts, int64_t parts, int64_t limit, const int64_t *base)
{
    int64_t i = block_index() * KERNEL_THREADS + thread_index();
    if (i >= sequences * own * k)
        return;
    int64_t at = limit_at(i, LIMIT_ARGUMENTS), sequence = at;
    int64_t index = copy_digit(&sequence, length * k);
    int32_t id = ids[at];
    bool fits = false;
    if (id >= 0 && id < experts) {
        int64_t before = count[(sequence * experts + id) * parts + index / SORT_TILE];
        fits = before + rank[at] < limit;
    }
    kept[i] = fits ? id : -1;
}

/* A block for each sequence counts the rank's choices of experts that are not kept: exact, since
 * they are fewer than 2^24. */
PARC_KERNEL(KERNEL_THREADS)
limit_count(float *__restrict__ rest, float *__restrict__ blocks,
            const int32_t *__restrict__ kept, const int32_t *__restrict__ ids, LIMIT_SHAPE,
            int64_t experts, const int64_t *base)
{
    PARC_SHARED float shared[PARC_WARP];
    const int64_t sequence = block_index(), n = own * k;
    float more = 0;
    for (int64_t i = sequence * n + thread_index(); i < (sequence + 1) * n; i += KERNEL_THREADS) {
        int32_t id = ids[limit_at(i, LIMIT_ARGUMENTS)];
        more += id >= 0 && id < experts && kept[i] < 0 ? 1.0f : 0.0f;
    }
    block_put(warp_sum(more), shared);
    block_barrier();
    int sum = (int)block_get_sum(shared);
    if (sequence < sequences && thread_index() == 0) {
        rest[sequence] = (float)(sum % 256);
        blocks[sequence] = (float)(sum / 256);
    }
}

#undef LIMIT_SHAPE
#undef LIMIT_ARGUMENTS
