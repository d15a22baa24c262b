/* nccl.c: libnccl.so.2 for tests: communicators across processes.
 *
 * A group of calls is one piece of work on its stream (queue.h). Where it
 * runs, the rank lays what it gives into shared memory; when all ranks of the
 * communicator have done so and mean the same, each takes what is its own.
 * Nobody is waited for inside: a collective whose peers are not there yet is
 * tried again, and after STANDIN_LIMIT seconds (60) it fails and says who is
 * missing. Groups of a communicator run in the order of their calls.
 *
 * Stricter than the library: all ranks take part in every group, the one
 * thing that sends and receives alone would not need.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "hazard.h"
#include "nccl_calls.h"
#include "queue.h"

enum { VERSION = 22800, MAX_GROUP = 64, NO_COLOR = -1 };

struct Comm {
    NcclRoom room;
    NcclPlan *plans;
    uint64_t queued, begun, splits;
    Result error;
    bool waits; /* for the others, not blocking */
};

/* What a process's calls between GroupStart and GroupEnd are. */
typedef struct Group {
    Comm *comm;
    CuStream stream;
    int n, room;
    NcclPost *post;
} Group;

static struct {
    int depth, ngroups, njoining;
    Group group[MAX_GROUP];
    Comm *joining[MAX_GROUP];
    Result failed; /* inside a group */
    char error[300];
} nccl;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double limit(void)
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

/* ---- plain questions ---- */

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
    queue_lock();
    if (c->waits && nccl_room_full(&c->room))
        c->waits = false;
    *r = c->error ? c->error : c->waits ? IN_PROGRESS : SUCCESS;
    queue_unlock();
    return SUCCESS;
}

Result ncclCommCount(const Comm *c, int *n)
{
    *n = c->room.nranks;
    return SUCCESS;
}

Result ncclCommUserRank(const Comm *c, int *rank)
{
    *rank = c->room.rank;
    return SUCCESS;
}

