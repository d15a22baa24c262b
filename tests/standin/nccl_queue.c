/* nccl_queue.c: runs a group of NCCL's calls as a piece of work of the
 * stand-in's queue (queue.h). A group never blocks the queue: if its peers have
 * not arrived, it is tried later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "hazard.h"
#include "nccl_back.h"
#include "queue.h"

void nccl_back_lock(void)
{
    queue_lock();
}

void nccl_back_unlock(void)
{
    queue_unlock();
}

typedef struct Round {
    Comm *comm;
    const NcclPlan *plan;
    uint64_t order; /* number of the group in order of queueing, from 1 on */
    uint64_t round; /* the same of those that are no message */
    bool given;
    double since;
} Round;
_Static_assert(sizeof(Round) <= WORK_STATE, "a group fits");

static void round_queued(void *state)
{
    Round *t = state;
    t->order = ++t->comm->queued;
    if (!nccl_is_message(t->plan))
        t->round = ++t->comm->collectives;
}

static bool is_ours(const Comm *c, const NcclPost *p)
{
    const NcclCall *k = &p->call;
    int64_t send = nccl_send_bytes(k, c->shared.rank, c->shared.nranks);
    int64_t recv = nccl_recv_bytes(k, c->shared.rank, c->shared.nranks);
    if ((!send || standin_is_device(p->send, send)) &&
        (!recv || standin_is_device(p->recv, recv)))
        return true;
    standin_error("NCCL: %s of %lld elements from %p to %p on rank %d: not "
                  "within live device memory",
                  nccl_kind_name[k->kind], (long long)k->count, p->send,
                  p->recv, c->shared.rank);
    return false;
}

