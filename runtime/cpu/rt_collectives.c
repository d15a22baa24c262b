/* rt_collectives.c: implements collectives over shared memory, and the local
 * ops local_slice and mask_to_partial (local slice, mask to partial).
 *
 * Every rank of a node maps the arenas of all, and a tensor has the same offset
 * on every rank. A collective is therefore: a barrier (all sources are written);
 * each rank copies or adds its part from the arenas of its peers; a barrier
 * (sources may be overwritten). With ranks of other nodes it also exchanges
 * messages (rt_nodes.c), and the barriers are those of the group's ranks on this
 * node. There is no staging buffer. Parameters that ranks share
 * (ParcShared) are not copied: their all-gather is one barrier, or nothing if
 * another barrier already orders the accesses.
 *
 * Sums are computed in the order of the group's ranks, element by element, for
 * any number of threads: the same run gives the same bits.
 *
 * all_reduce splits the elements into one slice per rank. A rank sums its
 * slice over all peers and writes the sum to all of them. It may work in
 * place, since no other rank reads or writes that slice.
 */
#include <string.h>

#include "common/type.h"
#include "cpu/rt_nodes.h"
#include "cpu/rt_stream.h"
#include "cpu/rt_sum.h"
#include "launch/world.h"
#include "rt.h"
#include "trace/trace.h"

enum {
    GRAIN = 1 << 15,  /* minimum number of elements for several threads */
    MOST_FAR = 16,    /* maximum number of ranks for a sum with non-temporal
                         stores */
};

bool rt_collectives_share(void)
{
    return true;
}

/* The part in bytes: copies do not depend on the element type. */
static ParcPart in_bytes(const ParcPart *p)
{
    ParcPart bytes = *p;
    bytes.inner *= rt_type_size(p->type);
    bytes.valid *= rt_type_size(p->type);
    return bytes;
}

/* Checks that the group's ranks are at the same collective. */
static void check_peers(ParcRt *rt, const RtGroup *g, int id)
{
    const RtStatus *status = rt->world->status;
    int32_t other = atomic_load(&status[g->member[0]].collective);
    if (other != id)
        rt_fail(rt, "rank %d is in '%s' while rank %d is in '%s': start the "
                    "same program on all ranks", rt->rank,
                rt_collective_name(rt->model, id), g->member[0],
                rt_collective_name(rt->model, other));
}

/* Barrier of the group's ranks on this node before a collective. */
static void enter_collective(ParcRt *rt, int id, uint32_t axes)
{
    uint32_t here = rt_axes_here(rt->model, axes);
    RtStatus *own = &rt->world->status[rt->rank];
    if (rt->group[axes].n == 1)
        return;
    atomic_store(&own->collective, id);
    atomic_store(&own->state, RT_WAITING);
    if (rt->group[here].n > 1) {
        rt_barrier(rt, here);
        check_peers(rt, &rt->group[here], id);
    }
    atomic_store(&own->state, RT_MOVING);
    rt_mark(rt, RT_MARK_MOVE);
}

static void leave_collective(ParcRt *rt, uint32_t axes)
{
    if (rt->group[axes].n == 1)
        return;
    rt_mark(rt, RT_MARK_WAIT);
    rt_barrier(rt, rt_axes_here(rt->model, axes));
    atomic_store(&rt->world->status[rt->rank].state, RT_COMPUTING);
}

/* Clears the padding of the rank's run. */
static void clear_padding(char *dst, const ParcPart *p, int64_t valid)
{
    for (int64_t o = 0; valid < p->inner && o < p->outer; o++)
        memset(dst + o * p->inner + valid, 0, (size_t)(p->inner - valid));
}

/* This barrier does not compare ids: one rank may already be at the next
 * collective, which compares them, before another rank has read its id. */
void parc_synchronize(ParcRt *rt, int id, uint32_t axes)
{
    RtStatus *own = &rt->world->status[rt->rank];
    axes = rt_axes_here(rt->model, axes);
    if (rt->group[axes].n > 1) {
        atomic_store(&own->collective, id);
        atomic_store(&own->state, RT_WAITING);
        rt_barrier(rt, axes);
        atomic_store(&own->state, RT_COMPUTING);
        rt_mark(rt, RT_MARK_MOVE);
    }
}

/* Copies the part of member j to its place in the whole; sizes are in bytes. */
static void gather_from(ParcRt *rt, const RtGroup *g, const ParcPart *p, int j)
{
    int64_t row = rt_whole_row(p, g->n), n = rt_valid_run(p, j) / rt_part_pieces(p);
    const char *from = rt_peer(rt, g->member[j]) + p->src + (p->inside ? j * p->inner : 0);
    for (int i = 0; i < rt_part_pieces(p); i++)
        rt_copy_rows(rt, rt->arena + p->dst + rt_piece_begin(p, g->n, j, i), row,
                     from + i * n, p->inside ? row : p->inner, p->outer, n);
}

