/* random.h: declares random numbers that do not depend on the mesh. */
#ifndef PARC_RT_RANDOM_H
#define PARC_RT_RANDOM_H

#include "parc_random.h"

/* Streams of random numbers. A shuffle uses one stream for each of its
 * rounds. */
enum {
    RT_STREAM_INIT,
    RT_STREAM_DATA,
    RT_STREAM_SHUFFLE, /* and those up to RT_STREAM_SAMPLE */
    RT_STREAM_SAMPLE = 15,
    RT_STREAM_STEP = 16,
};

uint32_t rt_hash(const char *name);
/* The four words of a block of a named stream. */
void rt_random_block(uint32_t out[4], int64_t seed, int stream, uint32_t key,
                     uint64_t block);
/* The key of the random numbers of a step; steps count from 1. */
int64_t rt_step_key(int64_t seed, int64_t step);
/* Draws elements first … first+n-1 of a tensor. The value of an element does
 * not depend on the range that it is drawn in. */
void rt_random_normal(float *to, int64_t seed, int stream, uint32_t key,
                      int64_t first, int64_t n, double std);
void rt_random_uniform(float *to, int64_t seed, int stream, uint32_t key,
                       int64_t first, int64_t n, double low, double high);
void rt_random_below(int32_t *to, int64_t seed, int stream, uint32_t key,
                     int64_t first, int64_t n, int64_t below);
/* A permutation of 0 … n-1 for each key: returns the image of `i`. */
int64_t rt_permute(int64_t seed, uint32_t key, int64_t n, int64_t i);

/* Initial weights and dropout masks take many blocks; one block alone has too
 * little independent work for vectors. */
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
