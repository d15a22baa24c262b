/* rt_cuda_launch.c: kernels by name. */
#include "rt_cuda_launch.h"

#include "rt_cuda.h"

enum { MOST = 24 };

int64_t rt_cuda_block_memory(const ParcRt *rt)
{
    return rt->device->shared_most;
}

void rt_cuda_launch(ParcRt *rt, const char *symbol, int64_t grid, int block,
                    int64_t shared_bytes, int n, int64_t *argument)
{
    void *args[MOST];
    for (int i = 0; i < n; i++) {
        args[i] = &argument[i];
    }
    if (grid > 0) {
        parc_launch(rt, rt_cuda_kernel(rt, symbol), grid, block, shared_bytes,
                    args);
    }
}
