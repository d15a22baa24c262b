/* pieces.c: cuts what a rank stores of a tensor into rectangular blocks, and
 * copies them.
 *
 * A checkpoint is read on other meshes and by other programs, which know
 * nothing of flat shards. Each piece of a checkpoint is therefore a block of
 * the global tensor: an offset and an extent in each dim. A flat run begins and
 * ends anywhere in a block of rows; it is cut into partial rows at both ends
 * and whole rows between them, in each dim.
 *
 * requires  the layouts of the model are valid (rt_params_check)
 * ensures   the blocks of all ranks contain each element of a tensor once
 *
 * example   elements 3 … 13 of a tensor [4, 4] are
 *               offset [0, 3] extent [1, 1]
 *               offset [1, 0] extent [2, 4]
 *               offset [3, 0] extent [1, 2]
 */
#include "checkpoint/pieces.h"
#include "launch/world.h"
#include "params/params.h"

#include <string.h>

/* Elements of a row of dim d of the local block. */
static int64_t inner_of(const RtShard *s, int d)
{
    return rt_elements(s->part + d + 1, s->param->ndim - d - 1);
}

/* The longest block that begins at element `local` of the local block and ends
 * before `end`, padding included; returns its number of elements. */
static int64_t longest(const RtShard *s, int64_t local, int64_t end,
                       int64_t index[PARC_MAX_DIMS],
                       int64_t extent[PARC_MAX_DIMS])
{
    int ndim = s->param->ndim, dim = 0;
    while (dim < ndim - 1 && (local % inner_of(s, dim) != 0 ||
                              local + inner_of(s, dim) > end))
        dim++;
    for (int d = 0; d < ndim; d++) {
        index[d] = local / inner_of(s, d) % s->part[d];
        extent[d] = d < dim ? 1 : s->part[d];
    }
    if (ndim == 0)
        return 1;
    int64_t inner = inner_of(s, dim), rows = (end - local) / inner;
    int64_t left = s->part[dim] - index[dim];
    extent[dim] = rows < left ? rows : left;
    return extent[dim] * inner;
}

bool rt_block_next(const RtShard *s, int64_t *at, int64_t end, RtBlock *block)
{
    int64_t last = s->first + end < s->block ? s->first + end : s->block;
    while (s->first + *at < last) {
        int64_t index[PARC_MAX_DIMS];
        bool empty = false;
        block->at = *at;
        *at += longest(s, s->first + *at, last, index, block->extent);
        for (int d = 0; d < s->param->ndim; d++) {
            int64_t held = s->held[d] - index[d];
            block->begin[d] = s->begin[d] + index[d];
            block->extent[d] = held < block->extent[d] ? held
                                                       : block->extent[d];
            empty |= block->extent[d] <= 0;
        }
        if (!empty)
            return true;
    }
    return false;
}

int64_t rt_block_elements(const RtShard *s, const RtBlock *block)
{
    return rt_elements(block->extent, s->param->ndim);
}

RtRange rt_write_range(const ParcModel *model, int rank, const RtShard *s,
                       int64_t number)
{
    enum { LEAST = 1 << 14 };
    const ParcParam *p = s->param;
    uint32_t used = p->flat_axes | p->pipeline;
    for (int d = 0; d < p->ndim; d++)
        for (int i = 0; i < PARC_MAX_AXES && p->split[d][i] >= 0; i++)
            used |= 1u << p->split[d][i];
    uint32_t others = ((1u << model->naxes) - 1) & ~used;
    int64_t ranks = rt_group_size(model, others);
    int64_t index = rt_index(model, rank, others), parts = s->run / LEAST;
    parts = parts < 1 ? 1 : parts < ranks ? parts : ranks;
    int64_t part = (index + number) % ranks;
    if (part >= parts)
        return (RtRange){0, 0};
    return (RtRange){s->run * part / parts, s->run * (part + 1) / parts};
}

bool rt_block_common(const RtShard *s, const RtBlock *block,
                     const int64_t *begin, const int64_t *extent,
                     RtStridedCopy *copy, int64_t *to, int64_t *from)
{
    int ndim = s->param->ndim;
    int64_t stride[PARC_MAX_DIMS], dim[PARC_MAX_DIMS], row = 1;
    *to = block->at;
    *from = 0;
    *copy = (RtStridedCopy){0};
    for (int d = ndim - 1; d >= 0; d--) {
        int64_t low = block->begin[d] > begin[d] ? block->begin[d] : begin[d];
        int64_t end = block->begin[d] + block->extent[d];
        end = end < begin[d] + extent[d] ? end : begin[d] + extent[d];
        dim[d] = end - low;
        if (dim[d] <= 0)
            return false;
        stride[d] = row;
        *from += (low - begin[d]) * row;
        *to += (low - block->begin[d]) * inner_of(s, d);
        row *= extent[d];
    }
    for (int d = 0; d < ndim; d++)
        rt_strided_copy_add(copy, dim[d], inner_of(s, d), stride[d]);
    return true;
}

static void copy_dim(const RtStridedCopy *c, int d, float *to,
                     const float *from)
{
    if (d == c->n) {
        *to = *from;
        return;
    }
    if (d == c->n - 1 && c->dst[d] == 1 && c->src[d] == 1) {
        memcpy(to, from, (size_t)c->dim[d] * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < c->dim[d]; i++)
        copy_dim(c, d + 1, to + i * c->dst[d], from + i * c->src[d]);
}

void rt_block_copy(const RtStridedCopy *c, float *to, const float *from)
{
    copy_dim(c, 0, to, from);
}

static void put_dim(const RtStridedCopy *c, int d, const float *from,
                    RtPut *put, void *context)
{
    if (d == c->n) {
        put(context, from, 1);
        return;
    }
    if (d == c->n - 1 && c->dst[d] == 1) {
        put(context, from, c->dim[d]);
        return;
    }
    for (int64_t i = 0; i < c->dim[d]; i++)
        put_dim(c, d + 1, from + i * c->dst[d], put, context);
}

void rt_block_runs(const RtShard *s, const RtBlock *block, const float *layer,
                   RtPut *put, void *context)
{
    RtStridedCopy copy;
    int64_t to, from;
    if (rt_block_common(s, block, block->begin, block->extent, &copy, &to,
                        &from))
        put_dim(&copy, 0, layer + to, put, context);
}
