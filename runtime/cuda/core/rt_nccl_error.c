/* rt_nccl_error.c: checks the calls of NCCL, and while the host waits for the
 * device the communicators: a failed one ends the run with a message, and is
 * aborted so that its peers end too. */
#include <signal.h>
#include <unistd.h>

#include "cuda/core/rt_nccl.h"
#include "launch/world.h"

/* The abort of a failed communicator may hang. */
enum { ABORT_SECONDS = 10 };

static const char *name_of(const ParcRt *rt, int id)
{
    return rt_collective_name(rt->model, id);
}

/* Releases peers that wait for this rank. The signal ends the process if the
 * abort hangs; the reason has been printed by then. */
static void abort_all(ParcRt *rt)
{
    CudaComms *c = rt->device->comms;
    signal(SIGALRM, SIG_DFL);
    alarm(ABORT_SECONDS);
    for (int i = 0; i < 1 << rt->model->naxes; i++)
        if (c->comm[i] && c->comm[i] != c->world)
            c->call.ncclCommAbort(c->comm[i]);
    if (c->world)
        c->call.ncclCommAbort(c->world);
}

void rt_nccl_check(ParcRt *rt, int id, NcclResult result, const char *call)
{
    const CudaNccl *n = &rt->device->comms->call;
    if (result == RT_NCCL_SUCCESS)
        return;
    const char *more = n->ncclGetLastError(NULL);
    rt_fail(rt, "rank %d: '%s': %s: %s%s%s", rt->rank, name_of(rt, id), call,
            n->ncclGetErrorString(result), more && *more ? ": " : "",
            more ? more : "");
}

void rt_nccl_watch(ParcRt *rt)
{
    CudaComms *c = rt->device->comms;
    for (int i = 0; c && i < 1 << rt->model->naxes; i++) {
        NcclResult error = RT_NCCL_SUCCESS;
        if (!c->comm[i] ||
            (c->call.ncclCommGetAsyncError(c->comm[i], &error) ==
                 RT_NCCL_SUCCESS &&
             (error == RT_NCCL_SUCCESS || error == RT_NCCL_IN_PROGRESS)))
            continue;
        const char *more = c->call.ncclGetLastError(c->comm[i]);
        RtSlot *own = &rt->world->slot[rt->rank];
        abort_all(rt);
        rt_fail(rt,
                "rank %d: NCCL failed in step %lld, in or before '%s': %s%s%s; "
                "NCCL_DEBUG=WARN says more",
                rt->rank, (long long)atomic_load(&own->step),
                name_of(rt, atomic_load(&own->collective)),
                c->call.ncclGetErrorString(error), more && *more ? ": " : "",
                more ? more : "");
    }
}
