/* mesh.c: computes what follows from the mesh and the sizes of a program alone:
 * the coordinates and groups of ranks, the bytes of an arena, and the names of
 * synchronization points.
 *
 * Ranks are numbered in the order of their coordinates, the axis of the largest
 * stride major. A group has the order of the axes:
 *
 *   mesh dp=2 x tp=3: rank 4 has the coordinates dp=1 tp=1; its group over tp
 *   is {3, 4, 5}
 *   mesh dp.in=2 x dp.out=2, two ranks on each of two nodes, strides 1 and 2:
 *   rank 1 has the coordinates dp.in=1 dp.out=0; the group over both is
 *   {0, 2, 1, 3}
 */
#include <stdint.h>

#include "common/message.h"
#include "launch/world.h"
#include "rt.h"

int64_t rt_nranks(const ParcModel *model)
{
    int64_t n = 1;
    for (int i = 0; i < model->naxes; i++)
        if (__builtin_mul_overflow(n, model->axis[i].size, &n))
            return INT64_MAX;
    return n;
}

const char *rt_mesh_text(const ParcModel *m, char text[RT_MESH])
{
    RtText t = {.at = text, .capacity = RT_MESH};
    text[0] = 0;
    for (int a = 0; a < m->naxes; a++)
        rt_add(&t, "%s%s=%lld", a ? " x " : "", m->axis[a].name,
               (long long)m->axis[a].size);
    return text;
}

bool rt_ranks_check(const ParcModel *model)
{
    char mesh[RT_MESH];
    int64_t n = rt_nranks(model);
    if (n >= 1 && n <= RT_MOST_RANKS)
        return true;
    return rt_error(
        "the mesh (%s) has %s%lld ranks, and a program runs on 1 to %d: run "
        "parc again with a smaller --mesh",
        rt_mesh_text(model, mesh), n == INT64_MAX ? "more than " : "",
        (long long)n, RT_MOST_RANKS);
}

int64_t rt_group_size(const ParcModel *model, uint32_t axes)
{
    int64_t n = 1;
    for (int a = 0; a < model->naxes; a++)
        n *= axes >> a & 1 ? model->axis[a].size : 1;
    return n;
}

int64_t rt_stride(const ParcModel *model, int axis)
{
    int64_t stride = 1;
    if (model->stride[axis] > 0)
        return model->stride[axis];
    for (int i = axis + 1; i < model->naxes; i++)
        stride *= model->axis[i].size;
    return stride;
}

int64_t rt_coord(const ParcModel *model, int rank, int axis)
{
    return rank / rt_stride(model, axis) % model->axis[axis].size;
}

uint32_t rt_axes_here(const ParcModel *model, uint32_t axes)
{
    for (int a = 0; model->node_size > 0 && a < model->naxes; a++)
        if (rt_stride(model, a) * model->axis[a].size > model->node_size)
            axes &= ~(1u << a);
    return axes;
}

int64_t rt_index(const ParcModel *model, int rank, uint32_t axes)
{
    int64_t index = 0;
    for (int a = 0; a < model->naxes; a++)
        if (axes >> a & 1)
            index = index * model->axis[a].size + rt_coord(model, rank, a);
    return index;
}

const char *rt_collective_name(const ParcModel *model, int id)
{
    static const char *const own[] = {
        "start of the run",         "end of the run",
        "writing of the trace",     "check of the gradients",
        "choice of matmul kernels", "decision after a step",
        "evaluation between steps", "save of a checkpoint",
        "read of a checkpoint",     "sampling",
        "writing of predictions"};
    if (id < 0 && id >= RT_AT_LEAST)
        return own[-id - 1];
    return id < model->ncollectives ? model->collective[id]
                                    : "unknown collective";
}

bool rt_in_group(const ParcModel *model, int rank, int other, uint32_t axes)
{
    for (int a = 0; a < model->naxes; a++)
        if (!(axes >> a & 1) &&
            rt_coord(model, rank, a) != rt_coord(model, other, a))
            return false;
    return true;
}

int64_t rt_arena_end(const ParcModel *model)
{
    int n = model->nshared;
    return n == 0 ? model->arena_bytes + model->host_bytes
                  : model->shared[n - 1].offset + model->shared[n - 1].bytes;
}

const ParcRange *rt_ranges(const ParcModel *model, int rank)
{
    return model->ranges ? model->ranges[rt_index(model, rank, model->pipeline)]
                         : NULL;
}

/* The number of ranks that share the bytes at an offset. */
static int64_t sharers(const ParcModel *model, int64_t offset)
{
    int64_t n = 1;
    for (int i = 0; i < model->nshared; i++)
        if (offset >= model->shared[i].offset)
            n = rt_group_size(model, model->shared[i].axes);
    return n;
}

int64_t rt_arena_counted(const ParcModel *model, int rank)
{
    const ParcRange *range = rt_ranges(model, rank);
    int64_t bytes = 0;
    for (; range && range->bytes > 0; range++)
        bytes += range->bytes / sharers(model, range->offset);
    if (model->ranges)
        return bytes;
    bytes = model->arena_bytes;
    for (int i = 0; i < model->nshared; i++)
        bytes += model->shared[i].bytes /
                 rt_group_size(model, model->shared[i].axes);
    return bytes;
}

int64_t rt_arena_most(const ParcModel *model)
{
    int64_t most = 0;
    for (int rank = 0; rank < rt_nranks(model); rank++) {
        int64_t bytes = rt_arena_counted(model, rank);
        most = bytes > most ? bytes : most;
    }
    return most;
}
