/* copy_tools.h: defines helpers of the kernels that copy elements (copy.cuh,
 * embedding.cuh).
 *
 * A vector is the 2, 4, 8 or 16 bytes that a thread copies at a time. */
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

/* Copies a vector, or stores zeros if `there` is 0. `bytes` is a constant; both
 * addresses are multiples of it. */
PARC_DEVICE void copy_vector_if(int there, void *to, const void *from,
                                int bytes)
{
    uint32_t word[4] = {0, 0, 0, 0};
    if (bytes == 2) {
        *(uint16_t *)to = there ? *(const uint16_t *)from : 0;
        return;
    }
    if (there)
        parc_read_words(word, from, bytes / 4);
    parc_write_words(to, word, bytes / 4);
}

PARC_DEVICE void copy_vector(void *to, const void *from, int bytes)
{
    copy_vector_if(1, to, from, bytes);
}

#endif
