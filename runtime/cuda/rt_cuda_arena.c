/* rt_cuda_arena.c: allocates the rank's arena.
 *
 * The arena is one allocation, if possible as memory that NCCL accesses directly
 * (rt_nccl.c). With a pipeline a rank uses only parts of it (ParcModel.ranges): it
 * reserves addresses for all, and maps memory at these parts. NCCL then copies
 * through its own buffers.
 *
 *   addresses   |----- arena_bytes --------------------------------|
 *   memory      |=======|          |=====|       |===|
 */
#include <stdlib.h>

#include "cuda/core/rt_nccl.h"
#include "launch/world.h"
#include "rt.h"

enum { PAGE = 2 << 20 }; /* that parc plans with */

static int64_t round_up(int64_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

/* Of the ranges, those with memory: the arena's. */
static int count_ranges(const ParcRange *range)
{
    int n = 0;
    while (range[n].bytes > 0)
        n++;
    return n;
}

static CuMemoryKind kind_of(const RtDevice *d)
{
    return (CuMemoryKind){.type = RT_CU_PINNED,
                          .where = {RT_CU_LOCATION_DEVICE, d->device}};
}

static void check_page(ParcRt *rt)
{
    CuMemoryKind kind = kind_of(rt->device);
    size_t page = 0;
    CU(rt, cuMemGetAllocationGranularity(&page, &kind, RT_CU_LEAST_GRANULARITY));
    if (page == 0 || PAGE % page)
        rt_fail(rt, "this GPU allocates multiples of %zu bytes, and parc plans "
                    "with %d: a pipeline cannot run on it", page, PAGE);
}

/* Maps memory at one range. */
static CuResult map_range(ParcRt *rt, const ParcRange *r)
{
    RtDevice *d = rt->device;
    CuMemoryKind kind = kind_of(d);
    CuMemoryAccess access = {.where = kind.where, .flags = RT_CU_READ_WRITE};
    CuMemoryHandle handle = 0;
    CuAddress at = d->arena + (CuAddress)r->offset;
    size_t bytes = (size_t)r->bytes;
    CuResult created = d->cu.cuMemCreate(&handle, bytes, &kind, 0);
    if (created)
        return created;
    CU(rt, cuMemMap(at, bytes, 0, handle, 0));
    CU(rt, cuMemRelease(handle)); /* the mapping keeps it */
    CU(rt, cuMemSetAccess(at, bytes, &access, 1));
    return RT_CU_SUCCESS;
}

static CuResult map_ranges(ParcRt *rt, const ParcRange *range)
{
    RtDevice *d = rt->device;
    int n = count_ranges(range);
    check_page(rt);
    CU(rt, cuMemAddressReserve(&d->arena,
                               (size_t)round_up(rt->model->arena_bytes + 1), 0, 0,
                               0));
    for (int i = 0; i < n; i++) {
        CuResult r = map_range(rt, &range[i]);
        if (r)
            return r;
        CU(rt, cuMemsetD8Async(d->arena + (CuAddress)range[i].offset, 0,
                               (size_t)range[i].bytes,
                               d->stream[PARC_COMPUTE]));
        if (range[i].bytes > d->spare_bytes) {
            d->spare = d->arena + (CuAddress)range[i].offset;
            d->spare_bytes = range[i].bytes;
        }
    }
    return RT_CU_SUCCESS;
}

CuResult rt_cuda_arena_take(ParcRt *rt)
{
    RtDevice *d = rt->device;
    size_t bytes = (size_t)rt->model->arena_bytes;
    CuResult r = RT_CU_SUCCESS;
    if (rt->model->ranges)
        return map_ranges(rt, rt_ranges(rt->model, rt->rank));
    if (!bytes || !rt_nccl_alloc(rt, &d->arena, bytes))
        r = d->cu.cuMemAlloc(&d->arena, bytes ? bytes : 1);
    if (r)
        return r;
    CU(rt, cuMemsetD8Async(d->arena, 0, bytes, d->stream[PARC_COMPUTE]));
    d->spare = d->arena;
    d->spare_bytes = rt->model->arena_bytes;
    rt_nccl_register(rt);
    return r;
}

void rt_cuda_arena_free(ParcRt *rt)
{
    RtDevice *d = rt->device;
    const ParcRange *range = rt_ranges(rt->model, rt->rank);
    rt_nccl_unregister(rt);
    for (int i = 0; range && i < count_ranges(range); i++)
        CU(rt, cuMemUnmap(d->arena + (CuAddress)range[i].offset,
                          (size_t)range[i].bytes));
    if (range)
        CU(rt, cuMemAddressFree(d->arena,
                                (size_t)round_up(rt->model->arena_bytes + 1)));
    else if (!rt_nccl_free(rt, d->arena))
        CU(rt, cuMemFree(d->arena));
}
