/* rt_cuda_timeout.c: composes the message of a GPU that does not finish a step
 * in time.
 *
 * Each rank knows which collectives its own device executes
 * (rt_cuda_progress.c) and requests the states of the others
 * (rt_states_gather). The rank whose wait timed out names its collective, with
 * source line and iteration, and the first rank that has not reached it, with
 * that rank's state. If that rank is in another collective, the message
 * follows the chain to the rank that others wait for. If all ranks have
 * reached the collective, the library or the network is at fault, which the
 * message also states.
 *
 *   rank 0 waited 300 s for its GPU to finish step 7, which is in 'ar3 tp
 *   attention.o (llama.pdl:28)', layer 5; rank 3 has not reached it: it
 *   computes, after 'ag0 dp layers.* (llama.pdl:58)', layer 6
 */
#include <stdarg.h>
#include <stdio.h>

#include "common/message.h"
#include "cuda/core/rt_nccl.h"
#include "launch/world.h"
#include "rt.h"

/* A message that is being composed; longer text is truncated. */
typedef struct Text {
    size_t n;
    char at[1536];
} Text;

__attribute__((format(printf, 2, 3))) static void add(Text *t, const char *fmt,
                                                      ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->at + t->n, sizeof t->at - t->n, fmt, ap);
    va_end(ap);
    t->n += n > 0 ? (size_t)n : 0;
    t->n = t->n < sizeof t->at ? t->n : sizeof t->at - 1;
}

static void add_position(Text *t, const ParcRt *rt, const CudaPosition *p)
{
    int64_t at[PARC_MAX_LOOPS];
    add(t, "'%s'", rt_collective_name(rt->model, p->id));
    if (p->work < 0 || p->work >= rt->model->nwork)
        return;
    const ParcWork *w = &rt->model->work[p->work];
    rt_work_iterations(w, p->iteration, at);
    for (int i = 0; i < w->nloops; i++)
        add(t, ", %s %lld", w->loop[i].name, (long long)at[i]);
}

/* Adds the collectives that the rank's device executes; false: none. */
static bool add_begun(Text *t, const ParcRt *rt, const RtSlot *slot)
{
    bool any = false;
    for (int i = 0; i < PARC_STREAMS; i++) {
        uint32_t word = atomic_load(&slot->begun[i]);
        const CudaPosition *p = rt_cuda_progress_position(rt, i, word);
        if (p && word % 2 == 1) {
            add(t, any ? " and in " : "is in ");
            add_position(t, rt, p);
            any = true;
        }
    }
    return any;
}

/* Adds the latest collective of each stream. */
static void add_ended(Text *t, const ParcRt *rt, const RtSlot *slot)
{
    bool any = false;
    for (int i = 0; i < PARC_STREAMS; i++) {
        const CudaPosition *p =
            rt_cuda_progress_position(rt, i, atomic_load(&slot->begun[i]));
        if (p) {
            add(t, any ? " and " : "computes, after ");
            add_position(t, rt, p);
            any = true;
        }
    }
    if (!any)
        add(t, "computes, before the first collective");
}

static void add_where(Text *t, const ParcRt *rt, const RtSlot *slot)
{
    if (!add_begun(t, rt, slot))
        add_ended(t, rt, slot);
}

/* Whether the rank has not started or has ended its run. */
static bool is_away(const RtSlot *slot)
{
    int state = atomic_load(&slot->state);
    return state == RT_STARTING || state == RT_DONE;
}

static void add_peer(Text *t, const ParcRt *rt, const RtSlot *slot)
{
    int64_t step = atomic_load(&slot->step);
    if (is_away(slot)) {
        add(t, atomic_load(&slot->state) == RT_DONE ? "it has ended its run"
                                                    : "it does not answer");
        return;
    }
    add(t, "it ");
    if (step != atomic_load(&rt->world->slot[rt->rank].step))
        add(t, "is in step %lld and ", (long long)step);
    add_where(t, rt, slot);
}

/* Whether rank b has not reached the collective of a's stream. */
static bool has_not_reached(const RtSlot *b, const RtSlot *a, int stream)
{
    int64_t steps = atomic_load(&a->step) - atomic_load(&b->step);
    return is_away(b) || steps > 0 ||
           (steps == 0 &&
            atomic_load(&b->begun[stream]) < atomic_load(&a->begun[stream]));
}

/* The collective of a rank on one stream, and the ranks that have not reached
 * it. */
typedef struct Missing {
    const CudaPosition *position; /* NULL: all ranks have reached it */
    int first, n;           /* first of the missing ranks; how many they are */
} Missing;

