/* shard.c: computes which elements of a parameter a rank stores.
 *
 * A layout splits a parameter in two steps, as in the plan. Tensor parallelism
 * splits dims: a rank has the block [begin, begin+part) of each layer, where
 * the last blocks may end with padding. Storage sharding flattens that block
 * and cuts it into equal runs, the last one padded. Initialization, files and
 * printing use rt_shard_run, which iterates over the stored elements in runs
 * that are also contiguous in the global tensor. Under a pipeline a rank has some
 * layers only, or none.
 */
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "common/type.h"
#include "launch/job.h"
#include "launch/world.h"
#include "params/params.h"
#include "rt.h"

bool rt_param_is_weight(const ParcParam *param)
{
    return !param->state && param->offset >= 0;
}

int64_t rt_param_layers(const ParcParam *param)
{
    return rt_elements(param->stack, param->nstack);
}

int64_t rt_param_layer_elements(const ParcParam *param)
{
    return rt_elements(param->dim, param->ndim);
}

/* The rank's index among the parts of several axes, in the given order. */
typedef struct Cut {
    int64_t parts, index;
} Cut;

static void cut_by(Cut *c, const ParcModel *model, int rank, int axis)
{
    c->parts *= model->axis[axis].size;
    c->index = c->index * model->axis[axis].size + rt_coord(model, rank, axis);
}

/* The layers of each element of the first stack dim. */
static int64_t inner_layers(const ParcParam *p)
{
    return p->nstack ? rt_elements(p->stack + 1, p->nstack - 1) : 1;
}

static void count_layers(RtShard *s, const ParcModel *model, int rank)
{
    const ParcParam *p = s->param;
    s->stored = rt_param_layers(p);
    s->coordinates = 1;
    for (int a = 0; a < model->naxes; a++)
        if (p->pipeline >> a & 1) {
            s->coordinate = rt_coord(model, rank, a);
            s->coordinates = (int)model->axis[a].size;
        }
    if (!p->pipeline)
        return;
    if (p->nstages == 0 && p->at == s->coordinate)
        return;
    s->stored = 0;
    for (int stage = s->coordinate; stage < p->nstages; stage += s->coordinates)
        s->stored += (p->cut[stage + 1] - p->cut[stage]) * inner_layers(p);
}

int64_t rt_shard_index(const RtShard *s, int64_t layer)
{
    const ParcParam *p = s->param;
    int64_t inner = inner_layers(p), element = layer / inner, before = 0;
    if (p->nstages == 0)
        return s->stored > 0 ? layer : -1;
    for (int stage = s->coordinate; stage < p->nstages;
         stage += s->coordinates) {
        if (element >= p->cut[stage] && element < p->cut[stage + 1])
            return (before + element - p->cut[stage]) * inner + layer % inner;
        before += p->cut[stage + 1] - p->cut[stage];
    }
    return -1;
}

int64_t rt_shard_next(const RtShard *s, int64_t layer)
{
    int64_t layers = rt_param_layers(s->param);
    do
        layer++;
    while (layer < layers && rt_shard_index(s, layer) < 0);
    return layer < layers ? layer : -1;
}

/* The index in dim d of element i of the rank's part. */
static int64_t split_index(const RtShard *s, const ParcModel *model, int rank, int d,
                           int64_t i)
{
    const int8_t *axis = s->param->split[d];
    int n = 0;
    while (n < PARC_MAX_AXES && axis[n] >= 0)
        n++;
    for (int64_t part = s->part[d]; n-- > 0; part *= model->axis[axis[n]].size) {
        int64_t k = model->axis[axis[n]].size, at = rt_coord(model, rank, axis[n]);
        i = model->zigzag >> axis[n] & 1 ? rt_zigzag(k, at, part, i) : at * part + i;
    }
    return i;
}

static void find_pieces(RtShard *s, const ParcModel *model, int rank, int d)
{
    const int8_t *axis = s->param->split[d];
    for (int i = 0; i < PARC_MAX_AXES && axis[i] >= 0; i++)
        if (model->zigzag >> axis[i] & 1) {
            s->half[d] = s->part[d] / 2;
            s->begin[d] = split_index(s, model, rank, d, 0);
            s->second[d] = split_index(s, model, rank, d, s->half[d]);
            s->held[d] = s->part[d]; /* nothing is padded */
        }
}

