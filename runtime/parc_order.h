/* parc_order.h: computes the keys by which topk orders the elements of a row.
 *
 * Elements with larger keys come first, and no two elements of a row have the same key:
 *
 *   bits 63 … 32   the float, as an unsigned number of the same order; NaN is above all
 *                  numbers, and -0 is equal to 0. Inverted if the smallest come first
 *   bits 31 … 0    2^32 - 2 - index, so that of equal elements the first one comes first
 *
 * No key is 0 or 2^64 - 1.
 */
#ifndef PARC_ORDER_H
#define PARC_ORDER_H

/* Device code includes parc_device.h first, which defines the integer types. */
#ifdef __CUDACC__
#define PARC_ORDER static __device__ __forceinline__
#else
#include <stdint.h>
#include <string.h>
#define PARC_ORDER static inline
#endif

PARC_ORDER uint64_t parc_order_key(float x, int64_t index, int largest)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        bits = 0xffffffffu;
    else if (x == 0)
        bits = 0x80000000u;
    else
        bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    if (!largest)
        bits = ~bits;
    return (uint64_t)bits << 32 | (0xfffffffeu - (uint32_t)index);
}

PARC_ORDER int32_t parc_order_index(uint64_t key)
{
    return (int32_t)(0xfffffffeu - (uint32_t)key);
}

#endif
