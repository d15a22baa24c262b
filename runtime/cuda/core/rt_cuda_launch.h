/* rt_cuda_launch.h: declares launches of hand-written kernels by name, and
 * helpers that compute their arguments and grids (rt_cuda_module.c). */
#ifndef PARC_RT_CUDA_LAUNCH_H
#define PARC_RT_CUDA_LAUNCH_H

#include <stdint.h>
#include <string.h>

#include "parc_rt.h"
#include "rt.h"

/* The name of a float type in device code. */
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

/* Kernels receive floats as their bits. */
static inline int64_t rt_float_bits(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The number of blocks of `each` elements for n elements. */
static inline int64_t rt_blocks(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

/* Sets the grid of `blocks` blocks: `rows` rows of `columns`. It has one row
 * if one grid dim suffices, for kernels with block_index(). Otherwise kernels
 * use wide_block_index(), and the last row may have surplus blocks. False if a
 * GPU supports no such grid. */
bool rt_cuda_grid(int64_t blocks, unsigned *columns, unsigned *rows);

enum { RT_MOST_ARGUMENTS = 40 };
/* Enqueues kernel `symbol` with n arguments, at most RT_MOST_ARGUMENTS. */
void rt_cuda_launch(ParcRt *rt, const char *symbol, int64_t grid, int block,
                    int64_t shared_bytes, int n, int64_t *argument);

/* The maximum shared memory of a block on the rank's GPU, in bytes. */
int64_t rt_cuda_block_memory(const ParcRt *rt);

/* rt_cuda_launch(rt, symbol, grid, block, shared, arguments…) */
#define RT_CUDA_LAUNCH(rt, symbol, grid, block, shared, ...)                   \
    rt_cuda_launch(rt, symbol, grid, block, shared,                            \
                   (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),  \
                   (int64_t[]){__VA_ARGS__})

#endif