int64_t rt_shard_local(const RtShard *s, int d, int64_t index)
{
    int64_t n = s->half[d] ? s->half[d] : s->part[d];
    if (index >= s->begin[d] && index < s->begin[d] + n)
        return index - s->begin[d];
    bool other = s->half[d] && index >= s->second[d] && index < s->second[d] + n;
    return other ? n + index - s->second[d] : -1;
}

void rt_shard(RtShard *s, const ParcModel *model, int rank,
              const ParcParam *param)
{
    uint32_t used = param->flat_axes | param->pipeline;
    Cut flat = {1, 0};
    memset(s, 0, sizeof *s);
    s->param = param;
    s->global = rt_param_layer_elements(param);
    s->block = 1;
    count_layers(s, model, rank);
    for (int d = 0; d < param->ndim; d++) {
        Cut c = {1, 0};
        for (int i = 0; i < PARC_MAX_AXES && param->split[d][i] >= 0; i++) {
            cut_by(&c, model, rank, param->split[d][i]);
            used |= 1u << param->split[d][i];
        }
        s->part[d] = (param->dim[d] + param->pad[d]) / c.parts;
        s->begin[d] = s->part[d] * c.index;
        find_pieces(s, model, rank, d);
        int64_t left = param->dim[d] - s->begin[d];
        if (!s->half[d])
            s->held[d] = left < 0 ? 0 : left < s->part[d] ? left : s->part[d];
        s->block *= s->part[d];
    }
    for (int a = 0; a < model->naxes; a++)
        if (param->flat_axes >> a & 1)
            cut_by(&flat, model, rank, a);
    s->run = (s->block + flat.parts - 1) / flat.parts;
    s->first = s->run * flat.index;
    s->row = param->inside ? s->run * flat.parts : s->run;
    s->inside = param->inside ? s->first : 0;
    s->owner = s->stored > 0;
    for (int a = 0; a < model->naxes; a++)
        s->owner &= (used >> a & 1) || rt_coord(model, rank, a) == 0;
}

float *rt_shard_layer(const ParcRt *rt, int rank, const RtShard *s, int64_t layer)
{
    void *arena = rt_peer(rt, rank) + s->param->offset;
    return (float *)arena + rt_shard_index(s, layer) * s->row + s->inside;
}

void *rt_buffer_grow(RtBuffer *buffer, int64_t bytes)
{
    if ((size_t)bytes > buffer->bytes) {
        free(buffer->at);
        buffer->at = rt_allocate((size_t)bytes);
        buffer->bytes = (size_t)bytes;
    }
    return buffer->at;
}

const void *rt_arena_read(ParcRt *rt, int rank, int64_t offset, int64_t bytes,
                          RtBuffer *buffer)
{
    const RtWorld *w = rt->world;
    if (rt_is_mapped(w, rank))
        return rt_world_arena(w, rank) + offset;
    rt_job_read(w->store, rank, RT_OF_ARENA, offset, bytes,
                rt_buffer_grow(buffer, bytes));
    return buffer->at;
}

const void *rt_shard_read(ParcRt *rt, int rank, const RtShard *s, int64_t layer,
                          RtBuffer *buffer)
{
    int64_t width = rt_type_size(s->param->type);
    int64_t at = rt_shard_index(s, layer) * s->row + s->inside;
    int64_t from = s->param->offset + at * width;
    return rt_arena_read(rt, rank, from, s->run * width, buffer);
}

/* The index in the global layer of element `at` of the local block. -1 for
 * padding; *next is then the first element after it. */
static int64_t global_of(const RtShard *s, int64_t at, int64_t *next)
{
    const ParcParam *p = s->param;
    int64_t global = 0, block = 1, stride = 1;
    bool padding = false;
    for (int d = p->ndim - 1; d >= 0; d--) {
        int64_t index = at / block % s->part[d];
        block *= s->part[d];
        if (index >= s->held[d]) {
            padding = true;
            *next = (at / block + 1) * block;
        }
        bool other = s->half[d] && index >= s->half[d];
        global += (other ? s->second[d] + index - s->half[d] : s->begin[d] + index) * stride;
        stride *= p->dim[d];
    }
    return padding ? -1 : global;
}

