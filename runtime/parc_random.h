/* parc_random.h: random numbers inside emitted kernels.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
 * easy as 1, 2, 3", 2011) turns a counter and a key into four words. What an
 * element draws depends on the step's key, on the op (its site) and on the
 * element's index in the whole tensor alone: no mesh changes it, and the way
 * back draws it again rather than keep it.
 *
 *   counter = (i / 4, i / 4 >> 32, site, 0)   key = (key, key >> 32)
 *
 * Element i is word i % 4 of its block, as a number of 24 bits in [0, 1).
 * The layers of a loop have keys of their own, made from the counter
 * (layer, 0, 0, 1). Keys have 53 bits, so that a double can hold them, too.
 */
#ifndef PARC_RANDOM_H
#define PARC_RANDOM_H

/* Device code has included parc_device.h, and its integers. */
#ifdef __CUDACC__
#define PARC_RANDOM static __device__ __forceinline__
#else
#include <stdint.h>
#define PARC_RANDOM static inline
#endif

/* One round's factors and what is added to the key behind it. */
#define PARC_PHILOX_A 0xD2511F53u
#define PARC_PHILOX_B 0xCD9E8D57u
#define PARC_PHILOX_K0 0x9E3779B9u
#define PARC_PHILOX_K1 0xBB67AE85u

/* The words of the block with counter c, in its place. Without branches and
 * in 32-bit words but for the products, so that blocks side by side make
 * vectors. */
PARC_RANDOM void parc_philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    uint32_t x = c[0], y = c[1], z = c[2], w = c[3];
    for (int round = 0; round < 10; round++) {
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

/* Element `index` alone. Not by an index into c: a GPU keeps no array that is
 * addressed at run time in registers. */
PARC_RANDOM float parc_random_at(int64_t key, uint32_t site, int64_t index)
{
    uint32_t c[4];
    parc_random_block(c, key, site, index >> 2);
    uint32_t even = index & 2 ? c[2] : c[0], odd = index & 2 ? c[3] : c[1];
    return parc_unit(index & 1 ? odd : even);
}

/* Elements 4 block … 4 block + 3. */
PARC_RANDOM void parc_random_four(float u[4], int64_t key, uint32_t site,
                                  int64_t block)
{
    uint32_t c[4];
    parc_random_block(c, key, site, block);
    for (int i = 0; i < 4; i++)
        u[i] = parc_unit(c[i]);
}

/* A key of 53 bits from a block's words. */
PARC_RANDOM int64_t parc_key_of(const uint32_t c[4])
{
    return (int64_t)(c[0] | (uint64_t)(c[1] & 0x1FFFFFu) << 32);
}

/* The key of a layer, from that of all. */
PARC_RANDOM int64_t parc_layer_key(int64_t key, int64_t layer)
{
    uint32_t c[4] = {(uint32_t)layer, 0, 0, 1};
    parc_philox(c, (uint32_t)key, (uint32_t)((uint64_t)key >> 32));
    return parc_key_of(c);
}

#ifndef __CUDACC__
/* Elements first … first + n - 1, one after another. */
void parc_random_row(float *to, int64_t key, uint32_t site, int64_t first,
                     int64_t n);
#endif
#endif
