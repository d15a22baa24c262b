/* parc_random.h: generates random numbers inside emitted kernels.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
 * as 1, 2, 3", 2011) turns a counter and a key into four words. The random
 * number of an element depends only on the step's key, on the op (its site)
 * and on the element's index in the global tensor. Hence it is the same on
 * every mesh, and the backward pass can recompute it instead of saving it.
 *
 *   counter = (i / 4, i / 4 >> 32, site, 0)   key = (key, key >> 32)
 *
 * Element i is word i % 4 of its block, converted to a multiple of 2^-24 in
 * [0, 1). Each iteration of a layer loop has its own key, which is computed
 * from the counter (layer, 0, 0, 1). Keys have 53 bits, so a double holds them
 * exactly.
 */
#ifndef PARC_RANDOM_H
#define PARC_RANDOM_H

/* Device code includes parc_device.h first, which defines the integer types. */
#ifdef __CUDACC__
#define PARC_RANDOM static __device__ __forceinline__
#else
#include <stdint.h>
#define PARC_RANDOM static inline
#endif

/* Rounds, the multipliers of a round, and the increments of the key after each
 * round. */
#define PARC_PHILOX_ROUNDS 10
#define PARC_PHILOX_A 0xD2511F53u
#define PARC_PHILOX_B 0xCD9E8D57u
#define PARC_PHILOX_K0 0x9E3779B9u
#define PARC_PHILOX_K1 0xBB67AE85u

/* Replaces counter c by the words of its block. It has no branches, and only
 * the products have more than 32 bits; adjacent blocks can therefore be
 * computed in vectors. */
PARC_RANDOM void parc_philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    uint32_t x = c[0], y = c[1], z = c[2], w = c[3];
    for (int round = 0; round < PARC_PHILOX_ROUNDS; round++) {
        uint64_t a = (uint64_t)PARC_PHILOX_A * x;
        uint64_t b = (uint64_t)PARC_PHILOX_B * z;
        x = (uint32_t)(b >> 32) ^ y ^ k0;
        z = (uint32_t)(a >> 32) ^ w ^ k1;
        y = (uint32_t)b;
        w = (uint32_t)a;
        k0 += PARC_PHILOX_K0;
        k1 += PARC_PHILOX_K1;
    }
    c[0] = x, c[1] = y, c[2] = z, c[3] = w;
}

PARC_RANDOM float parc_unit(uint32_t word)
{
    return (float)(int32_t)(word >> 8) * 0x1p-24f;
}

PARC_RANDOM void parc_random_block(uint32_t c[4], int64_t key, uint32_t site,
                                   int64_t block)
{
    c[0] = (uint32_t)block;
    c[1] = (uint32_t)((uint64_t)block >> 32);
    c[2] = site;
    c[3] = 0;
    parc_philox(c, (uint32_t)key, (uint32_t)((uint64_t)key >> 32));
}

/* Draws element `index` alone. c is not indexed by a variable: a GPU does not
 * keep an array in registers if its index is known only at run time. */
PARC_RANDOM float parc_random_at(int64_t key, uint32_t site, int64_t index)
{
    uint32_t c[4];
    parc_random_block(c, key, site, index >> 2);
    uint32_t even = index & 2 ? c[2] : c[0], odd = index & 2 ? c[3] : c[1];
    return parc_unit(index & 1 ? odd : even);
}

/* Draws elements 4 block … 4 block + 3. */
PARC_RANDOM void parc_random_four(float u[4], int64_t key, uint32_t site,
                                  int64_t block)
{
    uint32_t c[4];
    parc_random_block(c, key, site, block);
    for (int i = 0; i < 4; i++)
        u[i] = parc_unit(c[i]);
}

#define PARC_KEY_HIGH 0x1FFFFFu

/* A key of 53 bits from a block's words. */
PARC_RANDOM int64_t parc_key_of(const uint32_t c[4])
{
    return (int64_t)(c[0] | (uint64_t)(c[1] & PARC_KEY_HIGH) << 32);
}

/* The key of a layer, computed from the key of all layers. */
PARC_RANDOM int64_t parc_layer_key(int64_t key, int64_t layer)
{
    uint32_t c[4] = {(uint32_t)layer, 0, 0, 1};
    parc_philox(c, (uint32_t)key, (uint32_t)((uint64_t)key >> 32));
    return parc_key_of(c);
}

/* The padded length of a row of t attention weights. The index of a weight
 * counts rows of this length, so it decides each weight's random number. */
PARC_RANDOM int64_t parc_weight_row(int64_t t)
{
    enum { MULTIPLE = 64 };
    return (t + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
}

#ifndef __CUDACC__
/* Draws elements first … first + n - 1, contiguous in `to`. */
void parc_random_row(float *to, int64_t key, uint32_t site, int64_t first,
                     int64_t n);
#endif
#endif
