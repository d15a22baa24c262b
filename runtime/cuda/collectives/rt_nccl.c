/* rt_nccl.c: creates one communicator for each set of axes and stream, and registers
 * the arena as a window of each.
 *
 * Rank 0 creates an id, all ranks join a communicator of the whole mesh and
 * split it for each set of axes and stream, in the order of the model's collectives. A
 * split is a collective, so all ranks need the same order. The first set that covers the
 * whole mesh uses the first communicator. NCCL runs the collectives of a communicator in
 * the order of issue: with one for two streams, exchanges of tokens would wait for gathers
 * of units over the same axes.
 *
 * Two streams cannot deadlock. Every rank issues the same collectives in the
 * same order, that of train.c's statements, and a graph replays it. But two
 * communicators may be in flight on two streams, and devices may start them in
 * different orders. A collective's kernel has at most a quarter as many blocks
 * as the device has multiprocessors (config_of), and no other kernel waits for
 * a peer. Hence the kernels of two streams always fit on a device together.
 * The limit serves no other purpose: on a GPU with 132 multiprocessors it is
 * NCCL's own default, 32 blocks. NCCL_MAX_CTAS leaves more multiprocessors to
 * the matmuls that run at the same time.
 *
 * NCCL allocates device memory (buffers of channels and protocols) when it
 * first needs it. Communicators are therefore created, and used once, before
 * the arena is allocated: a lack of memory is then detected at the start.
 *
 * NCCL copies through its own buffers unless it knows the memory of a message
 * on all ranks. Offsets in the arena are equal on all ranks, as a symmetric
 * window requires. NCCL's kernels then access the arenas of peers directly,
 * and switches can compute sums (NVLS). This requires memory from
 * ncclMemAlloc. If the library lacks these calls, or a window cannot be
 * created, collectives use NCCL's buffers. All ranks do what rank 0 can do.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "cuda/core/rt_collective_blocks.h"
#include "cuda/core/rt_nccl.h"
#include "launch/world.h"
#include "rt.h"

/* ---- open ---------------------------------------------------------------- */

/* Switches that add (NVLS) do so in an order that differs between calls. NCCL
 * reads this variable once, at the first call. */
static void forbid_switch_sums(void)
{
    setenv("NCCL_NVLS_ENABLE", "0", 1);
}

static void open_library(ParcRt *rt)
{
    CudaComms *c = rt->device->comms;
    int version = 0;
    if (rt->model->deterministic)
        forbid_switch_sums();
    rt_cuda_require(rt, &rt_cuda_nccl_library, &c->call);
    NCCL(rt, RT_AT_START, ncclGetVersion(&version));
    c->version = version;
    if (version < RT_NCCL_LEAST_VERSION)
        rt_fail(rt, "NCCL is of version %d.%d.%d, and this program needs "
                    "%d.%d.%d or newer: install a newer NCCL",
                version / 10000, version / 100 % 100, version % 100,
                RT_NCCL_LEAST_VERSION / 10000,
                RT_NCCL_LEAST_VERSION / 100 % 100,
                RT_NCCL_LEAST_VERSION % 100);
    if (rt->rank == 0 && rt->model->copy_engines && version < RT_NCCL_COPYING_VERSION)
        rt_say("note: copy_engines has no effect: NCCL is of version %d.%d.%d, and %d.%d or newer "
               "gathers by copy engines",
               version / 10000, version / 100 % 100, version % 100,
               RT_NCCL_COPYING_VERSION / 10000, RT_NCCL_COPYING_VERSION / 100 % 100);
}

/* Limits the blocks of a collective, so that those of two streams fit on the
 * device. Copy engines gather if the model says so: NCCL does it only inside a node, and only
 * for windows. A library reads the fields of the version. */
static NcclConfig config_of(const ParcRt *rt, uint32_t axes)
{
    enum { UNDEFINED = INT_MIN };
    bool copies = !(axes & ~rt->model->copy_engines) &&
                  rt->device->comms->version >= RT_NCCL_COPYING_VERSION;
    return (NcclConfig){
        .size = copies ? sizeof(NcclConfig) : offsetof(NcclConfig, traffic),
        .magic = (unsigned)RT_NCCL_CONFIG_MAGIC,
        .version = copies ? RT_NCCL_COPYING_VERSION : RT_NCCL_LEAST_VERSION,
        .blocking = UNDEFINED,
        .cluster = UNDEFINED,
        .least_blocks = UNDEFINED,
        .most_blocks = rt_collective_blocks(rt->device->sms),
        .shares = UNDEFINED,
        .traffic = UNDEFINED,
        .switches = UNDEFINED,
        .policy = copies ? RT_NCCL_POLICY_ZERO : UNDEFINED};
}

