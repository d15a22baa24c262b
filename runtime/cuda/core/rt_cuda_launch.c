/* rt_cuda_launch.c: launches kernels by name.
 *
 * Emitted code launches a kernel by its number (parc_launch). The runtime
 * itself launches hand-written kernels (copies, attention, embedding). Their
 * numbers differ between programs, so it finds the number from the name. */
#include "cuda/core/rt_cuda.h"
#include "cuda/core/rt_cuda_launch.h"
#include "launch/world.h"
#include "rt.h"

enum { MOST = 24 };

int64_t rt_cuda_block_memory(const ParcRt *rt)
{
    return rt->device->shared_most;
}

bool rt_cuda_grid(int64_t blocks, unsigned *columns, unsigned *rows)
{
    enum { MOST_ROWS = 65535 };
    int64_t n = rt_blocks(blocks, INT32_MAX);
    if (blocks < 1 || n > MOST_ROWS)
        return false;
    *rows = (unsigned)n;
    *columns = (unsigned)rt_blocks(blocks, n);
    return true;
}

void rt_cuda_launch(ParcRt *rt, const char *symbol, int64_t grid, int block,
                    int64_t shared_bytes, int n, int64_t *argument)
{
    void *args[MOST];
    for (int i = 0; i < n; i++)
        args[i] = &argument[i];
    if (grid > INT32_MAX)
        rt_fail(rt, "'%s' is launched with %lld blocks, and a GPU takes up to "
                    "%d: split the batch over more ranks",
                symbol, (long long)grid, INT32_MAX);
    if (grid > 0)
        parc_launch(rt, rt_cuda_kernel(rt, symbol), grid, block, shared_bytes,
                    args);
}
