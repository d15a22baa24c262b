/* rt_instances.h: computes what distinguishes the instances of hand-written
 * kernels, each compiled for one type, size or alignment: the bytes that a
 * thread copies at a time, and the columns of a thread. parc writes the
 * instances to instances.cu and the runtime looks them up by name. Both include
 * this file, so the names always agree. */
#ifndef PARC_RT_INSTANCES_H
#define PARC_RT_INSTANCES_H

#include <stdint.h>

#include "../device/kernel_sizes.h"

enum { RT_SYMBOL = 96 };

/* The bytes of a copy's vectors: the most, up to 16, that divide `bytes`. */
static inline int rt_instance_vector(int64_t bytes)
{
    int vector = 16;
    while (bytes % vector)
        vector /= 2;
    return vector;
}

/* The columns of a row of `width` that a thread of embedding_grad sums. */
static inline int rt_instance_columns(int64_t width, int element_bytes)
{
    return width % (16 / element_bytes) == 0 ? 16 / element_bytes : 1;
}

#endif
