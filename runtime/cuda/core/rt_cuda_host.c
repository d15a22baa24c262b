/* rt_cuda_host.c: allocates the host memory of tensors that the plan offloads,
 * and places host memory near the GPU.
 *
 * The tensors have one pinned allocation of exactly the planned bytes. The
 * device copies pinned memory at the full rate of the bus while kernels run,
 * and a graph can contain the copies. Pageable memory needs a second copy by
 * the host and cannot be captured. In emitted code offsets of host memory begin
 * at the arena's end.
 *
 * On a machine with several NUMA nodes, a copy between the device and memory
 * of another node crosses the link between the processors, at a lower rate
 * than the bus. The system places a page on first access, and the driver
 * accesses pinned memory when it allocates it, so the preferred node is set
 * before any allocation. Linux names the node of a PCI device in sysfs. A
 * system call sets the preference, hence no library is needed.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "cuda/core/rt_cuda.h"
#include "launch/world.h"
#include "rt.h"

enum { MPOL_PREFERRED_MODE = 1, WORD_BITS = 8 * sizeof(unsigned long) };

void rt_cuda_numa_open(ParcRt *rt)
{
    RtDevice *d = rt->device;
    const char *root = rt_variable("PARC_SYSFS"); /* for tests */
    char pci[32] = "", path[512];
    d->numa_node = -1;
    if (d->cu.cuDeviceGetPCIBusId(pci, sizeof pci, d->device) !=
        RT_CU_SUCCESS)
        return;
    for (char *c = pci; *c; c++) /* sysfs uses lower case: 0000:1b:00.0 */
        *c = (char)tolower((unsigned char)*c);
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/numa_node",
             root ? root : "/sys", pci);
    d->numa_node = (int)rt_read_number(path, -1);
    if (d->numa_node < 0 || d->numa_node >= (int)WORD_BITS)
        return;
    unsigned long mask = 1ul << d->numa_node;
    /* A container may forbid the call; the default placement then stays. */
    (void)syscall(SYS_set_mempolicy, MPOL_PREFERRED_MODE, &mask, WORD_BITS + 1);
}

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
