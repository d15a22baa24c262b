/* late_rank.c: finds the rank that the others wait for, and describes its
 * state.
 *
 * The rank whose wait times out is seldom at fault, and the rank that it waits
 * for may be waiting itself. Each rank publishes its state in shared memory, in
 * its status (RtStatus). These give a chain: from a rank that waits to one of
 * its group that has not reached the same barrier, until a rank waits for no
 * other. The message names that rank, its statement and the state of its
 * process, which may be stopped.
 *
 *   rank 3 did not reach 'ar3 tp h (llama.pdl:28)', layer 5, within 300 s; it is
 *   still computing in step 7, in 'k07_norm' (llama.pdl:28:5, layer 4); rank 0
 *   waited for it
 *
 * A rank that was stopped while it slept in a barrier has not noticed that the
 * barrier has been passed: its status names the phase that it waits for.
 *
 * Ranks of a launcher that share no memory request the states over their
 * lifelines, the connections to rank 0 on which failures are reported: the rank
 * sends a request to rank 0, rank 0 forwards it to all other ranks and returns
 * their answers. A separate thread of each process (watcher) handles these
 * messages, so they work while the main threads wait. Rank 0 serves only the
 * first request, because one message is enough.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

/* ---- which rank waits for which ---------------------------------------------- */

/* Whether a rank is at a barrier in shared memory that is not passed yet. */
static bool is_at_barrier(const RtWorld *w, const RtStatus *s)
{
    uint32_t barrier = atomic_load(&s->barrier);
    return barrier > 0 && atomic_load(&s->phase) ==
                              atomic_load(&w->barrier[barrier - 1].phase);
}

/* Whether a rank is at a synchronization point of a job (rt_job_synchronize).
 */
static bool is_at_point(const RtWorld *w, const RtStatus *s)
{
    return w->store && atomic_load(&s->state) == RT_WAITING &&
           atomic_load(&s->collective) < 0;
}

/* Whether a rank waits for a decision of rank 0 (checkpoint/stop_decision.c).
 */
static bool is_at_decision(const RtStatus *s)
{
    return atomic_load(&s->state) == RT_WAITING &&
           atomic_load(&s->collective) == RT_AT_DECISION;
}

/* Whether a rank waits for messages of other nodes, or its node is another one
 * and it waits at a barrier there. */
static bool is_in_exchange(const RtStatus *s)
{
    return atomic_load(&s->exchange) > 0;
}

/* Whether a rank waits for another one to take or to send a tensor. */
static bool is_in_transfer(const RtStatus *s)
{
    return atomic_load(&s->peer) > 0;
}

static bool is_waiting(const RtWorld *w, const RtStatus *s)
{
    return is_at_barrier(w, s) || is_at_point(w, s) || is_at_decision(s) ||
           is_in_exchange(s) || is_in_transfer(s);
}

/* Whether a rank is among those that another one, which is at a barrier or
 * point, waits for. */
static bool is_awaited(const RtWorld *w, int waiter, int rank)
{
    uint32_t barrier = atomic_load(&w->status[waiter].barrier);
    uint32_t axes = barrier > 0 ? (barrier - 1) / (uint32_t)w->nranks : ~0u;
    if (is_at_decision(&w->status[waiter]))
        return rank == 0;
    if (is_in_transfer(&w->status[waiter]))
        return rank == atomic_load(&w->status[waiter].peer) - 1;
    if (is_in_exchange(&w->status[waiter]))
        axes = atomic_load(&w->status[waiter].exchange) - 1;
    return rank != waiter && rt_in_group(w->model, waiter, rank, axes);
}

static bool has_reached(const RtWorld *w, const RtStatus *waiter,
                        const RtStatus *s)
{
    if (is_in_transfer(waiter))
        return atomic_load(&s->peer) - 1 == waiter - w->status;
    if (is_in_exchange(waiter))
        return atomic_load(&s->exchange) == atomic_load(&waiter->exchange) &&
               atomic_load(&s->collective) == atomic_load(&waiter->collective);
    if (is_at_barrier(w, waiter))
        return is_at_barrier(w, s) &&
               atomic_load(&s->barrier) == atomic_load(&waiter->barrier);
    return is_at_point(w, s) &&
           atomic_load(&s->collective) == atomic_load(&waiter->collective);
}

/* "T": stopped, "R": running, … as proc(5) has it; 0: not known. */
static char process_state(const RtStatus *s)
{
    char path[64], text[512];
    int32_t process = atomic_load(&s->process);
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *f = process > 0 ? fopen(path, "r") : NULL;
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
    const char *end = strrchr(text, ')'); /* the name may hold ')' */
    return end && end[1] == ' ' ? end[2] : 0;
}

