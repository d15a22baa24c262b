/* rt_block_memory.h: shared memory of a block, bytes, static and dynamic
 * together, where a kernel asks for more than the 48 KiB that all have
 * (CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN; the CUDA programming
 * guide's table of compute capabilities):
 *
 *   8.6, 8.9, 12.0     99 KiB
 *   8.0, 8.7          163 KiB
 *   9.0, 10.0, 11.0   227 KiB
 *
 * parc writes kernels for 163 KiB. Code for 8.0, and PTX, run on GPUs that
 * have 99: a kernel that wants more has a twin, `…_tight`, beside it, and the
 * runtime launches the one that fits its device.
 */
#ifndef PARC_RT_BLOCK_MEMORY_H
#define PARC_RT_BLOCK_MEMORY_H

enum { RT_BLOCK_LEAST = 99 << 10, RT_BLOCK_MOST = 163 << 10 };

#endif
