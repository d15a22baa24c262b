/* rt_cuda_launch.h: launching device code that is written by hand, by its name.
 */
#ifndef PARC_RT_CUDA_LAUNCH_H
#define PARC_RT_CUDA_LAUNCH_H

#include <stdint.h>
#include <string.h>

#include "parc_rt.h"

/* What device code calls a type of floats. */
static inline const char *rt_float_name(ParcType type)
{
    static const char *const name[] = {
        [PARC_F32] = "f32", [PARC_BF16] = "bf16", [PARC_F16] = "f16"};
    return name[type];
}

static inline int64_t rt_pointer_bits(const void *p)
{
    return (int64_t)(intptr_t)p;
}

/* Kernels take floats as their bits. */
static inline int64_t rt_float_bits(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* As many blocks of `each` as n elements take. */
static inline int64_t rt_blocks(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

/* The grid of `blocks` blocks: `rows` of `columns`. One row where one dim can
 * count them, as block_index() does; else wide_block_index() does, and the last
 * row has a few blocks too many. False: a GPU cannot count so many. */
bool rt_cuda_grid(int64_t blocks, unsigned *columns, unsigned *rows);

/* Queues kernel `symbol` with n arguments. rt_cuda_launch.c */
void rt_cuda_launch(ParcRt *rt, const char *symbol, int64_t grid, int block,
                    int64_t shared_bytes, int n, int64_t *argument);

/* Shared memory that a block of the rank's GPU may have, bytes. */
int64_t rt_cuda_block_memory(const ParcRt *rt);

/* rt_cuda_launch(rt, symbol, grid, block, shared, arguments…) */
#define RT_CUDA_LAUNCH(rt, symbol, grid, block, shared, ...)                   \
    rt_cuda_launch(rt, symbol, grid, block, shared,                            \
                   (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),  \
                   (int64_t[]){__VA_ARGS__})

#endif
