/* random.c: draws random numbers, keys and permutations, none of which
 * depends on the mesh.
 *
 * Philox (parc_random.h) turns a counter and a key into four words. The key
 * contains the seed and a hash of the tensor's name, the counter the element's
 * global index. Any rank can therefore compute any element alone, and a seed
 * gives the same model on every mesh.
 *
 *   counter = (block, block >> 32, stream, seed >> 32)   key = (seed, hash)
 *
 * Element i is word i % 4 of block i / 4. A pair of normal numbers is computed
 * from words (0, 1) or (2, 3) of a block (params/random_normal.c).
 */
#include "params/random.h"
#include "parc_random.h"

#define HASH_START 2166136261u
#define HASH_PRIME 16777619u

/* The FNV-1a hash of a name. */
uint32_t rt_hash(const char *name)
{
    uint32_t h = HASH_START;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * HASH_PRIME;
    return h;
}

void rt_random_block(uint32_t out[4], int64_t seed, int stream, uint32_t key,
                     uint64_t block)
{
    uint64_t s = (uint64_t)seed;
    out[0] = (uint32_t)block;
    out[1] = (uint32_t)(block >> 32);
    out[2] = (uint32_t)stream;
    out[3] = (uint32_t)(s >> 32);
    parc_philox(out, (uint32_t)s, key);
}

/* Loops over the blocks that overlap the range. `at` is the index of a block's
 * word 0 in the range; it may be negative for the first block. */
#define EACH_BLOCK(first, n)                                                   \
    for (int64_t block = (first) / 4, at = block * 4 - (first); at < (n);      \
         block++, at += 4)

void rt_random_uniform(float *to, int64_t seed, int stream, uint32_t key,
                       int64_t first, int64_t n, double low, double high)
{
    EACH_BLOCK(first, n)
    {
        uint32_t word[4];
        rt_random_block(word, seed, stream, key, (uint64_t)block);
        for (int i = 0; i < 4; i++)
            if (at + i >= 0 && at + i < n) {
                /* 24 bits: rounding to f32 must not give `high`. */
                double u = (double)(word[i] >> 8) * 0x1p-24;
                to[at + i] = (float)(low + (high - low) * u);
            }
    }
}

void rt_random_below(int32_t *to, int64_t seed, int stream, uint32_t key,
                     int64_t first, int64_t n, int64_t below)
{
    EACH_BLOCK(first, n)
    {
        uint32_t word[4];
        rt_random_block(word, seed, stream, key, (uint64_t)block);
        for (int i = 0; i < 4; i++)
            if (at + i >= 0 && at + i < n)
                to[at + i] =
                    (int32_t)(((uint64_t)word[i] * (uint64_t)below) >> 32);
    }
}

int64_t rt_step_key(int64_t seed, int64_t step)
{
    uint32_t c[4];
    rt_random_block(c, seed, RT_STREAM_STEP, 0, (uint64_t)step);
    return parc_key_of(c);
}

/* A Feistel network permutes the numbers below the smallest power of 4 that
 * is at least n. It is repeated until the result is below n ("cycle
 * walking"), which gives a permutation of 0 … n-1. An epoch of any length
 * needs no table. */
int64_t rt_permute(int64_t seed, uint32_t key, int64_t n, int64_t i)
{
    enum { ROUNDS = 6 };
    int half = 1;
    while (((uint64_t)1 << (2 * half)) < (uint64_t)n)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (int r = 0; r < ROUNDS; r++) {
            uint32_t word[4];
            rt_random_block(word, seed, RT_STREAM_SHUFFLE + r, key, right);
            uint64_t next = left ^ (word[0] & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}
