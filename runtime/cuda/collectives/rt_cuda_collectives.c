/* rt_cuda_collectives.c: implements collectives between devices with NCCL.
 *
 * All parts of a statement are one group of NCCL calls, on the stream of the
 * schedule, so that NCCL can fuse them to one kernel. A tensor that is split
 * in an inner dim consists of rows. A few rows are one call each; more rows
 * are packed to a buffer in which each rank's part is contiguous
 * (rt_staging.h). Padded runs are transferred with their exact sizes, by a
 * broadcast or a reduce per rank, and nothing is written beyond `valid`.
 *
 * Two differences from the CPU. Sums of bf16 and f16 are rounded at each step
 * of NCCL's ring or tree, in NCCL's order. Without NVLS (deterministic=true)
 * the order is the same in each run; with NVLS it differs between calls. All
 * ranks receive the same result. The maximum of a number and NaN is the number.
 */
#include "common/type.h"
#include "cuda/core/rt_nccl.h"
#include "cuda/core/rt_staging.h"
#include "launch/world.h"
#include "parc_pipeline.h"
#include "rt.h"

/* Devices communicate over their own links, so processes of a launcher need no
 * shared memory. */
bool rt_collectives_share(void)
{
    return false;
}

/* A collective, and the communicator and stream that it uses. */
typedef struct Work {
    ParcRt *rt;
    const RtGroup *group;
    NcclComm comm;
    int id, stream;
    CuStream queue;
} Work;

static NcclElement type_of(ParcType type)
{
    static const int8_t types[] = {
        [PARC_F32] = RT_NCCL_F32, [PARC_BF16] = RT_NCCL_BF16,
        [PARC_F16] = RT_NCCL_F16, [PARC_I32] = RT_NCCL_I32,
        [PARC_I64] = RT_NCCL_I64};
    return types[type];
}

static const char *name_of(const Work *w)
{
    return rt_collective_name(w->rt->model, w->id);
}

static Work begin_work(ParcRt *rt, int id, uint32_t axes)
{
    RtDevice *d = rt->device;
    Work w = {.rt = rt, .group = &rt->group[axes], .id = id,
              .stream = rt_nccl_stream(rt, id)};
    w.queue = d->stream[w.stream];
    w.comm = w.group->n > 1 ? rt_nccl_comm(rt, axes, w.stream) : NULL;
    atomic_store(&rt->world->status[rt->rank].collective, id);
    if (w.comm)
        rt_cuda_progress_begin(rt, w.stream, id);
    return w;
}

/* With PARC_SYNC, waits for the collective and names it on failure. */
static void end_work(const Work *w)
{
    if (w->comm)
        rt_cuda_progress_end(w->rt, w->stream);
    rt_cuda_queued(w->rt, w->stream, name_of(w));
}

static void group_start(const Work *w)
{
    NCCL(w->rt, w->id, ncclGroupStart());
}

static void group_end(const Work *w)
{
    NCCL(w->rt, w->id, ncclGroupEnd());
}

static bool by_rows(const ParcPart *p)
{
    return !p->zigzag && rt_moves_by_rows(p->outer, p->inner * rt_type_size(p->type));
}

/* Moves the parts that are transferred row by row, in one group of calls. */
static void few_rows(const Work *w, int n, const ParcPart *part,
                     void (*move)(const Work *w, const ParcPart *p))
{
    if (!w->comm)
        return;
    group_start(w);
    for (int i = 0; i < n; i++)
        if (by_rows(&part[i]))
            move(w, &part[i]);
    group_end(w);
}

static char *at(const Work *w, int64_t offset)
{
    return parc_arena(w->rt) + offset;
}

/* Whether the gathered rows exclude the padding of the last run. */
static bool is_ragged(const Work *w, const ParcPart *p)
{
    return rt_whole_row(p, w->group->n) != w->group->n * p->inner;
}

/* Copies rows in one call. False if the driver refuses their distances, which
 * it may do for any that cuMemAllocPitch has not chosen; the first step, which
 * is not captured, finds out. */
