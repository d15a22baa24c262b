/* rt_cuda_collectives.c: collectives between devices. */
#include "rt_cuda.h"

/* They move through the devices' own links, so that a launcher's processes
 * need no memory in common. */
bool rt_collectives_share(void)
{
    return false;
}
