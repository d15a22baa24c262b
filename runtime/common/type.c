/* type.c: converts between element types (common/type.h). The loops over bf16
 * and f16 vectorize, because parc_math.h converts without branches. */
#include "common/type.h"

#include <string.h>

#include "parc_math.h"

void rt_widen(float *restrict to, ParcType type, const void *restrict from,
              int64_t n)
{
    const uint16_t *half = from;
    if (type == PARC_F32) {
        memcpy(to, from, (size_t)n * sizeof *to);
    } else if (type == PARC_BF16) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = parc_from_bf16(half[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = parc_from_f16(half[i]);
    }
}

void rt_narrow(ParcType type, void *restrict to, const float *restrict from,
               int64_t n)
{
    uint16_t *half = to;
    if (type == PARC_F32) {
        memcpy(to, from, (size_t)n * sizeof *from);
    } else if (type == PARC_BF16) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            half[i] = parc_to_bf16(from[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            half[i] = parc_to_f16(from[i]);
    }
}