static bool is_stopped(const RtStatus *s)
{
    char state = process_state(s);
    return state == 'T' || state == 't';
}

/* A rank that a waiting rank waits for, preferably a stopped one; -1: no rank
 * is late. A rank that was stopped between two writes to its status seems to
 * have arrived, hence a stopped rank counts if no other is late. */
static int late_for(const RtWorld *w, int waiter)
{
    int late = -1, stopped = -1;
    for (int r = w->nranks - 1; r >= 0; r--) {
        const RtStatus *s = &w->status[r];
        if (!is_awaited(w, waiter, r))
            continue;
        bool suspended = is_stopped(s);
        stopped = suspended ? r : stopped;
        if (!has_reached(w, &w->status[waiter], s) &&
            (late < 0 || suspended || !is_stopped(&w->status[late])))
            late = r;
    }
    return late >= 0 ? late : stopped;
}

/* ---- the message -------------------------------------------------------- */

/* " after 'ar3'" */
static void add_collective(RtText *t, const RtWorld *w, const RtStatus *s)
{
    int state = atomic_load(&s->state);
    rt_add(t, " %s '%s'",
           state == RT_WAITING || state == RT_MOVING ? "in" : "after",
           rt_collective_name(w->model, atomic_load(&s->collective)));
}

const char *rt_progress_text(const RtWorld *w, int rank, char text[RT_PROGRESS])
{
    const RtStatus *s = &w->status[rank];
    RtText t = {.at = text, .capacity = RT_PROGRESS};
    rt_add(&t, "in step %lld,", (long long)atomic_load(&s->step));
    add_collective(&t, w, s);
    return text;
}

static void add_loops(RtText *t, const RtWorld *w, const RtStatus *s)
{
    int32_t i = atomic_load(&s->work) - 1;
    if (i < 0 || i >= w->model->nwork || atomic_load(&s->collective) < 0)
        return;
    const ParcWork *work = &w->model->work[i];
    rt_add_loops(t, work, atomic_load(&s->iteration));
    if (work->nloops > 0)
        rt_add(t, ",");
}

/* "in step 7, in 'k07' (llama.pdl:28:5, layer 5)" */
static void add_position(RtText *t, const RtWorld *w, const RtStatus *s)
{
    char where[RT_WHERE];
    int64_t step = atomic_load(&s->step);
    int32_t i = atomic_load(&s->work) - 1;
    if (step > 0)
        rt_add(t, " in step %lld,", (long long)step);
    if (i >= 0 && i < w->model->nwork)
        rt_add(t, "%s",
               rt_work_where(&w->model->work[i], atomic_load(&s->iteration),
                             where));
    else
        add_collective(t, w, s);
}

static void add_state(RtText *t, const RtWorld *w, const RtStatus *s)
{
    int state = atomic_load(&s->state), process = atomic_load(&s->process);
    if (state == RT_STARTING) {
        rt_add(t, w->mapped == w->nranks ? "it is still starting"
                                         : "it does not answer");
        return;
    }
    if (state == RT_DONE) {
        rt_add(t, "it has ended its run");
        return;
    }
    switch (process_state(s)) {
    case 'T':
    case 't':
        rt_add(t, "it is stopped (process %d; 'kill -CONT %d' continues it)",
               process, process);
        break;
    case 'D':
        rt_add(t, "it waits for a disk or for swapped memory (process %d)",
               process);
        break;
    default:
        rt_add(t, is_waiting(w, s) ? "it waits for other ranks"
                                   : "it is still computing");
    }
    add_position(t, w, s);
}

const char *rt_late_text(const RtWorld *w, int rank, int first,
                         char text[RT_LATE])
{
    RtText t = {.at = text, .capacity = RT_LATE};
    int waiter = rank, late = first >= 0 ? first : late_for(w, rank);
    for (int i = 0; i < w->nranks && late >= 0; i++) {
        const RtStatus *s = &w->status[late];
        int next = is_waiting(w, s) ? late_for(w, late) : -1;
        if (next < 0 || next == rank || is_stopped(s))
            break;
        waiter = late;
        late = next;
    }
    const RtStatus *s = &w->status[waiter];
    int32_t id = atomic_load(&s->collective);
    const char *name = rt_collective_name(w->model, id);
    if (late < 0) {
        rt_add(&t, "rank %d waited %d s in '%s', which all ranks have reached",
               rank, w->timeout_seconds, name);
        return text;
    }
    bool in = atomic_load(&w->status[late].state) == RT_MOVING &&
              atomic_load(&w->status[late].collective) == id;
    rt_add(&t, "rank %d did not %s '%s'", late, in ? "finish" : "reach", name);
    add_loops(&t, w, s);
    rt_add(&t, " within %d s; ", w->timeout_seconds);
    add_state(&t, w, &w->status[late]);
    rt_add(&t, "; rank %d waited for it; PARC_TIMEOUT sets the limit", waiter);
    return text;
}

