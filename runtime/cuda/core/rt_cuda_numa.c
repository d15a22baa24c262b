/* rt_cuda_numa.c: places host memory near the GPU.
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
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/files.h"
#include "cuda/core/rt_cuda.h"
#include "rt.h"

enum { MPOL_PREFERRED_MODE = 1, WORD_BITS = 8 * sizeof(unsigned long) };

void rt_cuda_numa_open(ParcRt *rt)
{
    RtDevice *d = rt->device;
    const char *root = getenv("PARC_SYSFS"); /* for tests */
    char pci[32] = "", path[512];
    d->numa_node = -1;
    if (d->cu.cuDeviceGetPCIBusId(pci, sizeof pci, d->device) !=
        RT_CU_SUCCESS)
        return;
    for (char *c = pci; *c; c++) /* sysfs uses lower case: 0000:1b:00.0 */
        *c = (char)tolower((unsigned char)*c);
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/numa_node",
             root && *root ? root : "/sys", pci);
    d->numa_node = (int)rt_read_number(path, -1);
    if (d->numa_node < 0 || d->numa_node >= (int)WORD_BITS)
        return;
    unsigned long mask = 1ul << d->numa_node;
    /* A container may forbid the call; the default placement then stays. */
    (void)syscall(SYS_set_mempolicy, MPOL_PREFERRED_MODE, &mask, WORD_BITS + 1);
}
