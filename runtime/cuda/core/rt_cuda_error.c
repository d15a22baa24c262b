/* rt_cuda_error.c: reports failed calls of CUDA's libraries.
 *
 * Work is asynchronous: the error of a kernel is returned by a later call.
 * Without PARC_SYNC=1 a message therefore names the statement that was
 * enqueued last, and says how to find the one that failed. A collective that
 * fails does not return an error at all: the host checks the communicators
 * while it waits, and aborts them after a failure so that the peers end too.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/message.h"
#include "cuda/core/rt_nccl.h"
#include "launch/world.h"
#include "rt.h"

/* Errors that a kernel causes and later calls return. */
static bool is_late(CuResult r)
{
    enum { FIRST_OF_LAUNCHES = 700, LAST_OF_LAUNCHES = 721 };
    return r >= FIRST_OF_LAUNCHES && r <= LAST_OF_LAUNCHES;
}

const char *rt_cuda_reason(const RtDevice *d, CuResult result,
                           char text[RT_WHERE])
{
    const char *name = NULL, *says = NULL;
    if (d->cu.cuGetErrorName(result, &name) != RT_CU_SUCCESS)
        name = NULL;
    if (d->cu.cuGetErrorString(result, &says) != RT_CU_SUCCESS)
        says = NULL;
    if (name && says)
        snprintf(text, RT_WHERE, "%s (%s)", says, name);
    else
        snprintf(text, RT_WHERE, "error %u", result);
    return text;
}

const char *rt_cuda_where(const ParcRt *rt, char text[RT_WHERE])
{
    const RtDevice *d = rt->device;
    text[0] = 0;
    return d->work < 0
               ? text
               : rt_work_where(&rt->model->work[d->work], d->iteration, text);
}

void rt_cuda_check(ParcRt *rt, CuResult result, const char *call)
{
    char where[RT_WHERE], why[RT_WHERE];
    if (result == RT_CU_SUCCESS)
        return;
    const RtDevice *d = rt->device;
    rt_fail(rt, "rank %d: %s%s: %s%s", rt->rank, call, rt_cuda_where(rt, where),
            rt_cuda_reason(d, result, why),
            is_late(result) && !d->mode.sync
                ? "; something queued earlier failed: PARC_SYNC=1 names it"
                : "");
}

void rt_blas_check(ParcRt *rt, BlasStatus status, const char *call)
{
    char where[RT_WHERE];
    if (status != RT_BLAS_SUCCESS)
        rt_fail(rt, "rank %d: %s%s: %s", rt->rank, call,
                rt_cuda_where(rt, where),
                rt->device->blas.cublasLtGetStatusString(status));
}

/* ---- NCCL ---------------------------------------------------------------- */

/* The abort of a failed communicator may hang. */
enum { ABORT_SECONDS = 10 };

/* Releases peers that wait for this rank. The signal ends the process if the
 * abort hangs; the reason has been printed by then. */
static void abort_all(ParcRt *rt)
{
    CudaComms *c = rt->device->comms;
    signal(SIGALRM, SIG_DFL);
    alarm(ABORT_SECONDS);
    for (int i = 0; i < c->n; i++)
        if (c->at[i].comm && c->at[i].comm != c->world)
            c->call.ncclCommAbort(c->at[i].comm);
    if (c->world)
        c->call.ncclCommAbort(c->world);
}

void rt_nccl_check(ParcRt *rt, int id, NcclResult result, const char *call)
{
    const CudaNccl *n = &rt->device->comms->call;
    if (result == RT_NCCL_SUCCESS)
        return;
    const char *more = n->ncclGetLastError(NULL);
    rt_fail(rt, "rank %d: '%s': %s: %s%s%s", rt->rank,
            rt_collective_name(rt->model, id), call,
            n->ncclGetErrorString(result), more && *more ? ": " : "",
            more ? more : "");
}

void rt_nccl_watch(ParcRt *rt)
{
    CudaComms *c = rt->device->comms;
    for (int i = 0; c && i < c->n; i++) {
        NcclResult error = RT_NCCL_SUCCESS;
        NcclComm comm = c->at[i].comm;
        if (c->call.ncclCommGetAsyncError(comm, &error) == RT_NCCL_SUCCESS &&
            (error == RT_NCCL_SUCCESS || error == RT_NCCL_IN_PROGRESS))
            continue;
        const char *more = c->call.ncclGetLastError(comm);
        RtStatus *own = &rt->world->status[rt->rank];
        abort_all(rt);
        rt_fail(rt,
                "rank %d: NCCL failed in step %lld, in or before '%s': %s%s%s; "
                "NCCL_DEBUG=WARN says more",
                rt->rank, (long long)atomic_load(&own->step),
                rt_collective_name(rt->model, atomic_load(&own->collective)),
                c->call.ncclGetErrorString(error), more && *more ? ": " : "",
                more ? more : "");
    }
}
