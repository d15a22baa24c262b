/* mesh.c: computes with axes, coordinates and groups of a mesh, and with cuts of
 * loops into stages; see type.h. */
#include "ir/type.h"

#include <string.h>

int64_t mesh_ranks(const Mesh *m)
{
    int64_t n = 1;
    for (int a = 0; a < m->n - m->nloop; a++)
        n *= m->size[a];
    return n;
}

int64_t mesh_group(const Mesh *m, uint32_t axes)
{
    int64_t n = 1;
    for (int a = 0; a < m->n; a++)
        if (axes & 1u << a)
            n *= m->size[a];
    return n;
}

int64_t mesh_parts(const Mesh *m)
{
    return mesh_group(m, UINT32_MAX);
}

bool mesh_same_axis(const Mesh *m, int a, int b)
{
    const char *x = strchr(m->name[a], '.'), *y = strchr(m->name[b], '.');
    return x && y && x - m->name[a] == y - m->name[b] &&
           strncmp(m->name[a], m->name[b], (size_t)(x - m->name[a])) == 0;
}

uint32_t mesh_user_axis(const Mesh *m, int axis)
{
    uint32_t axes = 1u << axis;
    for (int a = 0; a < m->n; a++)
        axes |= (uint32_t)mesh_same_axis(m, a, axis) << a;
    return axes;
}

const char *mesh_user_name(Arena *a, const Mesh *m, int axis)
{
    return arena_strndup(a, m->name[axis], strcspn(m->name[axis], "."));
}

int64_t mesh_stride(const Mesh *m, int axis)
{
    int64_t stride = 1;
    if (m->stride[axis] > 0)
        return m->stride[axis];
    for (int a = axis + 1; a < m->n - m->nloop; a++)
        stride *= m->size[a];
    return stride;
}

int mesh_axis_of_stride(const Mesh *m, int64_t stride)
{
    for (int a = 0; a < m->n - m->nloop; a++)
        if (m->size[a] > 1 && mesh_stride(m, a) == stride)
            return a;
    return -1;
}

bool mesh_numbers_ranks(const Mesh *m)
{
    int64_t stride = 1, ranks = mesh_ranks(m);
    for (int a; (a = mesh_axis_of_stride(m, stride)) >= 0;)
        stride *= m->size[a];
    return stride == ranks;
}

int mesh_uneven_axis(const Mesh *m, int64_t node)
{
    for (int a = 0; a < m->n - m->nloop; a++) {
        int64_t stride = mesh_stride(m, a), span = stride * m->size[a];
        bool inside = m->size[a] == 1 || node % span == 0;
        bool between = stride % node == 0;
        if (!inside && !between && (node % stride || span % node))
            return a;
    }
    return -1;
}

uint32_t mesh_between_nodes(const Mesh *m)
{
    uint32_t axes = 0;
    for (int a = 0; m->node > 0 && a < m->n - m->nloop; a++)
        if (m->size[a] > 1 && mesh_stride(m, a) * m->size[a] > m->node)
            axes |= 1u << a;
    return axes;
}

int64_t mesh_step(const Mesh *m, int axis)
{
    int64_t step = mesh_is_loop_axis(m, axis) ? 1 : mesh_stride(m, axis);
    for (int a = m->n - 1; a > axis && mesh_is_loop_axis(m, a); a--)
        step *= m->size[a];
    return step;
}

int64_t mesh_coord(const Mesh *m, int64_t rank, int axis)
{
    return rank / mesh_step(m, axis) % m->size[axis];
}

/* ---- cuts ---------------------------------------------------------------- */

int cut_stage(const Mesh *m, int cut, int64_t iteration)
{
    const StageCut *c = &m->cut[cut - 1];
    int stage = 0;
    while (stage + 1 < c->nstages && c->begin[stage + 1] <= iteration)
        stage++;
    return stage;
}

int64_t cut_most(const Mesh *m, int cut, int axis)
{
    const StageCut *c = &m->cut[cut - 1];
    int64_t most = 0;
    for (int64_t k = 0; k < m->size[axis]; k++) {
        int64_t n = 0;
        for (int64_t s = k; s < c->nstages; s += m->size[axis])
            n += c->begin[s + 1] - c->begin[s];
        most = n > most ? n : most;
    }
    return most;
}
