/* rt_places.c: where the ranks of a job are, for one that has waited too long.
 *
 * Ranks that share memory see each other's slots. Those of a launcher ask over
 * their lifelines: the one that asks tells rank 0, which asks all others and
 * passes on what they answer; the threads that listen there do all of that,
 * whatever their processes wait for. Rank 0 serves the first that asks: of
 * ranks that hang one speaks.
 */
#include <string.h>
#include <time.h>

#include "rt_job.h"

/* How long it waits for answers; who has not said anything by then is taken
 * for dead. */
static const double PATIENCE = 2;

/* What a slot says, as a message. One call sends it, since two threads of a
 * process may speak on one line. */
typedef struct Place {
    RtFrame frame;
    int64_t step;
    int32_t state, collective;
    uint32_t begun[PARC_STREAMS], pad;
} Place;
enum { BODY = sizeof(Place) - sizeof(RtFrame) };

static void ask(const RtStore *s, int link, int32_t asker)
{
    RtFrame f = {.say = RT_SAY_WHERE, .id = asker};
    rt_store_send(s->link[link].life, &f, sizeof f, PATIENCE);
}

/* Rank 0, to all but the one that asks. */
static void ask_all(RtStore *s, int32_t asker)
{
    int32_t nobody = 0;
    if (!atomic_compare_exchange_strong(&s->asker, &nobody, asker + 1)) {
        return;
    }
    for (int r = 1; r < s->launch->size; r++) {
        if (r != asker && !s->link[r].done) {
            ask(s, r, asker);
        }
    }
}

static Place own_place(const RtStore *s, int32_t asker)
{
    int rank = s->launch->rank;
    const RtSlot *slot = &s->world->slot[rank];
    Place p = {.frame = {.say = RT_SAY_PLACE, .id = rank, .a = asker,
                         .bytes = BODY},
               .step = atomic_load(&slot->step),
               .state = atomic_load(&slot->state),
               .collective = atomic_load(&slot->collective)};
    for (int i = 0; i < PARC_STREAMS; i++) {
        p.begun[i] = atomic_load(&slot->begun[i]);
    }
    return p;
}

/* For this rank: into the slot that it has of the other. */
static void take(RtStore *s, const Place *p)
{
    int32_t rank = p->frame.id;
    if (rank < 0 || rank >= s->launch->size || rank == s->launch->rank) {
        return;
    }
    RtSlot *slot = &s->world->slot[rank];
    atomic_store(&slot->step, p->step);
    atomic_store(&slot->state, p->state);
    atomic_store(&slot->collective, p->collective);
    for (int i = 0; i < PARC_STREAMS; i++) {
        atomic_store(&slot->begun[i], p->begun[i]);
    }
    atomic_fetch_add(&s->heard, 1);
}

void rt_places_asked(RtStore *s, const RtFrame *f)
{
    int own = s->launch->rank;
    int32_t asker = f->id;
    if (!s->world->slot || asker < 0 || asker >= s->launch->size ||
        asker == own) {
        return;
    }
    if (own == 0) {
        ask_all(s, asker);
        if (atomic_load(&s->asker) != asker + 1) {
            return;
        }
    }
    Place p = own_place(s, asker);
    rt_store_send(s->link[own == 0 ? asker : 0].life, &p, sizeof p, PATIENCE);
}

bool rt_places_told(RtStore *s, int link, const RtFrame *f)
{
    Place p = {.frame = *f};
    int own = s->launch->rank;
    if (f->bytes != BODY || !rt_store_receive(s->link[link].life,
                                              (char *)&p + sizeof p.frame,
                                              BODY, PATIENCE)) {
        return false;
    }
    if (f->a == own) {
        take(s, &p);
    } else if (own == 0 && f->a > 0 && f->a < s->launch->size) {
        rt_store_send(s->link[f->a].life, &p, sizeof p, PATIENCE);
    }
    return true;
}

void rt_places_ask(RtStore *s)
{
    const RtLaunch *l = s->launch;
    if (s->world->mapped == l->size) {
        return; /* ranks share their slots */
    }
    double until = rt_now() + PATIENCE;
    if (l->rank == 0) {
        ask_all(s, 0);
    } else {
        ask(s, 0, l->rank);
    }
    while (atomic_load(&s->heard) < l->size - 1 && rt_now() < until) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

void rt_places_gather(ParcRt *rt)
{
    if (rt->world->store) {
        rt_places_ask(rt->world->store);
    }
}
