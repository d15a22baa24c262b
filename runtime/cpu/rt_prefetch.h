/* rt_prefetch.h: prefetches the block of a matrix that is packed next to the
 * core's L2 cache, spread over the multiplication of the current block. More
 * requests at a time would delay the loads of the multiplication. */
#ifndef PARC_RT_PREFETCH_H
#define PARC_RT_PREFETCH_H

#include <stdint.h>

/* `rows` rows of `bytes`, `stride` bytes apart. A call of rt_prefetch_next
 * requests `each` lines of 64 bytes. */
typedef struct RtPrefetch {
    const char *at;
    int64_t stride, bytes, rows, each;
    int64_t row, byte; /* the next line */
} RtPrefetch;

enum { RT_PREFETCH_LINE = 64 };

/* A prefetch of `rows` rows of n elements of `size` bytes, `stride` elements
 * apart, within `calls` calls of rt_prefetch_next; `calls` is at least 1. */
static inline RtPrefetch rt_prefetch(const void *at, int64_t size,
                                     int64_t stride, int64_t n, int64_t rows,
                                     int64_t calls)
{
    int64_t bytes = n * size;
    int64_t lines = (bytes + RT_PREFETCH_LINE - 1) / RT_PREFETCH_LINE * rows;
    return (RtPrefetch){.at = at,
                        .stride = stride * size,
                        .bytes = bytes,
                        .rows = rows,
                        .each = (lines + calls - 1) / calls};
}

static inline void rt_prefetch_next(RtPrefetch *x)
{
    enum { READ = 0, TO_L2 = 2 };
    for (int64_t i = 0; i < x->each && x->row < x->rows; i++) {
        __builtin_prefetch(x->at + x->row * x->stride + x->byte, READ, TO_L2);
        x->byte += RT_PREFETCH_LINE;
        if (x->byte >= x->bytes) {
            x->byte = 0;
            x->row++;
        }
    }
}

#endif
