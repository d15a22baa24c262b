/* rt_cuda_trace.c: when the statements of a step ran, for --trace.
 *
 * A traced step runs without its graph and has an event in front of each
 * statement. Statements run one after the other then, on whichever stream, so
 * that a time is the statement's own: what overlaps in other steps does not
 * here. Events become marks of the rank's ring (rt_trace.c) when the step has
 * run; the device's clock is tied to the host's where the step begins.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rt_cuda.h"

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Events are kept from one traced step to the next. */
static CudaMark *next_mark(ParcRt *rt)
{
    CudaTrace *t = &rt->device->trace;
    if (t->n == t->room) {
        int room = t->room > 0 ? 2 * t->room : 256;
        CudaMark *more = rt_allocate((size_t)room * sizeof *more);
        if (t->room > 0) {
            memcpy(more, t->mark, (size_t)t->room * sizeof *more);
        }
        free(t->mark);
        t->mark = more;
        t->room = room;
    }
    CudaMark *m = &t->mark[t->n++];
    if (!m->event) {
        CU(rt, cuEventCreate(&m->event, RT_CU_EVENT_DEFAULT));
    }
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
    rt_cuda_trace_mark(rt, -1, 0); /* the others' times count from here */
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
        if (t->mark[i].event) {
            CU(rt, cuEventDestroy(t->mark[i].event));
        }
    }
    free(t->mark);
}
