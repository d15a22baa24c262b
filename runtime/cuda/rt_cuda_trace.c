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
#include <string.h>
#include <time.h>

#include "common/message.h"
#include "cuda/core/rt_cuda.h"
#include "rt.h"
#include "trace/trace.h"

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Events are reused in the next traced step. */
static CudaMark *next_mark(ParcRt *rt)
{
    CudaTrace *t = &rt->device->trace;
    if (t->n == t->room) {
        int room = t->room > 0 ? 2 * t->room : 256;
        CudaMark *more = rt_allocate((size_t)room * sizeof *more);
        if (t->room > 0)
            memcpy(more, t->mark, (size_t)t->room * sizeof *more);
        free(t->mark);
        t->mark = more;
        t->room = room;
    }
    CudaMark *m = &t->mark[t->n++];
    if (!m->event)
        CU(rt, cuEventCreate(&m->event, RT_CU_EVENT_DEFAULT));
    return m;
}

void rt_cuda_trace_mark(ParcRt *rt, int32_t what, int64_t turn)
{
    const RtDevice *d = rt->device;
    CudaMark *m = next_mark(rt);
    m->what = what;
    m->turn = turn;
    CU(rt, cuEventRecord(m->event, d->stream[PARC_COMPUTE]));
}

void rt_cuda_trace_begin(ParcRt *rt)
{
    CudaTrace *t = &rt->device->trace;
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "what comes before a traced step");
    t->n = 0;
    t->begin_ns = now_ns();
    rt_cuda_trace_mark(rt, -1, 0); /* the times of other events are relative to
                                      this one */
}

void rt_cuda_trace_end(ParcRt *rt)
{
    const RtDevice *d = rt->device;
    const CudaTrace *t = &d->trace;
    rt_cuda_trace_mark(rt, RT_MARK_END, 0);
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "a traced step");
    for (int i = 1; i < t->n; i++) {
        float ms = 0;
        CU(rt, cuEventElapsedTime(&ms, t->mark[0].event, t->mark[i].event));
        rt_trace_add_at(rt->ring, t->begin_ns + (int64_t)((double)ms * 1e6),
                        t->mark[i].what, t->mark[i].turn);
    }
}

void rt_cuda_trace_close(ParcRt *rt)
{
    CudaTrace *t = &rt->device->trace;
    for (int i = 0; i < t->room; i++) {
        if (t->mark[i].event)
            CU(rt, cuEventDestroy(t->mark[i].event));
    }
    free(t->mark);
}
