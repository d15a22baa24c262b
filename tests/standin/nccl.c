/* nccl.c: implements libnccl.so.2 for tests: communicators across processes,
 * and groups of calls.
 *
 * A group of calls is a piece of work on its stream (nccl_back.h). When it
 * runs, the rank copies its send buffers into shared memory. When all ranks of
 * the communicator have done so, and their calls agree, each rank takes its
 * results. A group that waits longer than STANDIN_LIMIT seconds (60) for its
 * peers fails and names the missing ones. Groups of a communicator run in the
 * order of their calls.
 *
 * Like the library, a communicator allocates memory of the device with its
 * first group, STANDIN_NCCL_BYTES (0), and with the first call of each kind,
 * STANDIN_NCCL_KIND_BYTES (0). STANDIN_NCCL_STALL: nccl_queue.c.
 *
 * STANDIN_NVLS=1: the order of a sum's terms differs between calls and between
 * runs, as in switches that add, unless NCCL_NVLS_ENABLE=0.
 * STANDIN_NO_WINDOWS=1: no communicator accepts a window.
 * STANDIN_NULL_WINDOW=N: window number N of a process, from 1 on, is NULL,
 * which is how the library says that a communicator does not support it.
 *
 * STANDIN_NCCL_CALLS names a log file, to which every rank appends: a line for
 * each call (its name and the bytes of its larger operand) and for each
 * communicator ("blocks" and the limit in its config).
 *
 * A single send or receive is between two ranks, and is not buffered. Stricter than
 * the library: all ranks must take part in every other group, which NCCL does not
 * require of groups that only send and receive.
 */
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "nccl_back.h"

enum { VERSION = 22800, MAX_GROUP = 64, NO_COLOR = -1 };

/* A process's calls between GroupStart and GroupEnd. */
typedef struct Group {
    Comm *comm;
    CuStream stream;
    int n, capacity;
    NcclPost *post;
} Group;

static struct {
    int depth, ngroups, njoining;
    Group group[MAX_GROUP];
    Comm *joining[MAX_GROUP];
    Result failed; /* first error in the group */
    char error[300];
} nccl;

double nccl_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note(const char *what, int64_t n)
{
    const char *path = getenv("STANDIN_NCCL_CALLS");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (f) {
        fprintf(f, "%s %lld\n", what, (long long)n);
        fclose(f);
    }
}

double nccl_limit(void)
{
    const char *text = getenv("STANDIN_LIMIT");
    return text ? strtod(text, NULL) : 60.0;
}

__attribute__((format(printf, 2, 3))) static Result refuse(Result r,
                                                           const char *format,
                                                           ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(nccl.error, sizeof nccl.error, format, args);
    va_end(args);
    standin_error("NCCL: %s", nccl.error);
    nccl.failed = r;
    return r;
}

/* ---- queries ---- */

Result ncclGetVersion(int *version)
{
    *version = VERSION;
    return SUCCESS;
}

const char *ncclGetErrorString(Result r)
{
    static const char *const text[RESULTS] = {
        "no error", "unhandled cuda error", "unhandled system error",
        "internal error", "invalid argument", "invalid usage",
        "remote process exited or there was a network error",
        "NCCL operation in progress"};
    return r < RESULTS ? text[r] : "unknown result code";
}

const char *ncclGetLastError(Comm *c)
{
    (void)c;
    return nccl.error;
}

Result ncclCommGetAsyncError(Comm *c, Result *r)
{
    nccl_back_lock();
    if (c->waits && nccl_shared_full(&c->shared))
        c->waits = false;
    *r = c->error ? c->error : c->waits ? IN_PROGRESS : SUCCESS;
    nccl_back_unlock();
    return SUCCESS;
}

Result ncclCommCount(const Comm *c, int *n)
{
    *n = c->shared.nranks;
    return SUCCESS;
}

Result ncclCommUserRank(const Comm *c, int *rank)
{
    *rank = c->shared.rank;
    return SUCCESS;
}

Result ncclCommCuDevice(const Comm *c, int *device)
{
    *device = c->shared.rank;
    return SUCCESS;
}

/* ---- communicators ---- */

