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

static void ask_state(const RtStore *s, int link, int32_t asker)
{
    RtFrame f = {.say = RT_SAY_WHERE, .id = asker};
    rt_store_send(s->link[link].life, &f, sizeof f, PATIENCE);
}

/* Rank 0: sends the request to all ranks except the one that asks. */
static void ask_all(RtStore *s, int32_t asker)
{
    int32_t nobody = 0;
    if (!atomic_compare_exchange_strong(&s->asker, &nobody, asker + 1))
        return;
    for (int r = 1; r < s->launch->size; r++)
        if (r != asker && !s->link[r].done)
            ask_state(s, r, asker);
}

static StateMessage own_state(const RtStore *s, int32_t asker)
{
    int rank = s->launch->rank;
    const RtSlot *slot = &s->world->slot[rank];
    StateMessage p = {
        .frame = {.say = RT_SAY_STATE, .id = rank, .a = asker, .bytes = BODY},
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
    atomic_fetch_add(&s->heard, 1);
}

void rt_states_answer(RtStore *s, const RtFrame *f)
{
    int own = s->launch->rank;
    int32_t asker = f->id;
    if (!s->world->slot || asker < 0 || asker >= s->launch->size ||
        asker == own)
        return;
    if (own == 0) {
        ask_all(s, asker);
        if (atomic_load(&s->asker) != asker + 1)
            return;
    }
    StateMessage p = own_state(s, asker);
    rt_store_send(s->link[own == 0 ? asker : 0].life, &p, sizeof p, PATIENCE);
}

bool rt_states_receive(RtStore *s, int link, const RtFrame *f)
{
    StateMessage p = {.frame = *f};
    int own = s->launch->rank;
    if (f->bytes != BODY || !rt_store_receive(s->link[link].life,
                                              (char *)&p + sizeof p.frame,
                                              BODY, PATIENCE))
        return false;
    if (f->a == own)
        store_state(s, &p);
    else if (own == 0 && f->a > 0 && f->a < s->launch->size)
        rt_store_send(s->link[f->a].life, &p, sizeof p, PATIENCE);
    return true;
}

void rt_states_ask(RtStore *s)
{
    const RtLaunch *l = s->launch;
    if (s->world->mapped == l->size)
        return; /* ranks share their slots */
    double until = rt_now() + PATIENCE;
    if (l->rank == 0)
        ask_all(s, 0);
    else
        ask_state(s, 0, l->rank);
    while (atomic_load(&s->heard) < l->size - 1 && rt_now() < until)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

void rt_states_gather(ParcRt *rt)
{
    if (rt->world->store)
        rt_states_ask(rt->world->store);
}
