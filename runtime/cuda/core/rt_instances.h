/* rt_instances.h: computes what distinguishes the instances of hand-written
 * kernels, each compiled for one type, size or alignment: the bytes that a
 * thread copies at a time, and the columns of a thread. parc writes the
 * instances to instances.cu and the runtime looks them up by name. Both include
 * this file, so the names always agree. */
#ifndef PARC_RT_INSTANCES_H
#define PARC_RT_INSTANCES_H

#include <stdint.h>
#include <stdio.h>

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

/* Whether a warp processes a row of topk, which takes the largest keys one after the other;
 * else a block does, which sorts keys. */
static inline int rt_topk_few(int64_t width, int64_t n)
{
    return n <= TOPK_FEW && width <= TOPK_SHORT;
}

/* The blocks of topk that sort keys of `rows` rows; each processes as many rows as needed.
 * They fill a large GPU. If more keys are sorted than fit into shared memory, each block has
 * two lists of them in the workspace. */
static inline int64_t rt_topk_blocks(int64_t rows, int64_t n)
{
    const int64_t most_bytes = (int64_t)128 << 20, most_blocks = 1056;
    int64_t most = n > SORT_TILE ? most_bytes / (16 * n) : most_blocks;
    most = most < 1 ? 1 : most;
    return rows < most ? rows : most;
}

/* The name of a kernel of conv.cuh: `kind` is the file's CONV_KIND, and the types are those of
 * the operands and of the result. */
enum { RT_CONV_WIDEN = 3 };
static inline void rt_conv_symbol(char *to, size_t size, int kind, const char *type,
                                  const char *out)
{
    static const char *const name[] = {"conv", "conv_grad_x", "conv_grad_weight", "conv_widen"};
    snprintf(to, size, "%s_%s_%s", name[kind], type, out);
}

/* The workspace of topk, in bytes. */
static inline int64_t rt_topk_bytes(int64_t rows, int64_t n)
{
    return n > SORT_TILE ? rt_topk_blocks(rows, n) * 16 * n : 0;
}

#endif