/* ---- the states of ranks without shared memory --------------------------- */

/* Seconds to wait for answers; a rank without an answer counts as dead. */
static const double PATIENCE = 2;

/* The message with a status's state. One call sends all of it, because two
 * threads of a process may write to one lifeline. */
typedef struct StateMessage {
    RtFrame frame;
    int64_t step;
    int32_t state, collective, peer;
    uint32_t begun[PARC_STREAMS];
    uint32_t exchange; /* or the axes of the barrier that it waits at */
} StateMessage;
enum { BODY = sizeof(StateMessage) - sizeof(RtFrame), LOOK_NS = 1000 * 1000 };

static void request_state(const RtStore *s, int link, int32_t requester)
{
    RtFrame f = {.kind = RT_FRAME_REQUEST_STATES, .id = requester};
    rt_socket_send(s->link[link].life, &f, sizeof f, PATIENCE);
}

/* Rank 0: sends the request to all ranks except the one that asks. */
static void request_all(RtStore *s, int32_t requester)
{
    int32_t none = 0;
    if (!atomic_compare_exchange_strong(&s->requester, &none, requester + 1))
        return;
    for (int r = 1; r < s->launch->size; r++)
        if (r != requester && !s->link[r].done)
            request_state(s, r, requester);
}

static StateMessage own_state(const RtStore *s, int32_t requester)
{
    int rank = s->launch->rank;
    const RtStatus *status = &s->world->status[rank];
    StateMessage p = {.frame = {.kind = RT_FRAME_STATE,
                                .id = rank,
                                .a = requester,
                                .bytes = BODY},
                      .step = atomic_load(&status->step),
                      .state = atomic_load(&status->state),
                      .collective = atomic_load(&status->collective),
                      .peer = atomic_load(&status->peer)};
    for (int i = 0; i < PARC_STREAMS; i++)
        p.begun[i] = atomic_load(&status->begun[i]);
    p.exchange = atomic_load(&status->exchange);
    if (is_at_barrier(s->world, status))
        p.exchange = (atomic_load(&status->barrier) - 1) /
                         (uint32_t)s->world->nranks + 1;
    return p;
}

/* Stores an answer to this rank's request in the status of the rank. */
static void store_state(RtStore *s, const StateMessage *p)
{
    int32_t rank = p->frame.id;
    if (rank < 0 || rank >= s->launch->size || rank == s->launch->rank)
        return;
    RtStatus *status = &s->world->status[rank];
    bool shared = rt_is_mapped(s->world, rank); /* then it is up to date */
    if (!shared) {
        atomic_store(&status->step, p->step);
        atomic_store(&status->state, p->state);
        atomic_store(&status->collective, p->collective);
        atomic_store(&status->peer, p->peer);
        atomic_store(&status->exchange, p->exchange);
    }
    for (int i = 0; !shared && i < PARC_STREAMS; i++)
        atomic_store(&status->begun[i], p->begun[i]);
    atomic_fetch_add(&s->states_received, 1);
}

void rt_states_answer(RtStore *s, const RtFrame *f)
{
    int own = s->launch->rank;
    int32_t requester = f->id;
    if (!s->world->status || requester < 0 || requester >= s->launch->size ||
        requester == own)
        return;
    if (own == 0) {
        request_all(s, requester);
        if (atomic_load(&s->requester) != requester + 1)
            return;
    }
    StateMessage p = own_state(s, requester);
    rt_socket_send(s->link[own == 0 ? requester : 0].life, &p, sizeof p,
                   PATIENCE);
}

bool rt_states_receive(RtStore *s, int link, const RtFrame *f)
{
    StateMessage p = {.frame = *f};
    int own = s->launch->rank;
    if (f->bytes != BODY ||
        !rt_socket_receive(s->link[link].life, (char *)&p + sizeof p.frame,
                           BODY, PATIENCE))
        return false;
    if (f->a == own)
        store_state(s, &p);
    else if (own == 0 && f->a > 0 && f->a < s->launch->size)
        rt_socket_send(s->link[f->a].life, &p, sizeof p, PATIENCE);
    return true;
}

void rt_states_request(RtStore *s)
{
    const RtLaunch *l = s->launch;
    if (s->world->mapped == l->size)
        return; /* ranks share their statuses */
    double until = rt_now() + PATIENCE;
    if (l->rank == 0)
        request_all(s, 0);
    else
        request_state(s, 0, l->rank);
    while (atomic_load(&s->states_received) < l->size - 1 && rt_now() < until)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

void rt_states_gather(ParcRt *rt)
{
    if (rt->world->store)
        rt_states_request(rt->world->store);
}