static bool copy_with_pitch(const Work *w, const CuCopy2D *c)
{
    ParcRt *rt = w->rt;
    RtDevice *d = rt->device;
    CuResult r = d->refuses_pitch ? RT_CU_INVALID_VALUE
                                  : d->cu.cuMemcpy2DAsync(c, w->queue);
    d->refuses_pitch = r == RT_CU_INVALID_VALUE;
    if (!d->refuses_pitch)
        rt_cuda_check(rt, r, "cuMemcpy2DAsync");
    return !d->refuses_pitch;
}

/* Copies `rows` rows of `width` bytes. */
static void copy_rows(const Work *w, const void *to, int64_t to_row,
                      const void *from, int64_t from_row, int64_t rows,
                      int64_t width)
{
    ParcRt *rt = w->rt;
    CuAddress dst = rt_cuda_address(to), src = rt_cuda_address(from);
    if (dst == src || rows == 0 || width == 0)
        return;
    if (rows == 1 || (to_row == width && from_row == width)) {
        CU(rt, cuMemcpyDtoDAsync(dst, src, (size_t)(rows * width), w->queue));
        return;
    }
    CuCopy2D c = {.from = {.type = RT_CU_MEMORY_DEVICE, .at = src,
                           .pitch = (size_t)from_row},
                  .to = {.type = RT_CU_MEMORY_DEVICE, .at = dst,
                         .pitch = (size_t)to_row},
                  .width = (size_t)width, .height = (size_t)rows};
    bool done = copy_with_pitch(w, &c);
    for (int64_t i = 0; !done && i < rows; i++)
        CU(rt, cuMemcpyDtoDAsync(dst + (CuAddress)(i * to_row),
                                 src + (CuAddress)(i * from_row),
                                 (size_t)width, w->queue));
}

static char *staging(const Work *w, int64_t bytes)
{
    const ParcModel *m = w->rt->model;
    const ParcRange *r =
        m->collective_staging ? &m->collective_staging[w->id] : NULL;
    if (!r || r->bytes < bytes)
        rt_fail(w->rt, "'%s' needs %lld bytes to pack its rows, and its plan "
                       "has %lld: run parc again", name_of(w),
                (long long)bytes, (long long)(r ? r->bytes : 0));
    return at(w, r->offset);
}

/* ---- all_gather ---------------------------------------------------------- */

/* The address of row o of this rank's source. */
static char *own_row(const Work *w, const ParcPart *p, int64_t o)
{
    int64_t size = rt_type_size(p->type), k = w->group->n;
    return at(w, p->src) +
           (p->inside ? o * rt_whole_row(p, k) + w->group->index * p->inner
                      : o * p->inner) * size;
}

/* Gathers row by row, within a group of calls. */
static void gather_rows(const Work *w, const ParcPart *p)
{
    int64_t size = rt_type_size(p->type), row = rt_whole_row(p, w->group->n);
    bool ragged = is_ragged(w, p);
    for (int64_t o = 0; o < p->outer; o++) {
        char *to = at(w, p->dst) + o * row * size;
        const char *from = own_row(w, p, o);
        if (!ragged) {
            NCCL(w->rt, w->id,
                 ncclAllGather(from, to, (size_t)(p->inner * size),
                               RT_NCCL_BYTES, w->comm, w->queue));
            continue;
        }
        for (int j = 0; j < w->group->n; j++) {
            size_t bytes = (size_t)(rt_valid_run(p, j) * size);
            if (bytes > 0)
                NCCL(w->rt, w->id,
                     ncclBroadcast(from, to + j * p->inner * size, bytes,
                                   RT_NCCL_BYTES, j, w->comm, w->queue));
        }
    }
}

/* Gathers the whole block of each rank to the packing buffer, then copies the
 * rows to their positions. */
