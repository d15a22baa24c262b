/* rt_cuda_wait.c: waits for the device.
 *
 * The host polls instead of blocking in the driver, so that a collective whose
 * peer has died ends with a message. It polls without pause for a short time,
 * since the result of a small step is available almost immediately, then with
 * pauses that are short relative to a step.
 */
#include <time.h>

#include "common/message.h"
#include "cuda/core/rt_nccl.h"
#include "launch/world.h"
#include "rt.h"

static const double EAGER_SECONDS = 200e-6;

/* Time between two looks counts as at most one second: while a whole run is
 * stopped, the limit does not approach. */
static const double LONGEST_SLICE = 1;

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

_Noreturn static void fail_wait(ParcRt *rt, const char *what)
{
    char where[RT_WHERE];
    if (rt->device->comms &&
        atomic_load(&rt->world->slot[rt->rank].step) > 0)
        rt_cuda_timeout(rt, what);
    rt_fail(rt,
            "rank %d waited %d s for its GPU to finish %s%s; PARC_SYNC=1 "
            "names the statement that does not end, PARC_TIMEOUT sets the "
            "limit",
            rt->rank, rt->world->timeout_seconds, what,
            rt_cuda_where(rt, where));
}

/* The work that is waited for: exactly one of the two is set. */
typedef struct Awaited {
    CuStream stream;
    CuEvent event;
} Awaited;

static CuResult query_awaited(const RtDevice *d, const Awaited *a)
{
    return a->event ? d->cu.cuEventQuery(a->event)
                    : d->cu.cuStreamQuery(a->stream);
}

static void wait_for(ParcRt *rt, const Awaited *a, const char *what)
{
    const RtDevice *d = rt->device;
    CuResult r = query_awaited(d, a);
    if (r == RT_CU_NOT_READY) {
        double waited = 0, last = rt_now();
        while ((r = query_awaited(d, a)) == RT_CU_NOT_READY) {
            double now = rt_now(), slice = now - last;
            waited += slice < LONGEST_SLICE ? slice : LONGEST_SLICE;
            last = now;
            if (waited > rt->world->timeout_seconds)
                fail_wait(rt, what);
            if (waited > EAGER_SECONDS) {
                rt_cuda_progress_publish(rt);
                rt_nccl_watch(rt);
                pause_briefly();
            }
        }
    }
    rt_cuda_check(rt, r, what);
}

void rt_cuda_wait_stream(ParcRt *rt, int stream, const char *what)
{
    wait_for(rt, &(Awaited){.stream = rt->device->stream[stream]}, what);
}

void rt_cuda_wait_event(ParcRt *rt, CuEvent event, const char *what)
{
    wait_for(rt, &(Awaited){.event = event}, what);
}

void rt_cuda_queued(ParcRt *rt, int stream, const char *what)
{
    if (rt->device->mode.sync)
        rt_cuda_wait_stream(rt, stream, what);
}
