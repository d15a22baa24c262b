/* random.h: declares random numbers that do not depend on the mesh. */
#ifndef PARC_RT_RANDOM_H
#define PARC_RT_RANDOM_H

#include <stdint.h>

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
/* A normal distribution with mean 0, restricted to [low, high], which contains
 * 0. */
void rt_random_truncated(float *to, int64_t seed, int stream, uint32_t key,
                         int64_t first, int64_t n, double std, double low,
                         double high);
void rt_random_uniform(float *to, int64_t seed, int stream, uint32_t key,
                       int64_t first, int64_t n, double low, double high);
void rt_random_below(int32_t *to, int64_t seed, int stream, uint32_t key,
                     int64_t first, int64_t n, int64_t below);
/* A permutation of 0 … n-1 for each key: returns the image of `i`. */
int64_t rt_permute(int64_t seed, uint32_t key, int64_t n, int64_t i);

#endif
