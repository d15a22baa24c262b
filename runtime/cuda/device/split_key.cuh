/* split_key.cuh: computes a key for each layer from one key (parc_random.h),
 * so that layers draw different random numbers. Included once. */
#include "parc_device.h"

/* The keys of layers first, first + step, …; runs as one block. */
PARC_KERNEL(KERNEL_THREADS)
split_key(int64_t *to, const int64_t *from, int64_t first, int64_t step,
          int64_t n)
{
    for (int64_t i = thread_index(); i < n; i += KERNEL_THREADS)
        to[i] = parc_layer_key(*from, first + i * step);
}
