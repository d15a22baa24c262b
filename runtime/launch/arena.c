/* launch/arena.c: sets a rank's arena, counts its bytes, and returns the rank's
 * number, threads and group indices to emitted code.
 *
 * The arena holds all tensors of a rank, and no other code of the runtime
 * allocates tensors except a target's device. Hence the count is the
 * `peak_bytes` of the log. Other memory (option strings, file headers, the
 * control block) is not counted.
 */
#include <sys/mman.h>

#include "launch/world.h"
#include "rt.h"

void rt_count(ParcRt *rt, int64_t bytes)
{
    rt->bytes += bytes;
    if (rt->peak_bytes < rt->bytes)
        rt->peak_bytes = rt->bytes;
}

int64_t rt_arena_end(const ParcModel *model)
{
    int n = model->nshared;
    return n == 0 ? model->arena_bytes + model->host_bytes
                  : model->shared[n - 1].offset + model->shared[n - 1].bytes;
}

int64_t rt_arena_counted(const ParcModel *model)
{
    int64_t bytes = model->arena_bytes;
    for (int i = 0; i < model->nshared; i++)
        bytes += model->shared[i].bytes /
                 rt_group_size(model, model->shared[i].axes);
    return bytes;
}

void rt_arena_take(ParcRt *rt)
{
    rt->arena = rt_peer(rt, rt->rank);
    rt_count(rt, rt_arena_counted(rt->model));
    /* Large pages reduce TLB misses. The system may refuse them without
     * harm. */
    madvise(rt->arena, rt->world->arena_stride, MADV_HUGEPAGE);
}

int parc_rank(const ParcRt *rt)
{
    return rt->rank;
}

int parc_threads(const ParcRt *rt)
{
    return rt->threads;
}

int64_t parc_index(const ParcRt *rt, uint32_t axes)
{
    return rt->group[axes].index;
}