/* Reads and writes the group's memory, which other work must not touch now. */
static bool touch_all(const Comm *c, const NcclPlan *plan, bool write)
{
    for (int i = 0; i < plan->n; i++) {
        const NcclPost *p = &plan->post[i];
        int64_t bytes =
            write ? nccl_recv_bytes(&p->call, c->shared.rank, c->shared.nranks)
                  : nccl_send_bytes(&p->call, c->shared.rank, c->shared.nranks);
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

static enum WorkStatus wait_more(Round *t, const char *what, int rank)
{
    Comm *c = t->comm;
    double at = nccl_now();
    if (c->error)
        return WORK_FAILED;
    if (t->since == 0)
        t->since = at;
    if (at - t->since < nccl_limit())
        return WORK_NOT_YET;
    return fail(c, nccl_late(c, t->plan, t->round, at - t->since, what, rank));
}

/* Outboxes are free once all ranks have taken the previous group's data. */
static enum WorkStatus give(Round *t)
{
    Comm *c = t->comm;
    for (int i = 0; i < t->plan->n; i++)
        if (!is_ours(c, &t->plan->post[i]))
            return fail(c, INVALID_ARGUMENT);
    for (int i = 0; i < c->shared.nranks; i++)
        if (atomic_load(&nccl_member(&c->shared, i)->done) < t->round - 1)
            return wait_more(t, "end the group before", i);
    if (!touch_all(c, t->plan, false))
        return fail(c, INVALID_USAGE);
    nccl_give(&c->shared, t->plan, t->round);
    t->given = true;
    t->since = 0;
    return WORK_DONE;
}

/* STANDIN_NCCL_STALL=RANKS:KIND:N: on these ranks, a digit each, group number N
 * of those that begin with a call of this kind, from 1 on, never ends, although
 * all ranks have arrived. */
static bool stalls(const Round *t)
{
    static const Round *stalled;
    static int seen;
    const char *text = getenv("STANDIN_NCCL_STALL");
    char ranks[20], kind[40];
    int which;
    if (stalled || !text)
        return stalled == t;
    if (sscanf(text, "%19[0-9]:%39[^:]:%d", ranks, kind, &which) == 3 &&
        strchr(ranks, '0' + t->comm->first_rank) &&
        strcmp(kind, nccl_kind_name[t->plan->post[0].call.kind]) == 0 &&
        ++seen == which)
        stalled = t;
    return stalled == t;
}

/* A message is not buffered: its sender waits until it is received. */
static enum WorkStatus message_run(Round *t)
{
    Comm *c = t->comm;
    const NcclPost *p = &t->plan->post[0];
    bool send = p->call.kind == NCCL_SEND, agrees = true;
    if (!is_ours(c, p))
        return fail(c, INVALID_ARGUMENT);
    if (stalls(t))
        return WORK_NOT_YET;
    if (send && !t->given) {
        if (!touch_all(c, t->plan, false))
            return fail(c, INVALID_USAGE);
        nccl_offer(&c->shared, p);
        t->given = true;
    }
    if (send && !nccl_is_taken(&c->shared, p))
        return wait_more(t, "receive", p->call.peer);
    if (send && !nccl_message_is_unchanged(&c->shared, p))
        return fail(c, INVALID_USAGE);
    if (!send && !nccl_take_message(&c->shared, p, &agrees))
        return wait_more(t, "send", p->call.peer);
    if (!agrees || (!send && !touch_all(c, t->plan, true)))
        return fail(c, INVALID_USAGE);
    c->begun++;
    return WORK_DONE;
}

static enum WorkStatus round_run(void *state)
{
    Round *t = state;
    Comm *c = t->comm;
    if (t->order != c->begun + 1)
        return WORK_NOT_YET;
    if (nccl_is_message(t->plan))
        return message_run(t);
    if (!t->given) {
        enum WorkStatus s = give(t);
        if (s != WORK_DONE)
            return s;
    }
    for (int i = 0; i < c->shared.nranks; i++)
        if (atomic_load(&nccl_member(&c->shared, i)->posted) < t->round)
            return wait_more(t, "come", i);
    if (stalls(t))
        return WORK_NOT_YET;
    if (!touch_all(c, t->plan, true) || !nccl_agree(&c->shared, t->plan) ||
        !nccl_take(&c->shared, t->plan))
        return fail(c, INVALID_USAGE);
    atomic_store(&nccl_member(&c->shared, c->shared.rank)->done, t->round);
    c->begun++;
    return WORK_DONE;
}

/* Allocates the number of bytes that a variable names, once. */
static void take_memory(void **at, const char *variable)
{
    const char *text = getenv(variable);
    if (text && !*at && !queue_is_restricted())
        *at = standin_alloc(strtoll(text, NULL, 10));
}

void nccl_back_close(Comm *c)
{
    queue_lock();
    if (c->own)
        standin_free(c->own);
    for (int i = 0; i < NCCL_KINDS; i++)
        if (c->of_kind[i])
            standin_free(c->of_kind[i]);
    queue_unlock();
}

CuResult nccl_back_queue(Comm *c, const NcclPlan *p, CuStream stream)
{
    Work w = {
        nccl_kind_name[p->post[0].call.kind], round_run, round_queued, {0}};
    memcpy(w.state, &(Round){.comm = c, .plan = p}, sizeof(Round));
    queue_lock();
    take_memory(&c->own, "STANDIN_NCCL_BYTES");
    for (int i = 0; i < p->n; i++)
        take_memory(&c->of_kind[p->post[i].call.kind],
                    "STANDIN_NCCL_KIND_BYTES");
    CuResult r = queue_add(stream, &w);
    queue_unlock();
    return r;
}

/* ---- memory ---- */

enum { MAX_ALLOCATIONS = 16 };
static struct {
    void *at[MAX_ALLOCATIONS]; /* returned by ncclMemAlloc */
    int windows, asked;
} memory;

/* The table's entry of an allocation; for NULL a free entry. NULL: none. */
static void **entry_of(const void *at)
{
    for (int i = 0; i < MAX_ALLOCATIONS; i++)
        if (memory.at[i] == at)
            return &memory.at[i];
    return NULL;
}

Result ncclMemAlloc(void **at, size_t bytes)
{
    queue_lock();
    void **entry = entry_of(NULL);
    *at = entry ? standin_alloc((int64_t)bytes) : NULL;
    if (*at)
        *entry = *at;
    queue_unlock();
    return *at ? SUCCESS : UNHANDLED_CUDA;
}

Result ncclCommWindowRegister(Comm *c, void *at, size_t bytes, void **window,
                              int flags)
{
    enum { SYMMETRIC = 1 };
    *window = NULL;
    const char *missing = getenv("STANDIN_NULL_WINDOW");
    if (getenv("STANDIN_NO_WINDOWS"))
        return SYSTEM_ERROR;
    if (++memory.asked == (missing ? atoi(missing) : 0))
        return SUCCESS;
    if (!c || flags != SYMMETRIC || !entry_of(at) ||
        !standin_is_device(at, (int64_t)bytes)) {
        standin_error("NCCL: a window of memory that ncclMemAlloc did not give, "
                      "or that is not symmetric");
        return INVALID_ARGUMENT;
    }
    memory.windows++;
    *window = at;
    return SUCCESS;
}

Result ncclCommWindowDeregister(const Comm *c, void *window)
{
    memory.windows--;
    return c && window ? SUCCESS : INVALID_ARGUMENT;
}

Result ncclMemFree(void *at)
{
    queue_lock();
    void **entry = at ? entry_of(at) : NULL;
    if (entry)
        *entry = NULL;
    if (memory.windows)
        standin_error("NCCL: memory is freed that a window has");
    bool fine = entry && !memory.windows && standin_free(at);
    queue_unlock();
    return fine ? SUCCESS : INVALID_ARGUMENT;
}

Result ncclCommRegister(const Comm *c, void *at, size_t bytes, void **handle)
{
    *handle = at;
    if (c && standin_is_device(at, (int64_t)bytes))
        return SUCCESS;
    standin_error("NCCL: memory that is registered is not live device memory");
    return INVALID_ARGUMENT;
}

Result ncclCommDeregister(const Comm *c, void *handle)
{
    return c && handle ? SUCCESS : INVALID_ARGUMENT;
}