void parc_all_gather(ParcRt *rt, int id, uint32_t axes, int n,
                     const ParcPart *part)
{
    const RtGroup *g = &rt->group[axes];
    enter_collective(rt, id, axes);
    for (int i = 0; i < n; i++) {
        ParcPart p = in_bytes(&part[i]);
        for (int j = 0; j < g->n; j++)
            if (rt_is_mapped(rt->world, g->member[j]))
                gather_from(rt, g, &p, j);
        if (rt_group_leaves_node(rt, axes))
            rt_nodes_all_gather(rt, id, axes, &part[i]);
    }
    leave_collective(rt, axes);
}

/* Reduces elements [at, at+n) of a part's source over all ranks, in order. */
static void reduce_tile(const ParcRt *rt, const RtGroup *g, float *sum,
                        const ParcPart *p, int64_t at, int64_t n, ParcReduce op)
{
    for (int j = 0; j < g->n; j++)
        rt_add_tile(sum, p->type,
                    rt_element(p->type, rt_peer(rt, g->member[j]) + p->src, at),
                    j == 0, n, op);
}

/* Stores n sums in the part's type. far: past the cache. */
static void put_sums(const ParcPart *p, void *to, const float *sum, int64_t n,
                     bool far)
{
    if (far && p->type == PARC_F32)
        rt_copy_far(to, sum, n * (int64_t)sizeof *sum);
    else
        rt_narrow(p->type, to, sum, n);
}

/* Sums elements [at, at+n) of a part's source over all ranks and stores them
 * to `to` past the cache; all are f32. */
static void sum_far(const ParcRt *rt, const RtGroup *g, const ParcPart *p,
                    float *to, int64_t at, int64_t n)
{
    const float *from[MOST_FAR] = {NULL};
    for (int j = 0; j < g->n; j++)
        from[j] = (const float *)(const void *)(rt_peer(rt, g->member[j]) +
                                                p->src) + at;
    rt_sum_far(to, from, g->n, n);
}

/* Sums elements [at, at+n) of piece i of the rank's row o. far: past the cache. */
static void reduce_run(ParcRt *rt, const RtGroup *g, const ParcPart *p, int64_t o, int i,
                       int64_t at, int64_t n, bool far)
{
    float sum[RT_SUM_TILE];
    int64_t from = o * rt_whole_row(p, g->n) + rt_piece_begin(p, g->n, g->index, i) + at;
    int64_t to_row = o * p->inner + i * (p->inner / rt_part_pieces(p));
    void *to = rt_element_out(p->type, rt->arena + p->dst, to_row + at);
    if (far && p->type == PARC_F32 && g->n <= MOST_FAR) {
        sum_far(rt, g, p, to, from, n);
        return;
    }
    reduce_tile(rt, g, sum, p, from, n, PARC_SUM);
    put_sums(p, to, sum, n, far);
}

static void reduce_part(ParcRt *rt, const RtGroup *g, const ParcPart *p)
{
    int64_t pieces = rt_part_pieces(p), count = rt_valid_run(p, g->index) / pieces;
    int64_t tiles = (count + RT_SUM_TILE - 1) / RT_SUM_TILE;
    int64_t all = p->outer * pieces * count;
    bool far = all * (int64_t)sizeof(float) >= RT_FAR;
#pragma omp parallel for collapse(2) schedule(static) if (all > GRAIN)
    for (int64_t o = 0; o < p->outer * pieces; o++)
        for (int64_t t = 0; t < tiles; t++) {
            int64_t at = t * RT_SUM_TILE;
            reduce_run(rt, g, p, o / pieces, (int)(o % pieces), at,
                       rt_least(RT_SUM_TILE, count - at), far);
        }
    ParcPart bytes = in_bytes(p);
    clear_padding(rt->arena + p->dst, &bytes, rt_valid_run(&bytes, g->index));
}

void parc_reduce_scatter(ParcRt *rt, int id, uint32_t axes, int n,
                         const ParcPart *part)
{
    enter_collective(rt, id, axes);
    for (int i = 0; i < n; i++)
        if (rt_group_leaves_node(rt, axes))
            rt_nodes_reduce_scatter(rt, id, axes, &part[i]);
        else
            reduce_part(rt, &rt->group[axes], &part[i]);
    leave_collective(rt, axes);
}