static void gather_packed(const Work *w, const ParcPart *p)
{
    int64_t size = rt_type_size(p->type), k = w->group->n;
    int64_t part_bytes = p->outer * p->inner * size,
            row = rt_whole_row(p, k) * size;
    int64_t run = p->inner * size;
    char *all = staging(w, k * part_bytes),
         *own = all + w->group->index * part_bytes;
    copy_rows(w, own, run, own_row(w, p, 0), p->inside ? row : run, p->outer,
              run);
    NCCL(w->rt, w->id,
         ncclAllGather(own, all, (size_t)part_bytes, RT_NCCL_BYTES, w->comm,
                       w->queue));
    for (int j = 0; j < k; j++)
        for (int i = 0; i < rt_part_pieces(p); i++) {
            int64_t n = rt_valid_run(p, j) / rt_part_pieces(p) * size;
            copy_rows(w, at(w, p->dst) + rt_piece_begin(p, k, j, i) * size, row,
                      all + j * part_bytes + i * n, run, p->outer, n);
        }
}

void parc_all_gather(ParcRt *rt, int id, uint32_t axes, int n,
                     const ParcPart *part)
{
    Work w = begin_work(rt, id, axes);
    few_rows(&w, n, part, gather_rows);
    for (int i = 0; i < n; i++) {
        const ParcPart *p = &part[i];
        int64_t size = rt_type_size(p->type);
        if (!w.comm)
            copy_rows(&w, at(&w, p->dst), rt_whole_row(p, 1) * size,
                      at(&w, p->src), p->inner * size, p->outer,
                      rt_valid_run(p, 0) * size);
        else if (!by_rows(p))
            gather_packed(&w, p);
    }
    end_work(&w);
}

/* ---- reduce_scatter ------------------------------------------------------ */

static void reduce_rows(const Work *w, const ParcPart *p)
{
    int64_t size = rt_type_size(p->type), row = rt_whole_row(p, w->group->n);
    bool ragged = is_ragged(w, p);
    for (int64_t o = 0; o < p->outer; o++) {
        const char *from = at(w, p->src) + o * row * size;
        char *to = at(w, p->dst) + o * p->inner * size;
        if (!ragged) {
            NCCL(w->rt, w->id,
                 ncclReduceScatter(from, to, (size_t)p->inner, type_of(p->type),
                                   RT_NCCL_SUM, w->comm, w->queue));
            continue;
        }
        for (int j = 0; j < w->group->n; j++) {
            int64_t count = rt_valid_run(p, j);
            if (count > 0)
                NCCL(w->rt, w->id,
                     ncclReduce(from + j * p->inner * size, to, (size_t)count,
                                type_of(p->type), RT_NCCL_SUM, j, w->comm,
                                w->queue));
        }
    }
}

/* Copies the part of each rank to the packing buffer and reduces there.
 * Parts of short runs are cleared first, so that the padding of the result
 * is zero. */
static void reduce_packed(const Work *w, const ParcPart *p)
{
    int64_t size = rt_type_size(p->type), k = w->group->n;
    int64_t part_bytes = p->outer * p->inner * size, run = p->inner * size;
    char *all = staging(w, k * part_bytes);
    for (int j = 0; j < k; j++) {
        ParcRt *rt = w->rt;
        if (rt_valid_run(p, j) < p->inner)
            CU(rt, cuMemsetD8Async(rt_cuda_address(all + j * part_bytes), 0,
                                   (size_t)part_bytes, w->queue));
        for (int i = 0; i < rt_part_pieces(p); i++) {
            int64_t n = rt_valid_run(p, j) / rt_part_pieces(p) * size;
            copy_rows(w, all + j * part_bytes + i * n, run,
                      at(w, p->src) + rt_piece_begin(p, k, j, i) * size,
                      rt_whole_row(p, k) * size, p->outer, n);
        }
    }
    NCCL(w->rt, w->id,
         ncclReduceScatter(all, at(w, p->dst), (size_t)(p->outer * p->inner),
                           type_of(p->type), RT_NCCL_SUM, w->comm, w->queue));
}

