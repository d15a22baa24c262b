/* rt_cuda_error.c: reports failed CUDA calls.
 *
 * Work is asynchronous: the error of a kernel is returned by a later call.
 * Without PARC_SYNC=1 a message therefore names the statement that was
 * enqueued last, and says how to find the one that failed.
 */
#include <stdio.h>
#include <string.h>

#include "common/message.h"
#include "cuda/core/rt_cuda.h"
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
