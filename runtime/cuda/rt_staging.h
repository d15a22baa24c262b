/* rt_staging.h: what a collective wants beside its tensors: parc plans it, the
 * runtime uses it.
 *
 * To NCCL a tensor is one run of elements for each rank. One that is split in
 * an inner dim is rows: a call each where they are few, or long enough to be
 * worth one; else they are packed into room of the arena's.
 */
#ifndef PARC_RT_STAGING_H
#define PARC_RT_STAGING_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RT_FEW_ROWS = 16,
    RT_MANY_ROWS = 512,         /* no more calls than that */
    RT_LONG_ROW = 256 << 10,    /* bytes of a rank's piece of a row */
    RT_STAGING_ALIGNMENT = 256,
};

static inline bool rt_moves_by_rows(int64_t rows, int64_t row_bytes)
{
    return rows <= RT_FEW_ROWS ||
           (rows <= RT_MANY_ROWS && row_bytes >= RT_LONG_ROW);
}

/* Bytes for a gather or a scatter of `rows` rows over `ranks`, of which a rank
 * has `row_bytes` each. */
static inline int64_t rt_staging_rows(int64_t ranks, int64_t rows,
                                      int64_t row_bytes)
{
    return ranks < 2 || rt_moves_by_rows(rows, row_bytes)
               ? 0
               : ranks * rows * row_bytes;
}

/* One side of an all_to_all, as messages that lie one behind the other. */
static inline int64_t rt_staging_side(int64_t ranks, int64_t rows,
                                      int64_t width)
{
    int64_t bytes = ranks * rows * width;
    return ranks < 2 || rows < 2
               ? 0
               : (bytes + RT_STAGING_ALIGNMENT - 1) / RT_STAGING_ALIGNMENT *
                     RT_STAGING_ALIGNMENT;
}

/* Of an all_to_all, whichever way round: one side has outer * middle rows of
 * `row_bytes` for each rank, the other `outer` that are `middle` times as
 * long. */
static inline int64_t rt_staging_swap(int64_t ranks, int64_t outer,
                                      int64_t middle, int64_t row_bytes)
{
    return rt_staging_side(ranks, outer * middle, row_bytes) +
           rt_staging_side(ranks, outer, middle * row_bytes);
}

#endif