/* Clears the padding of the rank's run. */
static void clear_padding(const Work *w, const ParcPart *p)
{
    ParcRt *rt = w->rt;
    int64_t size = rt_type_size(p->type), n = rt_valid_run(p, w->group->index);
    for (int64_t o = 0; n < p->inner && o < p->outer; o++) {
        char *to = at(w, p->dst) + (o * p->inner + n) * size;
        CU(rt, cuMemsetD8Async(rt_cuda_address(to), 0,
                               (size_t)((p->inner - n) * size), w->queue));
    }
}

void parc_reduce_scatter(ParcRt *rt, int id, uint32_t axes, int n,
                         const ParcPart *part)
{
    Work w = begin_work(rt, id, axes);
    few_rows(&w, n, part, reduce_rows);
    for (int i = 0; i < n; i++) {
        const ParcPart *p = &part[i];
        int64_t size = rt_type_size(p->type);
        if (!w.comm)
            copy_rows(&w, at(&w, p->dst), p->inner * size, at(&w, p->src),
                      rt_whole_row(p, 1) * size, p->outer,
                      rt_valid_run(p, 0) * size);
        else if (!by_rows(p))
            reduce_packed(&w, p);
        if (!w.comm || by_rows(p))
            clear_padding(&w, p);
    }
    end_work(&w);
}

/* ---- all_reduce ---------------------------------------------------------- */

void parc_all_reduce(ParcRt *rt, int id, uint32_t axes, ParcReduce op, int n,
                     const ParcPart *part)
{
    Work w = begin_work(rt, id, axes);
    NcclReduction how = op == PARC_MAX ? RT_NCCL_MAX : RT_NCCL_SUM;
    if (w.comm)
        group_start(&w);
    for (int i = 0; i < n; i++) {
        const ParcPart *p = &part[i];
        int64_t count = p->outer * p->inner;
        if (w.comm) {
            NCCL(rt, id,
                 ncclAllReduce(at(&w, p->src), at(&w, p->dst), (size_t)count,
                               type_of(p->type), how, w.comm, w.queue));
        } else {
            int64_t bytes = count * rt_type_size(p->type);
            copy_rows(&w, at(&w, p->dst), bytes, at(&w, p->src), bytes, 1,
                      bytes);
        }
    }
    if (w.comm)
        group_end(&w);
    end_work(&w);
}

/* ---- transfers of a pipeline --------------------------------------------- */

void parc_send(ParcRt *rt, int id, uint32_t axes, int64_t to, int64_t offset,
               int64_t bytes)
{
    Work w = begin_work(rt, id, axes);
    rt_cuda_progress_peer(rt, w.stream, w.group->member[to]);
    NCCL(rt, id, ncclSend(at(&w, offset), (size_t)bytes, RT_NCCL_BYTES, (int)to,
                          w.comm, w.queue));
    end_work(&w);
}

void parc_receive(ParcRt *rt, int id, uint32_t axes, int64_t from,
                  int64_t offset, int64_t bytes)
{
    Work w = begin_work(rt, id, axes);
    rt_cuda_progress_peer(rt, w.stream, w.group->member[from]);
    NCCL(rt, id, ncclRecv(at(&w, offset), (size_t)bytes, RT_NCCL_BYTES, (int)from,
                          w.comm, w.queue));
    end_work(&w);
}

/* ---- shifts of a ring ---------------------------------------------------- */

void parc_shift(ParcRt *rt, int id, uint32_t axes, int n, const ParcPart *part)
{
    Work w = begin_work(rt, id, axes);
    const RtGroup *g = w.group;
    int to = (g->index + 1) % g->n, from = (g->index + g->n - 1) % g->n;
    if (w.comm)
        group_start(&w);
    for (int i = 0; i < n; i++) {
        const ParcPart *p = &part[i];
        int64_t bytes = p->outer * p->inner * rt_type_size(p->type);
        if (!w.comm) {
            copy_rows(&w, at(&w, p->dst), bytes, at(&w, p->src), bytes, 1, bytes);
            continue;
        }
        NCCL(rt, id, ncclSend(at(&w, p->src), (size_t)bytes, RT_NCCL_BYTES, to, w.comm, w.queue));
        NCCL(rt, id, ncclRecv(at(&w, p->dst), (size_t)bytes, RT_NCCL_BYTES, from, w.comm, w.queue));
    }
    if (w.comm)
        group_end(&w);
    end_work(&w);
}

