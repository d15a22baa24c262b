/* rt_cuda_host.c: allocates the host memory of tensors that the plan offloads.
 *
 * It is one pinned allocation of exactly the planned bytes. The device copies
 * pinned memory at the full rate of the bus while kernels run, and a graph can
 * contain the copies. Pageable memory needs a second copy by the host and
 * cannot be captured. In emitted code offsets of host memory begin at the
 * arena's end.
 */
#include <string.h>

#include "common/message.h"
#include "cuda/core/rt_cuda.h"
#include "launch/world.h"
#include "rt.h"

void rt_cuda_host_open(ParcRt *rt)
{
    RtDevice *d = rt->device;
    size_t bytes = (size_t)rt->model->host_bytes;
    void *host = NULL;
    char size[32], why[RT_WHERE];
    if (bytes == 0)
        return;
    CuResult r = d->cu.cuMemHostAlloc(&host, bytes, RT_CU_HOST_PORTABLE);
    if (r != RT_CU_SUCCESS)
        rt_fail(rt,
                "a rank keeps %s in host memory (the plan's 'offload'), and "
                "the driver cannot pin that: %s; 'ulimit -l' and the machine's "
                "memory are the limits",
                rt_size_text((double)bytes, size), rt_cuda_reason(d, r, why));
    memset(host, 0, bytes);
    d->host = host;
    rt->host_bytes += (int64_t)bytes;
}

void rt_cuda_host_close(ParcRt *rt)
{
    RtDevice *d = rt->device;
    if (d->host)
        CU(rt, cuMemFreeHost(d->host));
    d->host = NULL;
}

void rt_cuda_host_copy(ParcRt *rt, int64_t offset, int64_t bytes, bool upload)
{
    char *host = rt->device->host + (offset - rt->model->arena_bytes);
    char *mirror = rt->arena + offset;
    /* A step ends on the compute stream. */
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "the step");
    memcpy(upload ? host : mirror, upload ? mirror : host, (size_t)bytes);
}

void parc_fetch(ParcRt *rt, int64_t to, int64_t from, int64_t bytes)
{
    const RtDevice *d = rt->device;
    CU(rt, cuMemcpyHtoDAsync(d->arena + (CuAddress)to,
                             d->host + (from - rt->model->arena_bytes),
                             (size_t)bytes, d->stream[PARC_HOST]));
    rt_cuda_queued(rt, PARC_HOST, "a fetch from host memory");
}

void parc_store(ParcRt *rt, int64_t to, int64_t from, int64_t bytes)
{
    const RtDevice *d = rt->device;
    CU(rt, cuMemcpyDtoHAsync(d->host + (to - rt->model->arena_bytes),
                             d->arena + (CuAddress)from, (size_t)bytes,
                             d->stream[PARC_HOST]));
    rt_cuda_queued(rt, PARC_HOST, "a store to host memory");
}