static void all_reduce_part(ParcRt *rt, const RtGroup *g, ParcReduce op,
                            const ParcPart *p)
{
    int64_t count = p->outer * p->inner;
    int64_t slice = rt_sum_slice(count, g->n);
    int64_t begin = rt_least(count, slice * g->index);
    int64_t end = rt_least(count, begin + slice);
    bool far = (end - begin) * (int64_t)sizeof(float) >= RT_FAR;
#pragma omp parallel for schedule(static) if (end - begin > GRAIN)
    for (int64_t at = begin; at < end; at += RT_SUM_TILE) {
        float sum[RT_SUM_TILE];
        int64_t m = rt_least(RT_SUM_TILE, end - at);
        reduce_tile(rt, g, sum, p, at, m, op);
        for (int j = 0; j < g->n; j++) {
            char *to = rt_peer(rt, g->member[j]) + p->dst;
            put_sums(p, rt_element_out(p->type, to, at), sum, m, far);
        }
    }
}

void parc_all_reduce(ParcRt *rt, int id, uint32_t axes, ParcReduce op, int n,
                     const ParcPart *part)
{
    const RtGroup *g = &rt->group[axes];
    enter_collective(rt, id, axes);
    for (int i = 0; i < n; i++)
        if (g->n == 1) {
            ParcPart p = in_bytes(&part[i]);
            rt_copy_rows(rt, rt->arena + p.dst, p.inner, rt->arena + p.src,
                      p.inner, p.outer, p.inner);
        } else if (rt_group_leaves_node(rt, axes)) {
            rt_nodes_all_reduce(rt, id, axes, op, &part[i]);
        } else {
            all_reduce_part(rt, g, op, &part[i]);
        }
    leave_collective(rt, axes);
}

/* Copies row (o, m) of peer j's slice for this rank to j's position in the
 * result. `minor` exchanges the layouts of source and result. */
static void swap_part(ParcRt *rt, const RtGroup *g, const ParcPart *part)
{
    int64_t k = g->n, row = in_bytes(part).inner, block = part->middle * row;
    char *dst = rt->arena + part->dst;
    for (int j = 0; j < g->n; j++) {
        if (!rt_is_mapped(rt->world, g->member[j]))
            continue;
        const char *src = rt_peer(rt, g->member[j]) + part->src;
        for (int64_t o = 0; o < part->outer; o++) {
            int64_t whole = o * k * block;
            if (part->minor)
                rt_copy_rows(rt, dst + whole + j * block, row,
                             src + whole + g->index * row, k * row,
                             part->middle, row);
            else
                rt_copy_rows(rt, dst + whole + j * row, k * row,
                             src + whole + g->index * block, row, part->middle,
                             row);
        }
    }
}

void parc_all_to_all(ParcRt *rt, int id, uint32_t axes, int n, const ParcPart *part)
{
    enter_collective(rt, id, axes);
    for (int i = 0; i < n; i++) {
        swap_part(rt, &rt->group[axes], &part[i]);
        if (rt_group_leaves_node(rt, axes))
            rt_nodes_all_to_all(rt, id, axes, &part[i]);
    }
    leave_collective(rt, axes);
}

void parc_shift(ParcRt *rt, int id, uint32_t axes, int n, const ParcPart *part)
{
    const RtGroup *g = &rt->group[axes];
    int from = g->member[(g->index + g->n - 1) % g->n];
    enter_collective(rt, id, axes);
    for (int i = 0; i < n; i++) {
        int64_t bytes = part[i].outer * in_bytes(&part[i]).inner;
        if (rt_is_mapped(rt->world, from))
            rt_copy_rows(rt, rt->arena + part[i].dst, bytes, rt_peer(rt, from) + part[i].src,
                         bytes, 1, bytes);
        if (rt_group_leaves_node(rt, axes))
            rt_nodes_shift(rt, id, axes, &part[i]);
    }
    leave_collective(rt, axes);
}

void parc_local_slice(ParcRt *rt, uint32_t axes, const ParcPart *part)
{
    const RtGroup *g = &rt->group[axes];
    ParcPart p = in_bytes(part);
    int64_t n = rt_valid_run(&p, g->index), piece = n / rt_part_pieces(&p);
    for (int i = 0; i < rt_part_pieces(&p); i++)
        rt_copy_rows(rt, rt->arena + p.dst + i * piece, p.inner,
                     rt->arena + p.src + rt_piece_begin(&p, g->n, g->index, i),
                     rt_whole_row(&p, g->n), p.outer, piece);
    clear_padding(rt->arena + p.dst, &p, n);
}

void parc_mask_to_partial(ParcRt *rt, uint32_t axes, int64_t keeps,
                          const ParcPart *part)
{
    int64_t n = part->outer * in_bytes(part).inner;
    char *dst = rt->arena + part->dst;
    if (rt->group[axes].index == keeps)
        rt_copy_rows(rt, dst, n, rt->arena + part->src, n, 1, n);
    else
        memset(dst, 0, (size_t)n);
}