/* Creates the communicator of all ranks. */
static void join_world(ParcRt *rt)
{
    CudaComms *c = rt->device->comms;
    NcclId id;
    memset(&id, 0, sizeof id);
    if (rt->rank == 0)
        NCCL(rt, RT_AT_START, ncclGetUniqueId(&id));
    rt_share(rt, RT_AT_START, &id, sizeof id);
    NcclConfig config = config_of(rt, (1u << rt->model->naxes) - 1);
    NCCL(rt, RT_AT_START, ncclCommInitRankConfig(&c->world, rt->nranks, id,
                                                 rt->rank, &config));
}

/* Whether the group has all ranks, in the order of their numbers. */
static bool is_world(const ParcRt *rt, const RtGroup *g)
{
    for (int i = 0; i < g->n; i++)
        if (g->member[i] != i)
            return false;
    return g->n == rt->nranks;
}

/* The first rank of a group is the group's color. */
static NcclComm split_comm(ParcRt *rt, uint32_t axes, bool world_is_used)
{
    CudaComms *c = rt->device->comms;
    const RtGroup *g = &rt->group[axes];
    NcclComm comm = NULL;
    if (is_world(rt, g) && !world_is_used)
        return c->world;
    NcclConfig config = config_of(rt, axes);
    NCCL(rt, RT_AT_START,
         ncclCommSplit(c->world, g->member[0], g->index, &comm, &config));
    return comm;
}

NcclComm rt_nccl_comm(const ParcRt *rt, uint32_t axes, int stream)
{
    const CudaComms *c = rt->device->comms;
    for (int i = 0; c && i < c->n; i++)
        if (c->at[i].axes == axes && c->at[i].stream == stream)
            return c->at[i].comm;
    return NULL;
}

/* Adds the communicator of a collective, if no earlier one has added it. */
static void add_comm(ParcRt *rt, uint32_t axes, int stream)
{
    CudaComms *c = rt->device->comms;
    bool world_is_used = false;
    if (rt_nccl_comm(rt, axes, stream))
        return;
    for (int i = 0; i < c->n; i++)
        world_is_used |= c->at[i].comm == c->world;
    NcclComm comm = split_comm(rt, axes, world_is_used);
    c->at[c->n++] = (CudaComm){.axes = axes, .stream = stream, .comm = comm};
}

/* Runs collectives in place over `n` elements per rank; all ranks of the
 * communicator call it. */
static void use_once(ParcRt *rt, const CudaComm *c, float *buffer, size_t n)
{
    CuStream queue = rt->device->stream[c->stream];
    const RtGroup *g = &rt->group[c->axes];
    float *own = buffer + (size_t)g->index * n;
    NCCL(rt, RT_AT_START,
         ncclAllReduce(buffer, buffer, n * (size_t)g->n, RT_NCCL_F32,
                       RT_NCCL_SUM, c->comm, queue));
    NCCL(rt, RT_AT_START,
         ncclReduceScatter(buffer, own, n, RT_NCCL_F32, RT_NCCL_SUM, c->comm,
                           queue));
    NCCL(rt, RT_AT_START,
         ncclAllGather(own, buffer, n, RT_NCCL_F32, c->comm, queue));
}

/* Runs an all-to-all over `n` elements per pair of ranks. NCCL connects peers
 * for messages at the first of them. */
static void exchange_once(ParcRt *rt, const CudaComm *c, float *buffer, size_t n)
{
    CuStream queue = rt->device->stream[c->stream];
    const RtGroup *g = &rt->group[c->axes];
    float *to = buffer + n * (size_t)g->n;
    NCCL(rt, RT_AT_START, ncclGroupStart());
    for (int j = 0; j < g->n; j++) {
        NCCL(rt, RT_AT_START, ncclSend(buffer + n * (size_t)j, n, RT_NCCL_F32,
                                       j, c->comm, queue));
        NCCL(rt, RT_AT_START, ncclRecv(to + n * (size_t)j, n, RT_NCCL_F32, j,
                                       c->comm, queue));
    }
    NCCL(rt, RT_AT_START, ncclGroupEnd());
}