int64_t rt_shard_run(const RtShard *s, int64_t *i, int64_t *global)
{
    const ParcParam *p = s->param;
    int64_t at = s->first + *i;
    while (at < s->block && (*global = global_of(s, at, &at)) < 0) {
    }
    *i = at - s->first;
    if (*i >= s->run || at >= s->block)
        return 0;
    /* Inner dims that are not split form one contiguous run with the next
     * outer dim. */
    int64_t inner = 1;
    int d = p->ndim - 1;
    for (; d > 0 && s->part[d] == p->dim[d]; d--)
        inner *= s->part[d];
    int64_t held = d < 0 ? 1 : s->half[d] ? s->half[d] : s->held[d];
    int64_t part = d < 0 ? 1 : s->half[d] ? s->half[d] : s->part[d];
    int64_t n = inner * held - at % (inner * part);
    return n < s->run - *i ? n : s->run - *i;
}

void rt_param_assemble(ParcRt *rt, const ParcParam *p, int64_t layer, void *to,
                       RtBuffer *buffer)
{
    int64_t width = rt_type_size(p->type);
    for (int r = 0; r < rt->nranks; r++) {
        RtShard s;
        rt_shard(&s, rt->model, r, p);
        if (!s.owner || rt_shard_index(&s, layer) < 0)
            continue;
        const char *from = rt_shard_read(rt, r, &s, layer, buffer);
        int64_t global, n;
        for (int64_t at = 0; (n = rt_shard_run(&s, &at, &global)) > 0; at += n)
            if (rt_is_integer(p->type))
                memcpy((char *)to + global * width, from + at * width,
                       (size_t)(n * width));
            else
                rt_widen((float *)to + global, p->type, from + at * width, n);
    }
}

ParcParam rt_output_param(const ParcOutput *o)
{
    ParcParam p = {.ndim = o->ndim, .offset = o->offset, .type = o->type,
                   .pipeline = o->pipeline, .at = o->at};
    memcpy(p.dim, o->dim, sizeof p.dim);
    memcpy(p.pad, o->pad, sizeof p.pad);
    memcpy(p.split, o->split, sizeof p.split);
    return p;
}

int64_t rt_shard_elements(const RtShard *s)
{
    int64_t all = 0, global, n;
    for (int64_t at = 0; (n = rt_shard_run(s, &at, &global)) > 0; at += n)
        all += n;
    return all;
}

static bool check_split(const ParcModel *model, const ParcParam *param,
                        uint32_t *used)
{
    for (int d = 0; d < param->ndim; d++) {
        int64_t parts = 1;
        for (int i = 0; i < PARC_MAX_AXES && param->split[d][i] >= 0; i++) {
            int a = param->split[d][i];
            if (a >= model->naxes || *used >> a & 1)
                return false;
            *used |= 1u << a;
            parts *= model->axis[a].size;
        }
        if (param->dim[d] <= 0 || param->pad[d] < 0 ||
            (param->dim[d] + param->pad[d]) % parts != 0)
            return false;
    }
    return true;
}

static bool check_stages(const ParcParam *p)
{
    for (int s = 0; s < p->nstages; s++)
        if (p->cut[s] < 0 || p->cut[s] > p->cut[s + 1])
            return false;
    return p->nstages == 0 ||
           (p->nstack > 0 && p->cut[p->nstages] == p->stack[0]);
}

/* Whether the rank that stores the most needs as much as planned, in the
 * arena. */
static bool check_size(const ParcModel *model, const ParcParam *p)
{
    int64_t most = 0, end = p->offset;
    for (int rank = 0; rank < rt_nranks(model); rank++) {
        RtShard s;
        rt_shard(&s, model, rank, p);
        int64_t n = p->offset + s.stored * s.row * rt_type_size(p->type);
        most = s.stored * s.run > most ? s.stored * s.run : most;
        end = n > end ? n : end;
        if (!p->pipeline)
            break; /* all store as much */
    }
    return most == p->local_elements && end <= rt_arena_end(model);
}

bool rt_params_check(const ParcModel *model)
{
    for (int i = 0; i < model->nparams; i++) {
        const ParcParam *p = &model->param[i];
        if (p->offset < 0)
            continue;
        uint32_t used = p->flat_axes | p->pipeline;
        bool good = used >> model->naxes == 0 &&
                    !(p->flat_axes & p->pipeline) &&
                    check_split(model, p, &used) && check_stages(p) &&
                    check_size(model, p);
        if (!good)
            return rt_error("internal: the layout of '%s' does not fit the "
                            "mesh or the arena: run parc again", p->name);
    }
    return true;
}
