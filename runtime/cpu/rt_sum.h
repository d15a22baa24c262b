/* rt_sum.h: declares the sums of collectives, in f32 and in the order of a
 * group's ranks.
 */
#ifndef PARC_RT_SUM_H
#define PARC_RT_SUM_H

#include "parc_rt.h"

enum { RT_SUM_TILE = 2048 }; /* elements that are summed at a time, in cache */

/* Combines n elements, at most RT_SUM_TILE, with `sum`; `first`: stores them
 * instead. */
void rt_add_tile(float *sum, ParcType type, const void *from, bool first,
                 int64_t n, ParcReduce op);
/* The elements of `count` that each rank of an all-reduce sums: a multiple of
 * 16. */
int64_t rt_sum_slice(int64_t count, int ranks);

#endif
