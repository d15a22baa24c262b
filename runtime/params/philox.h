/* philox.h: computes several blocks of Philox (parc_random.h) in vectors.
 *
 * Initial weights and dropout masks take many blocks; one block alone has too
 * little independent work for vectors.
 */
#ifndef PARC_RT_PHILOX_H
#define PARC_RT_PHILOX_H

#include "parc_random.h"

enum { RT_LANES_OF_BLOCKS = 16 };

/* Replaces RT_LANES_OF_BLOCKS counters (x, y, z, w) by the words of their
 * blocks. One array per word lets the compiler vectorize the loop. */
static inline void rt_philox_lanes(uint32_t *restrict x, uint32_t *restrict y,
                                   uint32_t *restrict z, uint32_t *restrict w,
                                   uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < PARC_PHILOX_ROUNDS; round++) {
#pragma omp simd
        for (int i = 0; i < RT_LANES_OF_BLOCKS; i++) {
            uint64_t a = (uint64_t)PARC_PHILOX_A * x[i];
            uint64_t b = (uint64_t)PARC_PHILOX_B * z[i];
            x[i] = (uint32_t)(b >> 32) ^ y[i] ^ k0;
            z[i] = (uint32_t)(a >> 32) ^ w[i] ^ k1;
            y[i] = (uint32_t)b;
            w[i] = (uint32_t)a;
        }
        k0 += PARC_PHILOX_K0;
        k1 += PARC_PHILOX_K1;
    }
}

#endif
