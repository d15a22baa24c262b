/* trace.h: declares the timeline of a step (--trace) and the check of results
 * (PARC_NANCHECK). */
#ifndef PARC_RT_TRACE_H
#define PARC_RT_TRACE_H

#include "rt.h"

/* Allocates the rings for the traced steps: `steps` of the steps done+1 …
 * `total`. False after a message. */
bool rt_trace_open(RtWorld *w, int64_t steps, int64_t done, int64_t total);
/* The begin and end of a step: marks are recorded only in traced steps. */
void rt_trace_begin(ParcRt *rt, int64_t step);
void rt_trace_end(ParcRt *rt);
void rt_trace_add(RtRing *ring, int32_t what, int64_t iteration);
/* Adds a mark at time `ns` of CLOCK_MONOTONIC instead of now. */
void rt_trace_add_at(RtRing *ring, int64_t ns, int32_t what, int64_t iteration);
static inline void rt_mark(ParcRt *rt, int32_t what)
{
    if (rt->ring)
        rt_trace_add(rt->ring, what, 0);
}
/* Copies the marks of ranks that share no memory with rank 0 to it. Rank 0
 * calls it while the others wait at a synchronization point. */
void rt_trace_gather(ParcRt *rt);

/* Writes the marks of all ranks to a JSON file in Chrome's trace format. One
 * rank calls it after all have finished the traced steps. Returns NULL or an
 * error. */
const char *rt_trace_write(const RtWorld *w, const char *path);

/* Reads PARC_NANCHECK. */
void rt_nan_open(ParcRt *rt);
/* Checks the results of the previous statement for finite values. `work` is
 * the next statement, -1 at the end of a step. */
void rt_nan_mark(ParcRt *rt, int work, int64_t iteration);

#endif
