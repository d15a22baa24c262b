/* split_node_axis.c: splits an axis whose groups have several ranks on each of
 * several nodes.
 *
 * requires: STAGE_FUSED; Mesh.node, the ranks that share a machine
 *           (--node-size), or 0
 * ensures:  every axis is either inside nodes, all ranks of a group on one node,
 *           or between nodes, all on different ones (mesh_between_nodes). An
 *           axis that was neither is split: `.in` numbers the ranks of a group
 *           on one node, `.out` the nodes. Or an error says that nodes cut
 *           groups unevenly
 *
 * before   mesh dp=8 tp=2
 *          node_size 4
 *            %w.2 = all_gather{axes={dp}, …} %w : f32[64, 64] forward
 *            %x = input{input=0} : i32[64/dp, 32] forward
 * after    mesh dp.in=2@2 dp.out=4@4 tp=2
 *          node_size 4
 *            %w.2 = all_gather{axes={dp.in, dp.out}, …} %w : f32[64, 64] forward
 *            %x = input{input=0} : i32[64/(dp.in·dp.out), 32] forward
 *
 * `.in` is the major part: a shard over both is a run of the shard over `.in`. A
 * reduce-scatter over `.in` leaves a rank the part of its node that it then
 * reduce-scatters over `.out`, so that only this part is sent between nodes; an
 * all-gather does the reverse (passes/fsdp/split_collectives.c).
 *
 * The passes before this one treat the axis as one: styles, units and the sums
 * of gradients do not depend on nodes.
 */
#include "ir/plan/pipeline.h"
#include "passes/pass.h"

#include "passes/sharding/split_axis.h"

/* "1, 2, 4 or 8": the sizes of nodes that the mesh permits. */
static const char *sizes_text(Program *p)
{
    const char *text = "", *last = "";
    int64_t ranks = mesh_ranks(&p->mesh);
    for (int64_t n = 1; n <= ranks; n++) {
        if (ranks % n || mesh_uneven_axis(&p->mesh, n) >= 0)
            continue;
        if (*last)
            text = arena_printf(p->arena, "%s%s%s", text, *text ? ", " : "",
                                last);
        last = arena_printf(p->arena, "%lld", (long long)n);
    }
    return *text ? arena_printf(p->arena, "%s or %s", text, last) : last;
}

/* `axis`: the first that is cut unevenly; -1: the last node is not full. */
static void refuse(Program *p, int axis)
{
    const Mesh *m = &p->mesh;
    if (axis < 0)
        diag_error(p->diag, p->plan.node_loc, "nodes of %lld ranks: the mesh "
                   "has %lld ranks, which leave a node partly empty",
                   (long long)m->node, (long long)mesh_ranks(m));
    else
        diag_error(p->diag, p->plan.node_loc, "nodes of %lld ranks: the groups "
                   "of axis '%s' would have unequal numbers of ranks on their "
                   "nodes (%lld ranks, %lld apart)", (long long)m->node,
                   m->name[axis], (long long)m->size[axis],
                   (long long)mesh_stride(m, axis));
    diag_help(p->diag, "on this mesh a node can have %s rank%s",
              sizes_text(p), mesh_ranks(m) > 1 ? "s" : "");
}

static void split(Program *p, int axis)
{
    const Mesh *m = &p->mesh;
    int64_t stride = mesh_stride(m, axis), in = m->node / stride;
    if (!split_axis_fits(p, p->plan.node_loc,
                         arena_printf(p->arena, "axis '%s' has several ranks on "
                                      "each of several nodes", m->name[axis]),
                         "omit an axis of the mesh"))
        return;
    split_axis(p, axis,
               (AxisPart[]){{".in", in, stride},
                            {".out", m->size[axis] / in, m->node}});
    split_axis_types(p, axis);
}

/* Stages send each other tensors wherever they are. But ranks that map the same
 * memory sum over an axis either there or by messages. */
static void check_pipeline(Program *p, const TargetInfo *t)
{
    const Mesh *m = &p->mesh;
    int64_t stride = mesh_stride(m, pipeline_axis(p));
    if (!t->shares_memory)
        return;
    diag_error(p->diag, p->plan.node_loc, "nodes of %lld ranks: a node has several "
               "stages of the pipeline over '%s', but not all", (long long)m->node,
               m->name[pipeline_axis(p)]);
    diag_help(p->diag, "on CPU ranks, nodes of %lld ranks have one stage each",
              (long long)stride);
}

void pass_split_node_axis(Program *p, const TargetInfo *t)
{
    const Mesh *m = &p->mesh;
    if (m->node == 0 || m->node >= mesh_ranks(m))
        return;
    int uneven = mesh_uneven_axis(m, m->node);
    if (mesh_ranks(m) % m->node) {
        refuse(p, -1);
        return;
    }
    if (uneven >= 0) {
        refuse(p, uneven);
        return;
    }
    for (int a = m->n - m->nloop - 1; a >= 0; a--) {
        int64_t stride = mesh_stride(m, a);
        if (stride >= m->node || stride * m->size[a] <= m->node)
            continue;
        if (a == pipeline_axis(p))
            check_pipeline(p, t);
        else
            split(p, a);
    }
}
