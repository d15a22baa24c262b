/* rt_cuda_wait.c: waits for the device, and composes the message of a device
 * that does not finish a step in time.
 *
 * The host polls instead of blocking in the driver, so that a collective whose
 * peer has died ends with a message. It polls without pause for a short time,
 * since the result of a small step is available almost immediately, then with
 * pauses that are short relative to a step.
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
#include <time.h>

#include "common/message.h"
#include "cuda/core/rt_nccl.h"
#include "launch/world.h"
#include "rt.h"

/* ---- the message of a step that does not end ----------------------------- */

/* Longer messages are truncated. */
enum { MESSAGE = 1536 };

static void add_position(RtText *t, const ParcRt *rt, const CudaPosition *p)
{
    rt_add(t, "'%s'", rt_collective_name(rt->model, p->id));
    if (p->work >= 0 && p->work < rt->model->nwork)
        rt_add_loops(t, &rt->model->work[p->work], p->iteration);
}

/* Whether this rank's table explains the words of the other, whose stage of a
 * pipeline is the same. */
static bool has_same_order(const ParcRt *rt, int rank)
{
    uint32_t axis = rt->model->pipeline;
    return rt_index(rt->model, rank, axis) ==
           rt_index(rt->model, rt->rank, axis);
}

/* The collective in which the rank's stream is (*begun), or the latest; false: none.
 * Of a rank on another stage only the latest of all streams is known. */
static bool position_on(const ParcRt *rt, int rank, int stream, CudaPosition *at,
                        bool *begun)
{
    const RtStatus *status = &rt->world->status[rank];
    if (!has_same_order(rt, rank)) {
        *at = (CudaPosition){.id = atomic_load(&status->collective), .work = -1,
                             .peer = atomic_load(&status->peer)};
        *begun = atomic_load(&status->state) == RT_MOVING;
        return stream == PARC_COMPUTE;
    }
    uint32_t word = atomic_load(&status->begun[stream]);
    const CudaPosition *p = rt_cuda_progress_position(rt, stream, word);
    *begun = word % 2 == 1;
    if (p)
        *at = *p;
    return p != NULL;
}

/* Adds the collectives that the rank's device executes, or the latest of each
 * stream. False: there is none. */
static bool add_collectives(RtText *t, const ParcRt *rt, int rank, bool begun)
{
    const char *before = begun ? "is in " : "computes, after ";
    bool any = false;
    for (int i = 0; i < PARC_STREAMS; i++) {
        CudaPosition p;
        bool in;
        if (position_on(rt, rank, i, &p, &in) && (in || !begun)) {
            rt_add(t, "%s", before);
            add_position(t, rt, &p);
            before = begun ? " and in " : " and ";
            any = true;
        }
    }
    return any;
}

/* False: the rank's device is in no collective. */
static bool add_where(RtText *t, const ParcRt *rt, int rank)
{
    if (add_collectives(t, rt, rank, true))
        return true;
    if (!add_collectives(t, rt, rank, false))
        rt_add(t, "computes, before the first collective");
    return false;
}

/* Whether the rank has not started or has ended its run. */
static bool is_away(const RtStatus *status)
{
    int state = atomic_load(&status->state);
    return state == RT_STARTING || state == RT_DONE;
}

static void add_peer(RtText *t, const ParcRt *rt, int rank)
{
    const RtStatus *status = &rt->world->status[rank];
    int64_t step = atomic_load(&status->step);
    if (is_away(status)) {
        rt_add(t, atomic_load(&status->state) == RT_DONE
                      ? "it has ended its run"
                      : "it does not answer");
        return;
    }
    rt_add(t, "it ");
    if (step != atomic_load(&rt->world->status[rt->rank].step))
        rt_add(t, "is in step %lld and ", (long long)step);
    add_where(t, rt, rank);
}

/* The position of rank b relative to a's collective on a stream: negative if
 * it has not reached the collective, positive if it has passed it. */
