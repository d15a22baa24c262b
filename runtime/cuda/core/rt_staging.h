/* rt_staging.h: computes the sizes of the buffers in which collectives pack
 * their rows. parc plans the buffers, the runtime uses them.
 *
 * NCCL transfers one contiguous run of elements per rank. A tensor that is
 * split in an inner dim consists of rows. If the rows are few, or long enough,
 * each is one call; otherwise they are packed to a buffer in the arena.
 */
#ifndef PARC_RT_STAGING_H
#define PARC_RT_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#include "rt_block_memory.h"

enum {
    RT_FEW_ROWS = 16,
    RT_MANY_ROWS = 512,         /* maximum number of calls */
    RT_LONG_ROW = 256 << 10,    /* bytes of a rank's part of a row */
};

static inline bool rt_moves_by_rows(int64_t rows, int64_t row_bytes)
{
    return rows <= RT_FEW_ROWS ||
           (rows <= RT_MANY_ROWS && row_bytes >= RT_LONG_ROW);
}

/* Bytes for an all-gather or reduce-scatter of `rows` rows over `ranks`; a
 * rank's part of a row has `row_bytes`. Rows in zigzag order are always packed. */
static inline int64_t rt_staging_rows(int64_t ranks, int64_t rows,
                                      int64_t row_bytes, bool zigzag)
{
    return ranks < 2 || (!zigzag && rt_moves_by_rows(rows, row_bytes))
               ? 0
               : ranks * rows * row_bytes;
}

/* Bytes for one side of an all-to-all, as contiguous messages. */
static inline int64_t rt_staging_side(int64_t ranks, int64_t rows,
                                      int64_t width)
{
    return ranks < 2 || rows < 2 ? 0 : rt_cuda_aligned(ranks * rows * width);
}

/* Bytes for both sides of an all-to-all: one side has outer * middle rows of
 * `row_bytes` for each rank, the other `outer` rows that are `middle` times as
 * long. */
static inline int64_t rt_staging_swap(int64_t ranks, int64_t outer,
                                      int64_t middle, int64_t row_bytes)
{
    return rt_staging_side(ranks, outer * middle, row_bytes) +
           rt_staging_side(ranks, outer, middle * row_bytes);
}

#endif
