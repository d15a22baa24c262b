/* trace.c: records when a rank executes which statement, for --trace.
 *
 * A rank executes one statement after another, so a timeline is a list of
 * marks: each mark starts one interval and ends the previous one. Emitted code
 * marks its statements; a collective also marks the end of its wait and of its
 * transfer. The lists are in shared memory, which is allocated and touched
 * before the first step, so tracing does not disturb the step. Rank 0 reads
 * all lists after the last traced step.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"
#include "trace/trace.h"

/* The first steps are slow because of page faults and cold caches. They are
 * not traced if the run has enough other steps. */
enum {
    WARM_UP = 2,
    MARKS_OF_STEP = 2,
    MARKS_OF_COLLECTIVE = 3,
    MARKS_OF_STATEMENT = 2, /* a barrier may precede it */
};

static int64_t marks_a_step(const ParcModel *m)
{
    int64_t n = MARKS_OF_STEP;
    for (int i = 0; i < m->nwork; i++) {
        bool collective = strcmp(m->work[i].kind, "collective") == 0;
        n += m->work[i].count *
             (collective ? MARKS_OF_COLLECTIVE : MARKS_OF_STATEMENT);
    }
    return n;
}

bool rt_trace_open(RtWorld *w, int64_t steps, int64_t done, int64_t total)
{
    RtTrace *t = &w->trace;
    steps = steps < total - done ? steps : total - done;
    int64_t before = total - done - steps;
    t->first = done + (before < WARM_UP ? before : WARM_UP) + 1;
    t->last = t->first + steps - 1;
    int64_t marks = marks_a_step(w->model);
    RtNeed need = {.ranks = w->store ? 1 : w->nranks,
                   .each = (double)steps * (double)marks * sizeof(RtMark),
                   .what = "the trace",
                   .advice = "a smaller --trace-steps takes less"};
    if (!rt_memory_fits(&need, ""))
        return false;
    int64_t capacity = steps * marks;
    size_t ring = sizeof(RtRing) + (size_t)capacity * sizeof(RtMark);
    t->stride = (ring + RT_PAGE - 1) / RT_PAGE * RT_PAGE;
    t->bytes = (size_t)w->nranks * t->stride;
    /* Under a launcher each process fills only its own ring. */
    int pages = w->store ? MAP_NORESERVE : MAP_POPULATE;
    void *map = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | pages, -1, 0);
    if (map == MAP_FAILED) {
        char text[RT_SIZE_TEXT];
        return rt_error("cannot map %s of memory for the trace: %s",
                        rt_size_text((double)t->bytes, text), strerror(errno));
    }
    t->rings = map;
    memset(rt_trace_ring(w, w->rank), 0, t->stride);
    for (int r = 0; r < w->nranks; r++)
        rt_trace_ring(w, r)->capacity = capacity;
    return true;
}

/* Nodes have different clocks. Marks are sent as times since the start of the
 * run, which is the same moment on all ranks up to the latency of a message. */
void rt_trace_gather(ParcRt *rt)
{
    RtWorld *w = rt->world;
    for (int r = 1; w->store && r < rt->nranks; r++) {
        RtRing *ring = rt_trace_ring(w, r);
        int64_t capacity = ring->capacity;
        rt_job_read(w->store, r, RT_OF_TRACE, 0, (int64_t)w->trace.stride,
                    ring);
        ring->n = ring->n < 0 || ring->n > capacity ? 0 : ring->n;
        rt_marks_shift(ring, w->store->zero);
    }
}

void rt_trace_close(RtWorld *w)
{
    if (w->trace.rings) {
        munmap(w->trace.rings, w->trace.bytes);
        w->trace.rings = NULL;
    }
}

void rt_trace_add_at(RtRing *ring, int64_t ns, int32_t what, int64_t iteration)
{
    if (ring->n == ring->capacity) { /* more marks than planned: train.c was
                                    edited by hand */
        ring->lost++;
        return;
    }
    ring->mark[ring->n++] = (RtMark){ns, what, (int32_t)iteration};
}

void rt_trace_add(RtRing *ring, int32_t what, int64_t iteration)
{
    rt_trace_add_at(ring, rt_now_ns(), what, iteration);
}

void rt_trace_begin(ParcRt *rt, int64_t step)
{
    const RtTrace *t = &rt->world->trace;
    if (t->rings && step >= t->first && step <= t->last) {
        rt->ring = rt_trace_ring(rt->world, rt->rank);
        rt_trace_add(rt->ring, RT_MARK_STEP, step);
    }
}

void rt_trace_end(ParcRt *rt)
{
    const RtRing *ring = rt->ring;
    /* A device has already marked the end. */
    if (ring && (ring->n == 0 || ring->mark[ring->n - 1].what != RT_MARK_END))
        rt_mark(rt, RT_MARK_END);
    rt->ring = NULL;
}