/* Whether an all-to-all of the model, "aa7 …", or transfers of its pipeline use the
 * communicator. */
static bool exchanges(const ParcRt *rt, const CudaComm *comm)
{
    const ParcModel *m = rt->model;
    for (int i = 0; i < m->ncollectives; i++)
        if (m->collective_axes[i] == comm->axes && rt_nccl_stream(rt, i) == comm->stream &&
            (comm->axes == m->pipeline || strncmp(m->collective[i], "aa", 2) == 0))
            return true;
    return false;
}

/* Bytes of the warm-up's long messages: the model's longest message, as far as
 * rank 0's memory allows, so that NCCL allocates the buffers of its algorithms
 * for that size. Free memory differs between ranks, and a collective needs the
 * same size on all of them. */
static size_t message_bytes(ParcRt *rt)
{
    const ParcModel *m = rt->model;
    const size_t least = (size_t)1 << 20, most = (size_t)256 << 20;
    size_t bytes = least, available = 0, total = 0;
    CU(rt, cuMemGetInfo(&available, &total));
    for (int i = 0; i < m->nwork; i++) {
        bool is_collective = strcmp(m->work[i].kind, "collective") == 0;
        size_t its = is_collective ? (size_t)m->work[i].bytes : 0;
        bytes = its > bytes ? its : bytes;
    }
    bytes = bytes < most ? bytes : most;
    bytes = bytes < available / 4 ? bytes : available / 4;
    bytes = bytes > least ? bytes : least;
    rt_share(rt, RT_AT_START, &bytes, sizeof bytes);
    return bytes;
}

static void warm_up(ParcRt *rt)
{
    const CudaComms *c = rt->device->comms;
    CuStream queue = rt->device->stream[PARC_COMPUTE];
    size_t ranks = (size_t)rt->nranks;
    size_t all = message_bytes(rt) / sizeof(float) / ranks * ranks;
    CuAddress at = 0;
    all = all ? all : ranks;
    CU(rt, cuMemAlloc(&at, all * sizeof(float)));
    CU(rt, cuMemsetD8Async(at, 0, all * sizeof(float), queue));
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "the memory of the first collectives");
    for (int i = 0; i < c->n; i++) {
        size_t ranks_here = (size_t)rt->group[c->at[i].axes].n;
        float *buffer = (float *)(uintptr_t)at;
        use_once(rt, &c->at[i], buffer, 1);
        use_once(rt, &c->at[i], buffer, all / ranks_here);
        if (exchanges(rt, &c->at[i]))
            exchange_once(rt, &c->at[i], buffer, all / ranks_here / 2);
        rt_cuda_wait_stream(rt, c->at[i].stream, "the first collectives");
    }
    CU(rt, cuMemFree(at));
}

/* Whether the memset of a graph writes pinned memory, which the progress of
 * collectives needs (rt_cuda_progress.c). */
static bool graph_sets_host(ParcRt *rt)
{
    enum { WRITTEN = 0x50415243 };
    const CudaDriver *cu = &rt->device->cu;
    CuStream stream = rt->device->stream[PARC_COMPUTE];
    CuGraph graph = NULL;
    CuGraphExec exec = NULL;
    void *word = NULL;
    bool sets = false;
    CU(rt, cuMemHostAlloc(&word, sizeof(uint32_t), RT_CU_HOST_PORTABLE));
    atomic_init((_Atomic uint32_t *)word, 0);
    CU(rt, cuStreamBeginCapture(stream, RT_CU_CAPTURE_RELAXED));
    CuResult r =
        cu->cuMemsetD32Async(rt_cuda_address(word), WRITTEN, 1, stream);
    CuResult end = cu->cuStreamEndCapture(stream, &graph);
    r = r ? r : end;
    r = r ? r : cu->cuGraphInstantiate(&exec, graph, RT_CU_GRAPH_NODE_PRIORITY);
    if (graph)
        CU(rt, cuGraphDestroy(graph));
    if (r == RT_CU_SUCCESS) {
        CU(rt, cuGraphLaunch(exec, stream));
        rt_cuda_wait_stream(rt, PARC_COMPUTE, "a memset of pinned memory");
        CU(rt, cuGraphExecDestroy(exec));
        sets = atomic_load((_Atomic uint32_t *)word) == WRITTEN;
    }
    CU(rt, cuMemFreeHost(word));
    return sets;
}