/* ---- all_to_all ---------------------------------------------------------- */

/* One side of an exchange: for each peer j, `rows` runs of `width` bytes,
 * which are k * width apart. All runs of a peer are one message. */
typedef struct Side {
    int64_t rows, width;
    char *base, *packed; /* packed: buffer if there is more than one row */
} Side;

/* The sides of a part; both have `all` bytes. */
typedef struct Swap {
    Side from, to;
    int64_t all;
} Swap;

static Side side_of(const Work *w, const ParcPart *p, int64_t offset,
                    bool inner_rows)
{
    int64_t size = rt_type_size(p->type);
    Side s = {.rows = p->outer, .width = p->middle * p->inner * size,
              .base = at(w, offset)};
    if (inner_rows) {
        s.rows = p->outer * p->middle;
        s.width = p->inner * size;
    }
    return s;
}

/* `used`: the bytes of the staging buffer that the parts before use. */
static Swap swap_of(const Work *w, const ParcPart *p, int64_t *used)
{
    int64_t k = w->group->n;
    Swap s = {.from = side_of(w, p, p->src, p->minor),
              .to = side_of(w, p, p->dst, !p->minor)};
    int64_t give = rt_staging_side(k, s.from.rows, s.from.width);
    int64_t take = rt_staging_side(k, s.to.rows, s.to.width);
    s.all = k * s.from.rows * s.from.width;
    if (give + take > 0) {
        char *space = staging(w, *used + give + take) + *used;
        s.from.packed = give > 0 ? space : NULL;
        s.to.packed = take > 0 ? space + give : NULL;
        *used += give + take;
    }
    return s;
}

static char *message(const Side *s, int64_t j)
{
    return s->packed ? s->packed + j * s->rows * s->width
                     : s->base + j * s->width;
}

static void pack(const Work *w, const Swap *s)
{
    const Side *from = &s->from;
    for (int64_t j = 0; from->packed && j < w->group->n; j++)
        copy_rows(w, message(from, j), from->width, from->base + j * from->width,
                  w->group->n * from->width, from->rows, from->width);
}

static void swap_messages(const Work *w, const Swap *s)
{
    size_t bytes = (size_t)(s->from.rows * s->from.width);
    for (int j = 0; j < w->group->n; j++) {
        NCCL(w->rt, w->id, ncclSend(message(&s->from, j), bytes, RT_NCCL_BYTES, j,
                                    w->comm, w->queue));
        NCCL(w->rt, w->id, ncclRecv(message(&s->to, j), bytes, RT_NCCL_BYTES, j,
                                    w->comm, w->queue));
    }
}

static void unpack(const Work *w, const Swap *s)
{
    const Side *to = &s->to;
    for (int64_t j = 0; to->packed && j < w->group->n; j++)
        copy_rows(w, to->base + j * to->width, w->group->n * to->width, message(to, j),
                  to->width, to->rows, to->width);
}

static void copy_own(const Work *w, const Swap *s)
{
    copy_rows(w, s->to.base, s->all, s->from.base, s->all, 1, s->all);
}

static void each_swap(const Work *w, int n, const ParcPart *part,
                      void (*act)(const Work *w, const Swap *s))
{
    int64_t used = 0;
    for (int i = 0; i < n; i++) {
        Swap s = swap_of(w, &part[i], &used);
        act(w, &s);
    }
}

/* The messages of all parts are one group; NCCL keeps the order of those of two ranks. */
void parc_all_to_all(ParcRt *rt, int id, uint32_t axes, int n, const ParcPart *part)
{
    Work w = begin_work(rt, id, axes);
    if (w.comm) {
        each_swap(&w, n, part, pack);
        group_start(&w);
        each_swap(&w, n, part, swap_messages);
        group_end(&w);
        each_swap(&w, n, part, unpack);
    } else {
        each_swap(&w, n, part, copy_own);
    }
    end_work(&w);
}
