/* copy_tools.h: defines helpers of the kernels that copy elements (copy.cuh,
 * embedding.cuh).
 *
 * A unit is the 2, 4, 8 or 16 bytes that a thread copies at a time. */
#ifndef PARC_COPY_TOOLS_H
#define PARC_COPY_TOOLS_H

#include "parc_device.h"

/* Returns the last digit of *i in base n and removes it from *i. Uses 32-bit
 * division if possible, which is several times as fast as 64-bit division. */
PARC_DEVICE int64_t copy_digit(int64_t *i, int64_t n)
{
    if (n == 1)
        return 0;
    int64_t rest = (*i | n) >> 31 ? *i / n
                                  : (int64_t)((uint32_t)*i / (uint32_t)n);
    int64_t digit = *i - rest * n;
    *i = rest;
    return digit;
}

/* Copies a unit. `bytes` is a constant; both addresses are multiples of it. */
PARC_DEVICE void copy_unit(void *to, const void *from, int bytes)
{
    uint32_t word[4];
    if (bytes == 16) {
        parc_load16(word, from);
        parc_store16(to, word);
    } else if (bytes == 8) {
        parc_load8(word, from);
        parc_store8(to, word);
    } else if (bytes == 4) {
        parc_load4(word, from);
        parc_store4(to, word);
    } else {
        *(uint16_t *)to = *(const uint16_t *)from;
    }
}

PARC_DEVICE void zero_unit(void *to, int bytes)
{
    uint32_t word[4] = {0, 0, 0, 0};
    if (bytes == 16)
        parc_store16(to, word);
    else if (bytes == 8)
        parc_store8(to, word);
    else if (bytes == 4)
        parc_store4(to, word);
    else
        *(uint16_t *)to = 0;
}

#endif