void rt_nccl_open(ParcRt *rt)
{
    const ParcModel *m = rt->model;
    bool any = false;
    for (int i = 0; i < m->ncollectives; i++)
        any |= rt->group[m->collective_axes[i]].n > 1;
    if (!any)
        return;
    bool relayed = !rt->device->mode.eager && !graph_sets_host(rt);
    rt->device->comms = rt_allocate(sizeof *rt->device->comms);
    open_library(rt);
    rt_cuda_progress_open(rt, relayed);
    join_world(rt);
    rt->device->comms->at = rt_allocate((size_t)m->ncollectives * sizeof(CudaComm));
    for (int i = 0; i < m->ncollectives; i++)
        if (rt->group[m->collective_axes[i]].n > 1)
            add_comm(rt, m->collective_axes[i], rt_nccl_stream(rt, i));
    warm_up(rt);
}

/* ---- the arena as a window ----------------------------------------------- */

/* Whether the library has the calls. */
static bool has_windows(const CudaNccl *n)
{
    return n->ncclMemAlloc && n->ncclMemFree && n->ncclCommWindowRegister &&
           n->ncclCommWindowDeregister;
}

bool rt_nccl_alloc(ParcRt *rt, CuAddress *to, size_t bytes)
{
    CudaComms *c = rt->device->comms;
    void *at = NULL;
    int32_t first = 0;
    if (!c)
        return false;
    bool here = rt_flag(rt, "PARC_NCCL_WINDOW", true) &&
                has_windows(&c->call) &&
                c->call.ncclMemAlloc(&at, bytes) == RT_NCCL_SUCCESS;
    first = here;
    rt_share(rt, RT_AT_START, &first, sizeof first);
    if (first && !here)
        rt_fail(rt,
                "rank %d: the arena is NCCL's memory on rank 0, but not here: "
                "install the same NCCL and set PARC_NCCL_WINDOW to the same "
                "value on all ranks", rt->rank);
    if (here && !first)
        c->call.ncclMemFree(at);
    c->owns_arena = first;
    *to = rt_cuda_address(at);
    return first;
}

void rt_nccl_register(ParcRt *rt)
{
    RtDevice *d = rt->device;
    CudaComms *c = d->comms;
    for (int i = 0; c && c->owns_arena && i < c->n; i++) {
        /* On failure the communicator uses NCCL's own buffers. */
        CudaComm *m = &c->at[i];
        NcclResult r = c->call.ncclCommWindowRegister(
            m->comm, (void *)(uintptr_t)d->arena, (size_t)rt->model->arena_bytes,
            &m->window, RT_NCCL_WINDOW_SYMMETRIC);
        m->window = r == RT_NCCL_SUCCESS ? m->window : NULL;
        c->nwindows += m->window != NULL;
    }
}

void rt_nccl_unregister(ParcRt *rt)
{
    CudaComms *c = rt->device->comms;
    for (int i = 0; c && i < c->n; i++)
        if (c->at[i].window) {
            c->call.ncclCommWindowDeregister(c->at[i].comm, c->at[i].window);
            c->at[i].window = NULL;
        }
}

bool rt_nccl_free(ParcRt *rt, CuAddress arena)
{
    CudaComms *c = rt->device->comms;
    if (!c || !c->owns_arena)
        return false;
    c->call.ncclMemFree((void *)(uintptr_t)arena);
    return true;
}

/* ---- close --------------------------------------------------------------- */

void rt_nccl_close(ParcRt *rt)
{
    CudaComms *c = rt->device->comms;
    if (!c)
        return;
    for (int i = 0; i < c->n; i++)
        if (c->at[i].comm != c->world)
            NCCL(rt, RT_AT_END, ncclCommDestroy(c->at[i].comm));
    NCCL(rt, RT_AT_END, ncclCommDestroy(c->world));
    rt_cuda_progress_close(rt);
    free(c->at);
    free(c);
    rt->device->comms = NULL;
}