static int compare_progress(const RtStatus *b, const RtStatus *a, int stream)
{
    int64_t steps = atomic_load(&b->step) - atomic_load(&a->step);
    int64_t words = (int64_t)atomic_load(&b->begun[stream]) -
                    (int64_t)atomic_load(&a->begun[stream]);
    int64_t x = steps ? steps : words;
    return is_away(b) ? -1 : (x > 0) - (x < 0);
}

/* The same for a's collective, if the order of b's stage is another one: whether b is
 * in it is known, but not whether it has passed it, which is the less likely. */
static int compare_stages(const RtStatus *b, const RtStatus *a, int32_t id)
{
    bool there = atomic_load(&b->state) == RT_MOVING &&
                 atomic_load(&b->collective) == id &&
                 atomic_load(&b->step) == atomic_load(&a->step);
    return there ? 0 : -1;
}

/* Whether b is at the other end of a's transfer. */
static bool is_at_transfer(const ParcRt *rt, int b, int a)
{
    const RtStatus *status = rt->world->status;
    return atomic_load(&status[b].peer) - 1 == a &&
           atomic_load(&status[b].step) == atomic_load(&status[a].step);
}

/* The collective that a rank's stream is in, and its ranks that have not
 * reached it or have finished it. */
typedef struct Group {
    CudaPosition position;
    bool begun;            /* false: the stream is in no collective */
    int missing, nmissing; /* first of the missing ranks; how many they are */
    int finished;          /* first of the finished ranks; -1: none */
} Group;

static Group group_on(const ParcRt *rt, int rank, int stream)
{
    const RtStatus *status = rt->world->status;
    Group g = {.finished = -1};
    if (!position_on(rt, rank, stream, &g.position, &g.begun))
        g.begun = false;
    int peer = g.begun ? g.position.peer - 1 : -1;
    if (peer >= 0) {
        g.missing = peer;
        g.nmissing = !is_at_transfer(rt, peer, rank);
        return g;
    }
    for (int r = rt->nranks - 1; g.begun && r >= 0; r--) {
        uint32_t axes = rt->model->collective_axes[g.position.id];
        if (r == rank || !rt_in_group(rt->model, rank, r, axes))
            continue;
        bool same = rt_index(rt->model, r, rt->model->pipeline) ==
                    rt_index(rt->model, rank, rt->model->pipeline);
        int order = same ? compare_progress(&status[r], &status[rank], stream)
                         : compare_stages(&status[r], &status[rank],
                                          g.position.id);
        g.finished = order > 0 ? r : g.finished;
        g.missing = order < 0 ? r : g.missing;
        g.nmissing += order < 0;
    }
    return g;
}

/* Adds the state of the other ranks for a collective that all have reached.
 * `own`: the text is about the rank that prints, whose collectives it has just
 * named. */
static void add_all_there(RtText *t, const ParcRt *rt, int rank, bool own)
{
    bool any = false;
    for (int i = 0; i < PARC_STREAMS; i++) {
        Group g = group_on(rt, rank, i);
        any = any || g.begun;
        if (g.finished >= 0) {
            rt_add(t, "; all its ranks have reached it, and rank %d has "
                      "finished ", g.finished);
            add_position(t, rt, &g.position);
            return;
        }
    }
    if (any)
        rt_add(t, own ? "; all its ranks are in it"
                      : ", and all ranks of that collective are in it");
}

/* Follows the chain of ranks, each of which waits for the next, to a rank that
 * waits for no other. */
static void add_missing(RtText *t, const ParcRt *rt)
{
    int rank = rt->rank;
    for (int i = 0; i < rt->nranks; i++) {
        Group g = {0};
        if (is_away(&rt->world->status[rank]))
            return;
        for (int s = 0; g.nmissing == 0 && s < PARC_STREAMS; s++)
            g = group_on(rt, rank, s);
        if (g.nmissing == 0) {
            add_all_there(t, rt, rank, i == 0);
            return;
        }
        rt_add(t, "; rank %d ", g.missing);
        if (g.nmissing > 1)
            rt_add(t, "and %d more have", g.nmissing - 1);
        else
            rt_add(t, "has");
        rt_add(t, " not reached ");
        add_position(t, rt, &g.position);
        rt_add(t, ": ");
        rank = g.missing;
        add_peer(t, rt, rank);
    }
}

