/* world.c: maps the memory that the ranks of a node share.
 *
 *   control block | statuses | barriers | arena of rank 0 | of rank 1 | …
 *
 * Segments that ranks share (ParcShared) are memory of the group's first rank.
 * They are also mapped in the arenas of the other ranks: an offset addresses
 * the same bytes in each of them.
 *
 * Without a launcher the memory is mapped before the ranks are forked. An arena
 * therefore has the same address in all ranks, which read the shards of peers
 * in place. Processes that a launcher started map one file for each node if
 * collectives read peers in place; otherwise each process maps only its own
 * arena. The first rank of a node creates the file, and the others open it
 * through that rank's entry in /proc. With several nodes each process has a
 * control block of its own, as if it shared no memory: the ranks agree over
 * their connections.
 * Pages are not reserved: memory that is never accessed costs nothing.
 *
 * The shared memory is an unnamed file: a killed run leaves no file, and no
 * other program can create it first. Unlike shared anonymous memory, its
 * pages can be collapsed to large pages (rt_device_open) whatever the system's
 * setting for shared memory is, if file and mapping are aligned. Without a
 * launcher, anonymous memory is used if the system cannot create the file.
 *
 * An arena holds all tensors of a rank, and no other code of the runtime
 * allocates tensors except a target's device. The `peak_bytes` of the log
 * therefore follow from it: the arena without its shared segments, and an equal
 * part of each shared segment for every rank of its group. Other memory (host
 * memory of `offload`, file headers, the control block) is not counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/message.h"
#include "common/type.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

/* ALIGN aligns arenas to large pages. DEFAULT_TIMEOUT and MOST_SECONDS limit
 * the wait for another rank (PARC_TIMEOUT). */
enum { ALIGN = RT_LARGE_PAGE, DEFAULT_TIMEOUT = 300, MOST_SECONDS = 1000000 };
enum { LOOK_NS = 1000000 }; /* between two polls of the transport */

/* More than any address space; sums of fewer bytes do not overflow. */
static const double MOST_BYTES = 0x1p60;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

int rt_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? n : 1;
}

/* A file in memory with `bytes` zeros; -1 if the system cannot create it. */
static int memory_file(size_t bytes)
{
    int file = memfd_create("parc", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return -1;
    }
    return file;
}

/* How a process finds the file of its node's first rank. */
typedef struct Share {
    int64_t process, file;
    uint64_t token, bytes;
    char node[RT_NODE];
} Share;

/* Opens the first rank's file. Its size and its token verify that it is the
 * right one. */
static int find_file(const Share *share, size_t bytes)
{
    char path[64];
    struct stat st;
    uint64_t token = 0;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)share->process,
             (long long)share->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return -1;
    if (share->bytes != bytes || fstat(file, &st) != 0 ||
        st.st_size != (off_t)bytes ||
        pread(file, &token, sizeof token, offsetof(RtControl, token)) !=
            (ssize_t)sizeof token ||
        token != share->token) {
        close(file);
        errno = ESTALE;
        return -1;
    }
    return file;
}

