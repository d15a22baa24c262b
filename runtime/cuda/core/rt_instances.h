/* rt_instances.h: computes what distinguishes the instances of hand-written
 * kernels, each compiled for one type, size or alignment: the unit of a copy,
 * the columns of a thread, and the name of a contraction's kernel. parc writes
 * the instances to kernels.cu and the runtime looks them up by name. Both
 * include this file, so the names always agree. */
#ifndef PARC_RT_INSTANCES_H
#define PARC_RT_INSTANCES_H

#include <stdint.h>
#include <stdio.h>

#include "../device/kernel_sizes.h"

enum { RT_SYMBOL = 80 };

/* The largest unit of a copy, up to 16 bytes, that divides `bytes`. */
static inline int rt_instance_unit(int64_t bytes)
{
    int unit = 16;
    while (bytes % unit)
        unit /= 2;
    return unit;
}

/* The columns of a row of `width` that a thread of embedding_grad sums. */
static inline int rt_instance_columns(int64_t width, int element_bytes)
{
    return width % (16 / element_bytes) == 0 ? 16 / element_bytes : 1;
}

#endif
