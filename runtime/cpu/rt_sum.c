/* rt_sum.c: implements the sums of collectives; see rt_sum.h. */
#include "cpu/rt_sum.h"

#include "common/type.h"

enum { SLICE_ALIGN = 16 }; /* elements: slices end at cache lines */

static void combine(float *restrict to, const float *restrict from, int64_t n,
                    ParcReduce op)
{
    if (op == PARC_SUM) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] += from[i];
        return;
    }
    /* NaN must propagate, because checks of the results rely on it. */
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i] > to[i] || from[i] != from[i] ? from[i] : to[i];
}

void rt_add_tile(float *sum, ParcType type, const void *from, bool first,
                 int64_t n, ParcReduce op)
{
    float scratch[RT_SUM_TILE];
    if (first)
        rt_widen(sum, type, from, n);
    else
        combine(sum, rt_as_floats(type, from, n, scratch), n, op);
}

int64_t rt_sum_slice(int64_t count, int ranks)
{
    int64_t slice = (count + ranks - 1) / ranks;
    return (slice + SLICE_ALIGN - 1) / SLICE_ALIGN * SLICE_ALIGN;
}