static void wait_for_node(void *context)
{
    (void)context;
    nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

/* Copies the first rank's data to all ranks of its node. */
static bool share_in_node(const RtWorld *w, Share *share)
{
    const ParcTransport *t = w->model->transport;
    if (w->mapped == w->nranks) {
        rt_job_broadcast(w->store, RT_AT_START, share, sizeof *share);
        return true;
    }
    RT_OWNED ParcMessage *m =
        rt_allocate((size_t)(w->mapped + 1) * sizeof *m);
    int first = w->rank == w->first, n = 0;
    for (int r = w->first + 1; first && r < w->first + w->mapped; r++)
        m[n++] = (ParcMessage){r, share, sizeof *share};
    m[n] = (ParcMessage){w->first, share, sizeof *share};
    return t->exchange(m, n, m + n, !first, 0, wait_for_node, NULL);
}

/* Prints why this rank cannot map the file of its node's first rank. */
static void cannot_share(const RtWorld *w, const Share *share, int error)
{
    char node[RT_NODE];
    rt_node_name(node);
    if (strcmp(node, share->node) != 0)
        rt_error("ranks %d and %d are to share memory, but are on %s and %s; %s",
                 w->first, w->rank, share->node, node,
                 w->mapped == w->nranks
                     ? "the ranks of a CPU program run on one machine, unless "
                       "it is compiled with parc --node-size"
                     : "start as many ranks on each node as parc --node-size "
                       "says, with consecutive numbers (mpirun --map-by "
                       "ppr:N:node)");
    else
        rt_error("rank %d on %s cannot share memory with rank %d: %s; the ranks "
                 "of a machine run as one user", w->rank, node, w->first,
                 strerror(error));
}

/* The file that all ranks of the node open; -1 after a message. */
static int join_file(const RtWorld *w, size_t bytes)
{
    bool first = w->rank == w->first;
    Share share = {.process = getpid(), .bytes = bytes};
    int file = first ? memory_file(bytes) : -1;
    share.file = file;
    share.token = w->launch->job ^ (uint64_t)rt_now_ns();
    rt_node_name(share.node);
    if (file >= 0 &&
        pwrite(file, &share.token, sizeof share.token,
               offsetof(RtControl, token)) != (ssize_t)sizeof share.token)
        share.file = -1;
    int error = errno;
    char node[RT_NODE];
    rt_node_name(node);
    if (!share_in_node(w, &share)) {
        rt_error("rank %d cannot exchange messages with the ranks of its node: "
                 "%s reports an error", w->rank, w->model->transport->name);
        return -1;
    }
    if (!first) {
        file = strcmp(node, share.node) == 0 ? find_file(&share, bytes) : -1;
        error = errno;
    }
    if (share.file < 0 && !first)
        return -1; /* the first rank prints the reason */
    if (share.file < 0 || file < 0) {
        cannot_share(w, &share, error);
        return -1;
    }
    /* The first rank keeps the file open until all ranks have opened it. */
    rt_job_synchronize(w->store, RT_AT_START);
    return file;
}

/* The file that ranks share; -1 if no file is needed, or if it cannot be
 * created. In a job of a launcher a message has then been printed. */
static int shared_file(const RtWorld *w, size_t bytes)
{
    if (w->mapped == 1)
        return -1;
    return w->launch ? join_file(w, bytes) : memory_file(bytes);
}

/* The rank of the group whose coordinates over `axes` are 0. */
static int first_of_group(const ParcModel *model, int rank, uint32_t axes)
{
    int first = rank;
    for (int a = 0; a < model->naxes; a++)
        if (axes >> a & 1)
            first -= (int)(rt_coord(model, rank, a) * rt_stride(model, a));
    return first;
}

/* Maps `bytes` of shared memory at `from` also at `to`. Without a file (-1),
 * mremap(2) with an old size of 0 duplicates the mapping; user-mode emulators
 * lack that. */
static bool remap(char *base, char *from, char *to, size_t bytes, int file)
{
    void *at = file < 0 ? mremap(from, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                                 to)
                        : mmap(to, bytes, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file,
                               from - base);
    return at != MAP_FAILED;
}

/* Maps the group's shared segments into the arena of each mapped rank. `base`
 * is the address of the control block, `at` that of the first arena. */
static bool map_segments(const RtWorld *w, char *base, char *at, int file)
{
    const ParcModel *m = w->model;
    for (int r = 0; r < w->mapped; r++)
        for (int i = 0; i < m->nshared; i++) {
            const ParcShared *s = &m->shared[i];
            size_t first = (size_t)(first_of_group(m, w->first + r, s->axes) -
                                    w->first);
            char *from = at + first * w->arena_stride + s->offset;
            char *to = at + (size_t)r * w->arena_stride + s->offset;
            if (to != from && !remap(base, from, to, (size_t)s->bytes, file))
                return false;
        }
    return true;
}

/* Maps zeros at a multiple of ALIGN, shared with ranks that are forked later
 * or that a launcher started. NULL with errno on failure; map_bytes is 0 if a
 * message has been printed. */
static char *map_world(RtWorld *w, size_t bytes, size_t arenas)
{
    bool shared = w->mapped > 1;
    int file = shared_file(w, bytes);
    if (file < 0 && shared && w->launch) {
        w->map_bytes = 0;
        return NULL;
    }
    w->map_bytes = bytes + ALIGN;
    w->map = mmap(NULL, w->map_bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *base = NULL;
    if (w->map != MAP_FAILED) {
        base = (char *)w->map + -(uintptr_t)w->map % ALIGN;
        void *at = mmap(base, bytes, PROT_READ | PROT_WRITE,
                        MAP_FIXED | MAP_NORESERVE |
                            (shared ? MAP_SHARED : MAP_PRIVATE) |
                            (file < 0 ? MAP_ANONYMOUS : 0),
                        file, 0);
        if (at == MAP_FAILED || !map_segments(w, base, base + arenas, file))
            base = NULL;
    }
    int error = errno;
    if (file >= 0)
        close(file);
    errno = error;
    return base;
}

/* Connects this process with the other ranks of the job; false after a
 * message. */
static bool join(RtWorld *w, const RtLaunch *launch)
{
    char error[RT_MESSAGE] = "";
    const ParcTransport *t = w->model->transport;
    w->launch = launch;
    w->store = rt_allocate(sizeof *w->store);
    if (!rt_store_open(w->store, w, launch, w->timeout_seconds) ||
        !rt_job_watch(w->store))
        return false;
    return !t || t->open(w->rank, w->nranks, error, sizeof error) ||
           rt_error("rank %d cannot start %s: %s", w->rank, t->name, error);
}

/* Programs for several nodes start under a launcher. */
static bool check_launch(const RtWorld *w, const RtLaunch *launch)
{
    if (launch || !w->model->transport)
        return true;
    return rt_error("this program is planned for %d machines of %d ranks (parc "
                    "--node-size): start it with 'mpirun -n %d ./train …'",
                    w->nranks / w->model->node_size, w->model->node_size,
                    w->nranks);
}

/* One process of each node checks the memory for all its ranks. */
static bool check_memory(const RtWorld *w, bool runs, int64_t staging)
{
    const RtLaunch *l = w->launch;
    bool mapped = !l || rt_collectives_share();
    if (mapped ? w->rank != w->first : l->local != 0)
        return true;
    return rt_memory_check(w, w->rank, mapped ? w->mapped : l->local_size, runs,
                           staging);
}

static bool cannot_map(double bytes, int error)
{
    char text[RT_SIZE_TEXT];
    return rt_error("cannot map %s of memory: %s; 'ulimit -v' is a limit to "
                    "the address space", rt_size_text(bytes, text),
                    strerror(error));
}

bool rt_world_open(RtWorld *w, const ParcModel *model, int threads,
                   const RtLaunch *launch, bool runs, int64_t staging)
{
    memset(w, 0, sizeof *w);
    w->model = model;
    w->nranks = (int)rt_nranks(model); /* fits: rt_ranks_check */
    w->rank = launch ? launch->rank : 0;
    w->threads = threads;
    w->timeout_seconds = DEFAULT_TIMEOUT;
    sched_getaffinity(0, sizeof w->cpus, &w->cpus);
    w->mapped = launch && !rt_collectives_share() ? 1
                : model->transport                ? model->node_size
                                                  : w->nranks;
    w->first = w->rank / w->mapped * w->mapped;
    /* PARC_NODE: other nodes may be on this machine too. */
    w->crowded = (int64_t)(rt_collectives_share() && !getenv("PARC_NODE")
                               ? w->mapped : w->nranks) * threads > rt_cores();
    if (!check_launch(w, launch) || !rt_variable_number("PARC_TIMEOUT", 1, MOST_SECONDS,
                            &w->timeout_seconds) ||
        (launch && !join(w, launch)) || !check_memory(w, runs, staging))
        return false;
    size_t n = (size_t)w->nranks;
    size_t statuses = round_up(sizeof(RtControl), RT_LINE);
    size_t barriers = statuses + n * round_up(sizeof(RtStatus), RT_LINE);
    size_t end = barriers + (n << model->naxes) * sizeof(RtBarrier);
    size_t last = (size_t)rt_arena_end(model);
    size_t align = w->mapped > 1 && last < ALIGN ? RT_PAGE : ALIGN;
    size_t arenas = round_up(end, align);
    w->arena_stride = round_up(last + 1, align);
    double all = (double)arenas + (double)w->mapped * (double)w->arena_stride;
    if (all >= MOST_BYTES)
        return cannot_map(all, ENOMEM);
    size_t bytes =
        round_up(arenas + (size_t)w->mapped * w->arena_stride, RT_PAGE);
    char *base = map_world(w, bytes, arenas);
    if (!base && w->map_bytes == 0)
        return false; /* a message has been printed */
    if (!base)
        return cannot_map((double)bytes, errno);
    w->control = model->transport ? rt_allocate(sizeof *w->control)
                                  : (void *)base;
    w->status = (void *)(base + statuses);
    w->barrier = (void *)(base + barriers);
    w->arenas = base + arenas;
    return true;
}

void rt_world_close(RtWorld *w)
{
    if (w->store) {
        rt_job_end(w->store);
        if (w->model->transport)
            w->model->transport->close();
        rt_store_close(w->store);
        free(w->store);
        w->store = NULL;
    }
    if (w->map_bytes > 0) {
        munmap(w->map, w->map_bytes);
        w->map_bytes = 0;
        if (w->model->transport)
            free(w->control);
    }
}

void rt_arena_take(ParcRt *rt)
{
    rt->arena = rt_peer(rt, rt->rank);
    rt->peak_bytes = rt_arena_most(rt->model);
    /* Large pages reduce TLB misses. The system may refuse them without
     * harm. */
    madvise(rt->arena, rt->world->arena_stride, MADV_HUGEPAGE);
}

int parc_threads(const ParcRt *rt)
{
    return rt->threads;
}

int64_t parc_index(const ParcRt *rt, uint32_t axes)
{
    return rt->group[axes].index;
}

int64_t parc_zigzag(const ParcRt *rt, uint32_t axes, int64_t part, int64_t i)
{
    const RtGroup *g = &rt->group[axes];
    return rt_zigzag(g->n, g->index, part, i);
}