/* Adds a collective that another rank is in while this rank's device
 * computes. */
static void add_waiting(RtText *t, const ParcRt *rt)
{
    for (int r = 0; r < rt->nranks; r++) {
        char text[MESSAGE] = "";
        RtText begun = {.at = text, .capacity = sizeof text};
        if (r != rt->rank && !is_away(&rt->world->status[r]) &&
            add_collectives(&begun, rt, r, true)) {
            rt_add(t, "; rank %d %s", r, text);
            return;
        }
    }
}

_Noreturn static void fail_step(ParcRt *rt, const char *what)
{
    const RtStatus *own = &rt->world->status[rt->rank];
    char text[MESSAGE], where[RT_WHERE];
    RtText t = {.at = text, .capacity = sizeof text};
    rt_cuda_progress_publish(rt);
    rt_states_gather(rt);
    rt_add(&t, "rank %d waited %d s for its GPU to finish ", rt->rank,
           rt->world->timeout_seconds);
    if (rt->device->work >= 0)
        rt_add(&t, "%s%s of ", what, rt_cuda_where(rt, where));
    rt_add(&t, "step %lld, which ", (long long)atomic_load(&own->step));
    if (!add_where(&t, rt, rt->rank)) {
        add_waiting(&t, rt);
        rt_fail(rt, "%s; PARC_SYNC=1 names the statement that does not end, "
                    "PARC_TIMEOUT sets the limit", text);
    }
    add_missing(&t, rt);
    rt_fail(rt, "%s; PARC_TIMEOUT sets the limit", text);
}

/* ---- waiting ------------------------------------------------------------- */

static const double EAGER_SECONDS = 200e-6;

/* Time between two looks counts as at most one second: while a whole run is
 * stopped, the limit does not approach. */
static const double LONGEST_SLICE = 1;

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

_Noreturn static void fail_wait(ParcRt *rt, const char *what)
{
    char where[RT_WHERE];
    if (rt->device->comms && atomic_load(&rt->world->status[rt->rank].step) > 0)
        fail_step(rt, what);
    rt_fail(rt,
            "rank %d waited %d s for its GPU to finish %s%s; PARC_SYNC=1 "
            "names the statement that does not end, PARC_TIMEOUT sets the "
            "limit",
            rt->rank, rt->world->timeout_seconds, what,
            rt_cuda_where(rt, where));
}

/* The work that is waited for: exactly one of the two is set. */
typedef struct Awaited {
    CuStream stream;
    CuEvent event;
} Awaited;

static CuResult query_awaited(const RtDevice *d, const Awaited *a)
{
    return a->event ? d->cu.cuEventQuery(a->event)
                    : d->cu.cuStreamQuery(a->stream);
}

static void wait_for(ParcRt *rt, const Awaited *a, const char *what)
{
    const RtDevice *d = rt->device;
    CuResult r = query_awaited(d, a);
    if (r == RT_CU_NOT_READY) {
        double waited = 0, last = rt_now();
        while ((r = query_awaited(d, a)) == RT_CU_NOT_READY) {
            double now = rt_now(), slice = now - last;
            waited += slice < LONGEST_SLICE ? slice : LONGEST_SLICE;
            last = now;
            if (waited > rt->world->timeout_seconds)
                fail_wait(rt, what);
            if (waited > EAGER_SECONDS) {
                rt_cuda_progress_publish(rt);
                rt_nccl_watch(rt);
                pause_briefly();
            }
        }
    }
    rt_cuda_check(rt, r, what);
}

void rt_cuda_wait_stream(ParcRt *rt, int stream, const char *what)
{
    wait_for(rt, &(Awaited){.stream = rt->device->stream[stream]}, what);
}

void rt_cuda_wait_event(ParcRt *rt, CuEvent event, const char *what)
{
    wait_for(rt, &(Awaited){.event = event}, what);
}

void rt_cuda_queued(ParcRt *rt, int stream, const char *what)
{
    if (rt->device->mode.sync)
        rt_cuda_wait_stream(rt, stream, what);
}
