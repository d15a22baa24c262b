/* rank_states.c: requests the states of all ranks of a job, for the message of
 * a rank whose wait has timed out.
 *
 * Ranks that share memory read each other's states there (RtSlot). Ranks of a
 * launcher use their lifelines, the connections to rank 0 on which failures are
 * reported: the rank sends a request to rank 0, rank 0 forwards it to all other
 * ranks and returns their answers. A separate thread of each process (watcher)
 * handles these messages, so they work while the main threads wait. Rank 0
 * serves only the first request, because one message is enough.
 */
#include <string.h>
#include <time.h>

#include "common/message.h"
#include "launch/job.h"
#include "launch/socket.h"
#include "launch/world.h"
#include "rt.h"

/* Seconds to wait for answers; a rank without an answer counts as dead. */
static const double PATIENCE = 2;

/* The message with a slot's state. One call sends all of it, because two
 * threads of a process may write to one lifeline. */
typedef struct StateMessage {
    RtFrame frame;
    int64_t step;
    int32_t state, collective;
    uint32_t begun[PARC_STREAMS], pad;
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
    const RtSlot *slot = &s->world->slot[rank];
    StateMessage p = {.frame = {.kind = RT_FRAME_STATE,
                                .id = rank,
                                .a = requester,
                                .bytes = BODY},
                      .step = atomic_load(&slot->step),
                      .state = atomic_load(&slot->state),
                      .collective = atomic_load(&slot->collective)};
    for (int i = 0; i < PARC_STREAMS; i++)
        p.begun[i] = atomic_load(&slot->begun[i]);
    return p;
}

/* Stores an answer to this rank's request in the slot of the rank. */
static void store_state(RtStore *s, const StateMessage *p)
{
    int32_t rank = p->frame.id;
    if (rank < 0 || rank >= s->launch->size || rank == s->launch->rank)
        return;
    RtSlot *slot = &s->world->slot[rank];
    atomic_store(&slot->step, p->step);
    atomic_store(&slot->state, p->state);
    atomic_store(&slot->collective, p->collective);
    for (int i = 0; i < PARC_STREAMS; i++)
        atomic_store(&slot->begun[i], p->begun[i]);
    atomic_fetch_add(&s->states_received, 1);
}

void rt_states_answer(RtStore *s, const RtFrame *f)
{
    int own = s->launch->rank;
    int32_t requester = f->id;
    if (!s->world->slot || requester < 0 || requester >= s->launch->size ||
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
        return; /* ranks share their slots */
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
