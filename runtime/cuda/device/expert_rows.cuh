/* expert_rows.cuh: copies tokens to the rows of their experts, and sums the rows of each token
 * (parc_experts.h).
 *
 * requires: EXPERT_NAME(kernel); for gather_rows EXPERT_BYTES (2, 4, 8, 16), the vector that a
 *           thread copies; for combine_rows EXPERT_ELEMENT, the C type of elements, EXPERT_READ
 *           and EXPERT_WRITE, its conversions from and to f32 (parc_read_bf16 …), and
 *           EXPERT_COLUMNS, the elements that a thread sums: those in 16 bytes, or 1
 *
 * The elements of pairs are moved by the same kernels: they are tokens of s k positions, with
 * one choice each.
 */
#include "expert_groups.h"

#ifdef EXPERT_BYTES
/* A thread for each of n vectors of the rows, which have `width` of them. */
PARC_KERNEL(KERNEL_THREADS)
EXPERT_NAME(gather_rows)(uint8_t *__restrict__ rows, const uint8_t *__restrict__ from,
                         const int32_t *__restrict__ pair, GROUP_SHAPE, int64_t n, int64_t width)
{
    int64_t i = wide_block_index() * KERNEL_THREADS + thread_index(), row = i;
    int64_t column = copy_digit(&row, width);
    if (i >= n || pair[row] < 0)
        return;
    int64_t index = pair[row], group = row;
    copy_digit(&group, x * r);
    int64_t token = group_pair_at(group, index, GROUP_ARGUMENTS);
    copy_digit(&token, k); /* divides by k */
    copy_vector(rows + i * EXPERT_BYTES, from + (token * width + column) * EXPERT_BYTES,
                EXPERT_BYTES);
}
#else
/* A thread for each of n vectors of the tokens, which have `width` of them. */
PARC_KERNEL(KERNEL_THREADS, 6)
EXPERT_NAME(combine_rows)(EXPERT_ELEMENT *__restrict__ to,
                          const EXPERT_ELEMENT *__restrict__ rows,
                          const int32_t *__restrict__ row, GROUP_SHAPE, int64_t n, int64_t width,
                          const int64_t *base)
{
    enum { N = EXPERT_COLUMNS };
    int64_t i = wide_block_index() * KERNEL_THREADS + thread_index(), token = i;
    int64_t column = copy_digit(&token, width);
    if (i >= n)
        return;
    int64_t held = x * r, first = (base ? *base : 0) * r;
    rows += (group_of(token, h, b, s) * held * width + column) * N;
    float sum[N], one[N];
    PARC_UNROLL
    for (int c = 0; c < N; c++)
        sum[c] = 0;
    PARC_ROLL
    for (int64_t j = token * k; j < (token + 1) * k; j++) {
        int64_t at = row[j] - first;
        if (row[j] < 0 || at < 0 || at >= held)
            continue;
        EXPERT_READ(one, rows + at * width * N, N);
        PARC_UNROLL
        for (int c = 0; c < N; c++)
            sum[c] += one[c];
    }
    EXPERT_WRITE(to + i * N, sum, N);
}
#endif