static Missing missing_on(const ParcRt *rt, int rank, int stream)
{
    const RtSlot *slot = rt->world->slot;
    uint32_t word = atomic_load(&slot[rank].begun[stream]);
    Missing m = {.position = rt_cuda_progress_position(rt, stream, word)};
    for (int r = rt->nranks - 1; m.position && word % 2 == 1 && r >= 0; r--) {
        uint32_t axes = rt->model->collective_axes[m.position->id];
        if (rt_in_group(rt->model, rank, r, axes) &&
            has_not_reached(&slot[r], &slot[rank], stream)) {
            m.first = r;
            m.n++;
        }
    }
    m.position = m.n > 0 ? m.position : NULL;
    return m;
}

static Missing missing_to(const ParcRt *rt, int rank)
{
    Missing m = {0};
    for (int i = 0; !m.position && i < PARC_STREAMS; i++)
        m = missing_on(rt, rank, i);
    return m;
}

/* The first rank that has finished the collective of a rank's stream; -1:
 * none. */
static int ended_on(const ParcRt *rt, int rank, int stream)
{
    const RtSlot *slot = rt->world->slot;
    uint32_t word = atomic_load(&slot[rank].begun[stream]);
    const CudaPosition *p = rt_cuda_progress_position(rt, stream, word);
    for (int r = 0; p && word % 2 == 1 && r < rt->nranks; r++) {
        uint32_t axes = rt->model->collective_axes[p->id];
        int64_t steps =
            atomic_load(&slot[r].step) - atomic_load(&slot[rank].step);
        if (!is_away(&slot[r]) && rt_in_group(rt->model, rank, r, axes) &&
            (steps > 0 ||
             (steps == 0 && atomic_load(&slot[r].begun[stream]) > word)))
            return r;
    }
    return -1;
}

/* Adds the state of the other ranks for a collective that all have reached.
 * `own`: the text is about the rank that prints, whose collectives it has just
 * named. */
static void add_all_there(Text *t, const ParcRt *rt, int rank, bool own)
{
    const RtSlot *slot = &rt->world->slot[rank];
    Text begun = {0};
    if (!add_begun(&begun, rt, slot))
        return;
    for (int i = 0; i < PARC_STREAMS; i++) {
        int r = ended_on(rt, rank, i);
        if (r >= 0) {
            add(t, "; all its ranks have reached it, and rank %d has finished "
                   "", r);
            add_position(
                t, rt,
                rt_cuda_progress_position(rt, i, atomic_load(&slot->begun[i])));
            return;
        }
    }
    add(t, own ? "; all its ranks are in it"
               : ", and all ranks of that collective are in it");
}

/* Follows the chain of ranks, each of which waits for the next, to a rank that
 * waits for no other. */
static void add_missing(Text *t, const ParcRt *rt)
{
    int rank = rt->rank;
    for (int i = 0; i < rt->nranks; i++) {
        Missing m = missing_to(rt, rank);
        if (is_away(&rt->world->slot[rank]))
            return;
        if (!m.position) {
            add_all_there(t, rt, rank, i == 0);
            return;
        }
        add(t, "; rank %d ", m.first);
        if (m.n > 1)
            add(t, "and %d more have", m.n - 1);
        else
            add(t, "has");
        add(t, " not reached ");
        add_position(t, rt, m.position);
        add(t, ": ");
        rank = m.first;
        add_peer(t, rt, &rt->world->slot[rank]);
    }
}

/* Adds a collective that another rank is in while this rank's device
 * computes. */
static void add_waiting(Text *t, const ParcRt *rt)
{
    for (int r = 0; r < rt->nranks; r++) {
        const RtSlot *slot = &rt->world->slot[r];
        Text begun = {0};
        if (r != rt->rank && !is_away(slot) && add_begun(&begun, rt, slot)) {
            add(t, "; rank %d %s", r, begun.at);
            return;
        }
    }
}

_Noreturn void rt_cuda_timeout(ParcRt *rt, const char *what)
{
    const RtSlot *own = &rt->world->slot[rt->rank];
    Text t = {0};
    char where[RT_WHERE];
    rt_cuda_progress_publish(rt);
    rt_states_gather(rt);
    add(&t, "rank %d waited %d s for its GPU to finish ", rt->rank,
        rt->world->timeout_seconds);
    if (rt->device->work >= 0)
        add(&t, "%s%s of ", what, rt_cuda_where(rt, where));
    add(&t, "step %lld, which ", (long long)atomic_load(&own->step));
    if (!add_begun(&t, rt, own)) {
        add_ended(&t, rt, own);
        add_waiting(&t, rt);
        rt_fail(rt, "%s; PARC_SYNC=1 names the statement that does not end, "
                    "PARC_TIMEOUT sets the limit", t.at);
    }
    add_missing(&t, rt);
    rt_fail(rt, "%s; PARC_TIMEOUT sets the limit", t.at);
}