Result ncclCommCuDevice(const Comm *c, int *device)
{
    *device = c->room.rank;
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

/* Until all ranks are there. */
static Result wait_for_all(Comm *c)
{
    double end = now() + limit();
    while (!nccl_room_full(&c->room)) {
        if (now() > end)
            return refuse(SYSTEM_ERROR, "rank %d of %d waited for the others "
                          "to join in vain", c->room.rank, c->room.nranks);
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
    Comm *mine = calloc(1, sizeof *mine);
    if (!nccl_room_open(&mine->room, name, nranks, rank)) {
        free(mine);
        return SYSTEM_ERROR;
    }
    *c = mine;
    if (!blocking) {
        mine->waits = true;
        return IN_PROGRESS;
    }
    if (nccl.depth == 0)
        return wait_for_all(mine);
    if (nccl.njoining == MAX_GROUP)
        return refuse(INVALID_USAGE, "more than 64 communicators in a group");
    nccl.joining[nccl.njoining++] = mine;
    return SUCCESS;
}

static bool is_blocking(const Config *config)
{
    return !config || config->blocking != 0;
}

Result ncclCommInitRankConfig(Comm **c, int nranks, UniqueId id, int rank,
                              const Config *config)
{
    return join(c, id.name, nranks, rank, is_blocking(config));
}

Result ncclCommInitRank(Comm **c, int nranks, UniqueId id, int rank)
{
    return join(c, id.name, nranks, rank, true);
}

/* Ranks of the same colour, by key and then by rank. */
Result ncclCommSplit(Comm *c, int color, int key, Comm **to,
                     const Config *config)
{
    NcclBox *mine = nccl_box(&c->room, c->room.rank);
    double end = now() + limit();
    uint64_t turn = ++c->splits;
    int n = 0, rank = 0;
    char name[200];
    atomic_store(&mine->color, color);
    atomic_store(&mine->key, key);
    atomic_store(&mine->split, turn);
    for (int i = 0; i < c->room.nranks; i++) {
        NcclBox *b = nccl_box(&c->room, i);
        while (atomic_load(&b->split) < turn) {
            if (now() > end)
                return refuse(SYSTEM_ERROR, "rank %d never split its "
                              "communicator", i);
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        }
        int other = atomic_load(&b->key);
        bool before = other < key || (other == key && i < c->room.rank);
        n += atomic_load(&b->color) == color;
        rank += atomic_load(&b->color) == color && before;
    }
    /* Nobody goes on to another split before all have read. */
    atomic_store(&mine->split_read, turn);
    for (int i = 0; i < c->room.nranks; i++)
        while (atomic_load(&nccl_box(&c->room, i)->split_read) < turn &&
               now() < end)
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    *to = NULL;
    if (color == NO_COLOR)
        return SUCCESS;
    snprintf(name, sizeof name, "%.80s-%llu-%d", c->room.name,
             (unsigned long long)turn, color);
    return join(to, name, n, rank, is_blocking(config));
}

static Result leave(Comm *c, bool aborted)
{
    queue_lock();
    bool busy = c->begun < c->queued;
    if (busy && !aborted)
        standin_error("NCCL: a communicator is destroyed while %llu of its "
                      "groups have not ended",
                      (unsigned long long)(c->queued - c->begun));
    if (busy)
        c->error = REMOTE_ERROR;
    queue_unlock();
    if (busy) /* what is queued would find its memory gone */
        return aborted ? SUCCESS : INVALID_USAGE;
    nccl_room_close(&c->room);
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

/* ---- a group as a piece of work ---- */

typedef struct Turn {
    Comm *comm;
    const NcclPlan *plan;
    uint64_t turn; /* from 1 on, in the order in which groups were queued */
    bool given;
    double since;
} Turn;
_Static_assert(sizeof(Turn) <= WORK_STATE, "a group fits");

static void turn_queued(void *state)
{
    Turn *t = state;
    t->turn = ++t->comm->queued;
}

static bool is_ours(const Comm *c, const NcclPost *p)
{
    const NcclCall *k = &p->call;
    int64_t send = nccl_send_bytes(k, c->room.rank, c->room.nranks);
    int64_t recv = nccl_recv_bytes(k, c->room.rank, c->room.nranks);
    if ((!send || standin_is_device(p->send, send)) &&
        (!recv || standin_is_device(p->recv, recv)))
        return true;
    standin_error("NCCL: %s of %lld elements from %p to %p on rank %d: not "
                  "within live device memory", nccl_kind_name[k->kind],
                  (long long)k->count, p->send, p->recv, c->room.rank);
    return false;
}

/* The group's memory is its own while it runs. */
static bool touch_all(const Comm *c, const NcclPlan *plan, bool write)
{
    for (int i = 0; i < plan->n; i++) {
        const NcclPost *p = &plan->post[i];
        int64_t bytes =
            write ? nccl_recv_bytes(&p->call, c->room.rank, c->room.nranks)
                  : nccl_send_bytes(&p->call, c->room.rank, c->room.nranks);
        if (bytes && !hazard_touch(write ? p->recv : p->send, bytes, write))
            return false;
    }
    return true;
}

static enum WorkStatus fail(Comm *c, Result r)
{
    c->error = r;
    return WORK_FAILED;
}

static enum WorkStatus wait_more(Turn *t, const char *what, int rank)
{
    Comm *c = t->comm;
    double at = now();
    if (c->error)
        return WORK_FAILED;
    if (t->since == 0)
        t->since = at;
    if (at - t->since < limit())
        return WORK_NOT_YET;
    standin_error("NCCL: rank %d of %d has waited %.0f s for rank %d to %s "
                  "(%s of %lld elements, group %llu)", c->room.rank,
                  c->room.nranks, at - t->since, rank, what,
                  nccl_kind_name[t->plan->post[0].call.kind],
                  (long long)t->plan->post[0].call.count,
                  (unsigned long long)t->turn);
    return fail(c, REMOTE_ERROR);
}

/* The boxes are free when all have taken what was in them. */
static enum WorkStatus give(Turn *t)
{
    Comm *c = t->comm;
    for (int i = 0; i < t->plan->n; i++)
        if (!is_ours(c, &t->plan->post[i]))
            return fail(c, INVALID_ARGUMENT);
    for (int i = 0; i < c->room.nranks; i++)
        if (atomic_load(&nccl_box(&c->room, i)->done) < t->turn - 1)
            return wait_more(t, "end the group before", i);
    if (!touch_all(c, t->plan, false))
        return fail(c, INVALID_USAGE);
    nccl_give(&c->room, t->plan, t->turn);
    t->given = true;
    t->since = 0;
    return WORK_DONE;
}

static enum WorkStatus turn_run(void *state)
{
    Turn *t = state;
    Comm *c = t->comm;
    if (t->turn != c->begun + 1)
        return WORK_NOT_YET;
    if (!t->given) {
        enum WorkStatus s = give(t);
        if (s != WORK_DONE)
            return s;
    }
    for (int i = 0; i < c->room.nranks; i++)
        if (atomic_load(&nccl_box(&c->room, i)->posted) < t->turn)
            return wait_more(t, "come", i);
    if (!touch_all(c, t->plan, true) || !nccl_agree(&c->room, t->plan) ||
        !nccl_take(&c->room, t->plan))
        return fail(c, INVALID_USAGE);
    atomic_store(&nccl_box(&c->room, c->room.rank)->done, t->turn);
    c->begun++;
    return WORK_DONE;
}

static Result queue_group(Group *g)
{
    Work w = {nccl_kind_name[g->post[0].call.kind], turn_run, turn_queued, {0}};
    NcclPlan *p = malloc(sizeof *p + (size_t)g->n * sizeof *g->post);
    p->n = g->n;
    p->next = g->comm->plans;
    memcpy(p->post, g->post, (size_t)g->n * sizeof *g->post);
    g->comm->plans = p;
    memcpy(w.state, &(Turn){.comm = g->comm, .plan = p}, sizeof(Turn));
    free(g->post);
    queue_lock();
    CuResult r = queue_add(g->stream, &w);
    queue_unlock();
    return r ? refuse(UNHANDLED_CUDA, "the driver's error %u", r) : SUCCESS;
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

static Group *group_of(Comm *c, CuStream stream)
{
    for (int i = 0; i < nccl.ngroups; i++)
        if (nccl.group[i].comm == c) {
            if (nccl.group[i].stream == stream)
                return &nccl.group[i];
            refuse(INVALID_USAGE, "a group uses a communicator on two streams");
            return NULL;
        }
    if (nccl.ngroups == MAX_GROUP) {
        refuse(INVALID_USAGE, "more than 64 communicators in a group");
        return NULL;
    }
    Group *g = &nccl.group[nccl.ngroups++];
    *g = (Group){.comm = c, .stream = stream};
    return g;
}

/* Where source and destination share memory, they do it as in-place calls do:
 * the rank's own part of the whole. */
static bool overlaps_well(const Comm *c, const NcclPost *p)
{
    const NcclCall *k = &p->call;
    int64_t send = nccl_send_bytes(k, c->room.rank, c->room.nranks);
    int64_t recv = nccl_recv_bytes(k, c->room.rank, c->room.nranks);
    const char *from = p->send, *to = p->recv;
    int64_t own = k->count * nccl_type_bytes(k->type) * c->room.rank;
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
             peer >= c->room.nranks)
        refuse(INVALID_ARGUMENT, "%s: type %d, op %d, peer %d",
               nccl_kind_name[kind], type, op, peer);
    else if (!overlaps_well(c, &p))
        refuse(INVALID_ARGUMENT, "%s of %zu elements: source and destination "
               "overlap", nccl_kind_name[kind], count);
    Group *g = nccl.failed || count == 0 ? NULL : group_of(c, stream);
    if (g && g->n == NCCL_MAX_CALLS)
        refuse(INVALID_USAGE, "more than %d calls in a group", NCCL_MAX_CALLS);
    else if (g) {
        if (g->n == g->room) {
            g->room = g->room ? 2 * g->room : 8;
            g->post = realloc(g->post, (size_t)g->room * sizeof *g->post);
        }
        g->post[g->n++] = p;
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

/* ---- memory ---- */

Result ncclMemAlloc(void **at, size_t bytes)
{
    queue_lock();
    *at = standin_alloc((int64_t)bytes);
    queue_unlock();
    return *at ? SUCCESS : UNHANDLED_CUDA;
}

Result ncclMemFree(void *at)
{
    queue_lock();
    bool fine = standin_free(at);
    queue_unlock();
    return fine ? SUCCESS : INVALID_ARGUMENT;
}

Result ncclCommRegister(const Comm *c, void *at, size_t bytes, void **handle)
{
    *handle = at;
    if (!c || !standin_is_device(at, (int64_t)bytes))
        return refuse(INVALID_ARGUMENT, "memory that is registered is not "
                      "live device memory");
    return SUCCESS;
}

Result ncclCommDeregister(const Comm *c, void *handle)
{
    return c && handle ? SUCCESS : INVALID_ARGUMENT;
}
