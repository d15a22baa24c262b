/* rt_block_memory.h: defines limits of a device's memory on which parc and the
 * runtime agree.
 *
 * RT_SHARED_MIN and RT_SHARED_MAX are the shared memory of a block that
 * kernels may use, in bytes, static and dynamic together. Larger sizes than the
 * default 48 KiB depend on the device
 * (CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN; the CUDA programming
 * guide's table of compute capabilities):
 *
 *   8.6, 8.9, 12.0     99 KiB
 *   8.0, 8.7          163 KiB
 *   9.0, 10.0, 11.0   227 KiB
 *
 * parc writes kernels for 163 KiB. Code for 8.0 and PTX also run on GPUs with
 * 99 KiB. A kernel that needs more than that therefore has a low-shared-memory
 * variant, `…_low_shared`, and the runtime launches the one that fits its
 * device.
 */
#ifndef PARC_RT_BLOCK_MEMORY_H
#define PARC_RT_BLOCK_MEMORY_H

#include <stdint.h>

enum { RT_SHARED_MIN = 99 << 10, RT_SHARED_MAX = 163 << 10 };

/* Bytes to whose multiples tensors and workspaces are aligned in device
 * memory. */
enum { RT_CUDA_ALIGNMENT = 256 };

static inline int64_t rt_cuda_aligned(int64_t bytes)
{
    return (bytes + RT_CUDA_ALIGNMENT - 1) / RT_CUDA_ALIGNMENT *
           RT_CUDA_ALIGNMENT;
}

#endif
