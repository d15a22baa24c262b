/* rt_cuda_trace.c: records when the statements of a step run, for --trace.
 *
 * A traced step runs without its graph and records an event before each
 * statement. Its statements run one after another on any stream, so each time
 * is that of the statement alone; work that overlaps in other steps does not
 * overlap here. After the step, events become marks in the rank's list
 * (trace/trace.c). The device's clock is aligned with the host's at the start of
 * the step.
 */
#include <stdlib.h>

#include "common/message.h"
#include "cuda/core/rt_cuda.h"
#include "rt.h"
#include "trace/trace.h"

/* Events are reused in the next traced step. */
static CudaMark *next_mark(ParcRt *rt)
{
    CudaTrace *t = &rt->device->trace;
    t->mark = rt_grow(t->mark, t->n, &t->capacity, sizeof *t->mark);
    CudaMark *m = &t->mark[t->n++];
    if (!m->event)
        CU(rt, cuEventCreate(&m->event, RT_CU_EVENT_DEFAULT));
    return m;
}

void rt_cuda_trace_mark(ParcRt *rt, int32_t what, int64_t iteration)
{
    const RtDevice *d = rt->device;
    CudaMark *m = next_mark(rt);
    m->what = what;
    m->iteration = iteration;
    CU(rt, cuEventRecord(m->event, d->stream[PARC_COMPUTE]));
}

void rt_cuda_trace_begin(ParcRt *rt)
{
    CudaTrace *t = &rt->device->trace;
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "what comes before a traced step");
    t->n = 0;
    t->begin_ns = (int64_t)(1e9 * rt_now());
    rt_cuda_trace_mark(rt, -1, 0); /* the times of other events are relative to
                                      this one */
}

void rt_cuda_trace_end(ParcRt *rt)
{
    const RtDevice *d = rt->device;
    const CudaTrace *t = &d->trace;
    rt_cuda_trace_mark(rt, RT_MARK_END, 0);
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "a traced step");
    for (int64_t i = 1; i < t->n; i++) {
        float ms = 0;
        CU(rt, cuEventElapsedTime(&ms, t->mark[0].event, t->mark[i].event));
        rt_trace_add_at(rt->ring, t->begin_ns + (int64_t)((double)ms * 1e6),
                        t->mark[i].what, t->mark[i].iteration);
    }
}

void rt_cuda_trace_close(ParcRt *rt)
{
    CudaTrace *t = &rt->device->trace;
    for (int64_t i = 0; i < t->capacity; i++)
        if (t->mark[i].event)
            CU(rt, cuEventDestroy(t->mark[i].event));
    free(t->mark);
}