Result ncclGetUniqueId(UniqueId *id)
{
    static int count;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    memset(id, 0, sizeof *id);
    snprintf(id->name, sizeof id->name, "parc-standin-%d-%d-%lld%09ld",
             (int)getpid(), count++, (long long)t.tv_sec, t.tv_nsec);
    return SUCCESS;
}

/* Waits until all ranks have joined. */
static Result wait_for_all(Comm *c)
{
    double end = nccl_now() + nccl_limit();
    while (!nccl_shared_full(&c->shared)) {
        if (nccl_now() > end)
            return refuse(SYSTEM_ERROR,
                          "rank %d of %d waited for the others "
                          "to join in vain",
                          c->shared.rank, c->shared.nranks);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return SUCCESS;
}

static Result join(Comm **c, const char *name, int nranks, int rank,
                   bool blocking)
{
    *c = NULL;
    if (rank < 0 || rank >= nranks || nranks > NCCL_MAX_RANKS)
        return refuse(INVALID_ARGUMENT, "rank %d of %d", rank, nranks);
    Comm *joined = calloc(1, sizeof *joined);
    if (!nccl_shared_open(&joined->shared, name, nranks, rank)) {
        free(joined);
        return SYSTEM_ERROR;
    }
    joined->first_rank = rank;
    *c = joined;
    if (!blocking) {
        joined->waits = true;
        return IN_PROGRESS;
    }
    if (nccl.depth == 0)
        return wait_for_all(joined);
    if (nccl.njoining == MAX_GROUP)
        return refuse(INVALID_USAGE, "more than 64 communicators in a group");
    nccl.joining[nccl.njoining++] = joined;
    return SUCCESS;
}

/* The fields after `shares` are those of NCCL 2.28. */
static int policy_of(const Config *config)
{
    bool has = config && config->version >= 22800 && config->size >= sizeof *config;
    return has ? config->policy : INT_MIN;
}

static void note_config(const Config *config)
{
    note("blocks", config ? config->most_blocks : INT_MIN);
    if (policy_of(config) != INT_MIN)
        note("policy", policy_of(config));
}

/* Stricter than the library: a bound on the number of blocks must be valid. */
static bool is_bounded(const Config *config)
{
    enum { LEAST = 1, MOST = 64 };
    if (!config || config->size < offsetof(Config, network))
        return true;
    if (config->magic != 0xcafebeef)
        return false;
    return config->most_blocks == INT_MIN ||
           (config->most_blocks >= LEAST && config->most_blocks <= MOST);
}

static bool is_blocking(const Config *config)
{
    return !config || config->blocking != 0;
}

Result ncclCommInitRankConfig(Comm **c, int nranks, UniqueId id, int rank,
                              const Config *config)
{
    if (!is_bounded(config))
        return refuse(INVALID_ARGUMENT, "a config that is not right");
    note_config(config);
    return join(c, id.name, nranks, rank, is_blocking(config));
}

Result ncclCommInitRank(Comm **c, int nranks, UniqueId id, int rank)
{
    return join(c, id.name, nranks, rank, true);
}

/* Groups ranks of the same color, ordered by key and then by rank. */
Result ncclCommSplit(Comm *c, int color, int key, Comm **to,
                     const Config *config)
{
    NcclMember *own = nccl_member(&c->shared, c->shared.rank);
    double end = nccl_now() + nccl_limit();
    uint64_t round = ++c->splits;
    int n = 0, rank = 0;
    char name[200];
    atomic_store(&own->color, color);
    atomic_store(&own->key, key);
    atomic_store(&own->split, round);
    for (int i = 0; i < c->shared.nranks; i++) {
        NcclMember *b = nccl_member(&c->shared, i);
        while (atomic_load(&b->split) < round) {
            if (nccl_now() > end)
                return refuse(SYSTEM_ERROR, "rank %d never split its "
                              "communicator", i);
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        }
        int other = atomic_load(&b->key);
        bool before = other < key || (other == key && i < c->shared.rank);
        n += atomic_load(&b->color) == color;
        rank += atomic_load(&b->color) == color && before;
    }
    /* No rank starts another split before all have read this one. */
    atomic_store(&own->split_read, round);
    for (int i = 0; i < c->shared.nranks; i++)
        while (atomic_load(&nccl_member(&c->shared, i)->split_read) < round &&
               nccl_now() < end)
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    *to = NULL;
    if (color == NO_COLOR)
        return SUCCESS;
    note_config(config);
    snprintf(name, sizeof name, "%.80s-%llu-%d", c->shared.name,
             (unsigned long long)round, color);
    Result r = join(to, name, n, rank, is_blocking(config));
    if (*to)
        (*to)->first_rank = c->first_rank;
    return r;
}

static Result leave(Comm *c, bool aborted)
{
    nccl_back_lock();
    bool busy = c->begun < c->queued;
    if (busy && !aborted)
        standin_error("NCCL: a communicator is destroyed while %llu of its "
                      "groups have not ended",
                      (unsigned long long)(c->queued - c->begun));
    if (busy || aborted)
        c->error = REMOTE_ERROR;
    nccl_back_unlock();
    if (busy) /* queued work still needs its memory */
        return aborted ? SUCCESS : INVALID_USAGE;
    nccl_back_close(c);
    nccl_shared_close(&c->shared);
    while (c->plans) {
        NcclPlan *p = c->plans;
        c->plans = p->next;
        free(p);
    }
    free(c);
    return SUCCESS;
}

Result ncclCommFinalize(Comm *c)
{
    (void)c;
    return SUCCESS;
}

Result ncclCommDestroy(Comm *c)
{
    return leave(c, false);
}

Result ncclCommAbort(Comm *c)
{
    return leave(c, true);
}

static Result queue_group(Group *g)
{
    NcclPlan *p = malloc(sizeof *p + (size_t)g->n * sizeof *g->post);
    p->n = g->n;
    memcpy(p->post, g->post, (size_t)g->n * sizeof *g->post);
    free(g->post);
    nccl_keep(g->comm, p);
    CuResult r = nccl_back_queue(g->comm, p, g->stream);
    return r ? refuse(UNHANDLED_CUDA, "the driver's error %u", r) : SUCCESS;
}

void nccl_keep(Comm *c, NcclPlan *p)
{
    p->next = c->plans;
    c->plans = p;
}

Result nccl_late(Comm *c, const NcclPlan *p, uint64_t round, double seconds,
                 const char *what, int rank)
{
    const NcclCall *k = &p->post[0].call;
    return refuse(REMOTE_ERROR,
                  "rank %d of %d has waited %.0f s for rank %d "
                  "to %s (%s of %lld elements, group %llu)",
                  c->shared.rank, c->shared.nranks, seconds, rank, what,
                  nccl_kind_name[k->kind], (long long)k->count,
                  (unsigned long long)round);
}

/* ---- groups ---- */

Result ncclGroupStart(void)
{
    if (nccl.depth++ == 0)
        nccl.failed = SUCCESS;
    return SUCCESS;
}

Result ncclGroupEnd(void)
{
    if (nccl.depth == 0)
        return refuse(INVALID_USAGE, "ncclGroupEnd without ncclGroupStart");
    if (--nccl.depth > 0)
        return SUCCESS;
    Result r = nccl.failed;
    for (int i = 0; i < nccl.njoining && !r; i++)
        r = wait_for_all(nccl.joining[i]);
    for (int i = 0; i < nccl.ngroups; i++) {
        if (r)
            free(nccl.group[i].post);
        else
            r = queue_group(&nccl.group[i]);
    }
    nccl.njoining = nccl.ngroups = 0;
    return r;
}

/* NCCL would run groups of two streams in the order of issue: parc's programs have a
 * communicator for each stream. */
static Group *group_of(Comm *c, CuStream stream)
{
    if (c->stream && c->stream != stream) {
        refuse(INVALID_USAGE, "a communicator is used on two streams");
        return NULL;
    }
    c->stream = stream;
    for (int i = 0; i < nccl.ngroups; i++)
        if (nccl.group[i].comm == c)
            return &nccl.group[i];
    if (nccl.ngroups == MAX_GROUP) {
        refuse(INVALID_USAGE, "more than 64 communicators in a group");
        return NULL;
    }
    Group *g = &nccl.group[nccl.ngroups++];
    *g = (Group){.comm = c, .stream = stream};
    return g;
}

static void note_call(const Comm *c, const NcclCall *k)
{
    int64_t send = nccl_send_bytes(k, c->shared.rank, c->shared.nranks);
    int64_t recv = nccl_recv_bytes(k, c->shared.rank, c->shared.nranks);
    note(nccl_kind_name[k->kind], send > recv ? send : recv);
}

/* Source and destination may overlap only as in calls in place: the source is
 * the rank's own part of the destination, or the reverse. */
static bool overlaps_well(const Comm *c, const NcclPost *p)
{
    const NcclCall *k = &p->call;
    int64_t send = nccl_send_bytes(k, c->shared.rank, c->shared.nranks);
    int64_t recv = nccl_recv_bytes(k, c->shared.rank, c->shared.nranks);
    const char *from = p->send, *to = p->recv;
    int64_t own = k->count * nccl_type_bytes(k->type) * c->shared.rank;
    if (!send || !recv || from + send <= to || to + recv <= from)
        return true;
    return k->kind == NCCL_ALL_GATHER       ? from == to + own
           : k->kind == NCCL_REDUCE_SCATTER ? to == from + own
                                            : from == to;
}

static Result add(Comm *c, CuStream stream, NcclKind kind, NcclType type,
                  NcclOp op, int peer, size_t count, const void *send,
                  void *recv)
{
    NcclPost p = {{kind, type, op, peer, (int64_t)count, 0}, send, recv};
    ncclGroupStart();
    if (!c || c->waits)
        refuse(INVALID_ARGUMENT, "%s without a communicator that is ready",
               nccl_kind_name[kind]);
    else if (type >= NCCL_TYPES || op >= NCCL_OPS || peer < 0 ||
             peer >= c->shared.nranks)
        refuse(INVALID_ARGUMENT, "%s: type %d, op %d, peer %d",
               nccl_kind_name[kind], type, op, peer);
    else if (!overlaps_well(c, &p))
        refuse(INVALID_ARGUMENT, "%s of %zu elements: source and destination "
               "overlap", nccl_kind_name[kind], count);
    Group *g = nccl.failed || count == 0 ? NULL : group_of(c, stream);
    if (g && g->n == NCCL_MAX_CALLS)
        refuse(INVALID_USAGE, "more than %d calls in a group", NCCL_MAX_CALLS);
    else if (g) {
        if (g->n == g->capacity) {
            g->capacity = g->capacity ? 2 * g->capacity : 8;
            g->post = realloc(g->post, (size_t)g->capacity * sizeof *g->post);
        }
        g->post[g->n++] = p;
        note_call(c, &p.call);
    }
    return ncclGroupEnd();
}

/* ---- calls ---- */

Result ncclAllReduce(const void *send, void *recv, size_t count, NcclType type,
                     NcclOp op, Comm *c, CuStream stream)
{
    return add(c, stream, NCCL_ALL_REDUCE, type, op, 0, count, send, recv);
}

Result ncclReduce(const void *send, void *recv, size_t count, NcclType type,
                  NcclOp op, int root, Comm *c, CuStream stream)
{
    return add(c, stream, NCCL_REDUCE, type, op, root, count, send, recv);
}

Result ncclBroadcast(const void *send, void *recv, size_t count, NcclType type,
                     int root, Comm *c, CuStream stream)
{
    return add(c, stream, NCCL_BROADCAST, type, NCCL_SUM, root, count, send,
               recv);
}

Result ncclReduceScatter(const void *send, void *recv, size_t count,
                         NcclType type, NcclOp op, Comm *c, CuStream stream)
{
    return add(c, stream, NCCL_REDUCE_SCATTER, type, op, 0, count, send, recv);
}

Result ncclAllGather(const void *send, void *recv, size_t count, NcclType type,
                     Comm *c, CuStream stream)
{
    return add(c, stream, NCCL_ALL_GATHER, type, NCCL_SUM, 0, count, send,
               recv);
}

Result ncclSend(const void *send, size_t count, NcclType type, int peer,
                Comm *c, CuStream stream)
{
    return add(c, stream, NCCL_SEND, type, NCCL_SUM, peer, count, send, NULL);
}

Result ncclRecv(void *recv, size_t count, NcclType type, int peer, Comm *c,
                CuStream stream)
{
    return add(c, stream, NCCL_RECV, type, NCCL_SUM, peer, count, NULL, recv);
}
