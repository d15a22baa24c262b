/* stop_decision.c: lets rank 0 decide, between steps, for all ranks whether the
 * run goes on, is saved or stops.
 *
 * Signals and the limit of --max-time reach ranks at different times. If each
 * rank acted by itself, some would begin a step that others do not. Hence rank
 * 0 decides at points that all ranks pass in the same order, numbered from 1.
 *
 * Protocol. Information flows from rank 0 to the others only. Rank 0 publishes
 * its decision for point N and goes on. Another rank that reaches point N waits
 * until rank 0 has published it.
 *
 *   rank 0   step 7 | point 7: SIGTERM is recorded; publish STOP | save | end
 *   rank 3   step 7   | point 7: wait, read STOP                 | save | end
 *
 * No deadlock: rank 0 never waits here. Rank r waits at point N only for rank 0
 * to reach point N, and to reach it rank 0 needs from rank r only what precedes
 * point N. If rank 0 is lost or late, the usual limits end the run.
 *
 * In shared memory `decided` is the latest decided point; a decision other than
 * "go on" is stored, with its point, before `decided`. The next such decision
 * cannot overwrite it too early: all ranks carry out a decision together (a
 * save and the end of the run are synchronization points). RT_STOP may follow
 * RT_SAVE before that, and includes it.
 *
 * Over the connections of a job a decision is a message, and each one says at
 * which point the next one follows: about INTERVAL later, by the time that the
 * previous points took. All points in between are "go on".
 *
 * Requires that all ranks call the functions in the same order. Ensures that
 * rt_agree returns the same value on all ranks.
 */
#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "options/options.h"
#include "rt.h"
#include "run.h"

/* Seconds between messages, and the most points between them. */
static const double INTERVAL = 0.1;
enum { MOST_POINTS = 256 };

/* A decision of rank 0, as a message. */
typedef struct Decision {
    int32_t verdict, status;
    uint32_t next, pad;
} Decision;

static bool is_shared(const RtWorld *w)
{
    return w->mapped == w->nranks;
}

/* ---- rank 0 ---------------------------------------------------------------- */

/* SIGUSR1 has requested a save. */
static int decide_save(const RtRun *run)
{
    const RtOptions *o = &run->options;
    if (!o->save) {
        rt_note("SIGUSR1: the run is not saved, because it has no --save DIR; "
                "it continues");
        return 0;
    }
    return RT_SAVE;
}

/* The step of a decision during an evaluation is not in run->done yet. */
static void report_stop(const RtRun *run, const char *why)
{
    const RtOptions *o = &run->options;
    int64_t current = atomic_load(&run->world.status[0].step);
    int64_t step = current > run->done ? current : run->done;
    char name[RT_SAVE_NAME];
    rt_step_name(step, name);
    if (o->save)
        rt_note(
            "%s: the run stops after step %lld of %lld, with the checkpoint "
            "'%s/%s'",
            why, (long long)step, (long long)o->steps, o->save, name);
    else
        rt_note("%s: the run stops after step %lld of %lld%s", why,
                (long long)step, (long long)o->steps,
                step < o->steps
                    ? "; it is not saved, because it has no --save DIR"
                    : "");
}

/* Decides for all ranks; RT_STOP is decided once. */
static Decision decide(RtRun *run)
{
    const RtOptions *o = &run->options;
    RtAgree *a = &run->agree;
    RtSignals *s = &run->world.control->signals;
    Decision d = {0};
    uint32_t saves = atomic_load(&s->saves);
    int stop = atomic_load(&s->stop);
    if (a->pending & RT_STOP)
        return d;
    if (stop || (o->max_time > 0 &&
                 rt_now() - run->begin >= (double)o->max_time)) {
        d.verdict = RT_STOP | (o->save ? RT_SAVE : 0);
        d.status = stop ? 128 + stop : 0;
        report_stop(run, stop ? rt_signal_name(stop) : "--max-time");
    } else if (saves != a->saves) {
        a->saves = saves;
        d.verdict = decide_save(run);
    }
    return d;
}

/* The point of the next message, such that INTERVAL passes until then. */
static uint32_t next_point(RtAgree *a)
{
    double now = rt_now();
    uint32_t points = a->point - a->before;
    double each = (now - a->since) / points;
    double n = each > 0 ? INTERVAL / each : MOST_POINTS;
    uint32_t most = 2 * points < MOST_POINTS ? 2 * points : MOST_POINTS;
    a->since = now;
    return a->point + (n < 1 ? 1 : n > most ? most : (uint32_t)n);
}

/* ---- all ranks ------------------------------------------------------------- */

static void adopt(RtRun *run, const Decision *d)
{
    run->agree.pending |= d->verdict;
    if (d->verdict & RT_STOP)
        atomic_store(&run->world.control->agreement.status, d->status);
}

static void agree_in_memory(ParcRt *rt, RtRun *run)
{
    RtAgreement *c = &rt->world->control->agreement;
    RtStatus *status = &rt->world->status[rt->rank];
    uint32_t point = run->agree.point, seen;
    if (rt->rank == 0) {
        Decision d = decide(run);
        if (d.verdict) {
            atomic_store(&c->verdict, d.verdict);
            atomic_store(&c->point, point);
        }
        adopt(run, &d);
        atomic_store(&c->decided, point);
        rt_wake(&c->decided);
        return;
    }
    if ((int32_t)((seen = atomic_load(&c->decided)) - point) < 0) {
        int32_t before = atomic_load(&status->collective);
        atomic_store(&status->collective, RT_AT_DECISION);
        atomic_store(&status->state, RT_WAITING);
        do {
            rt_wait_change(rt, &c->decided, seen, 0);
            seen = atomic_load(&c->decided);
        } while ((int32_t)(seen - point) < 0);
        atomic_store(&status->collective, before); /* named in messages */
        atomic_store(&status->state, RT_COMPUTING);
    }
    if (atomic_load(&c->point) == point)
        run->agree.pending |= atomic_load(&c->verdict);
}

static void agree_over_connections(ParcRt *rt, RtRun *run)
{
    RtAgree *a = &run->agree;
    RtStatus *status = &rt->world->status[rt->rank];
    Decision d = {0};
    if (a->point != a->next)
        return;
    if (rt->rank == 0) {
        d = decide(run);
        d.next = next_point(a);
    } else {
        atomic_store(&status->collective, RT_AT_DECISION);
        atomic_store(&status->state, RT_WAITING);
    }
    rt_job_broadcast(rt->world->store, RT_AT_DECISION, &d, sizeof d);
    atomic_store(&status->state, RT_COMPUTING);
    a->before = a->point;
    a->next = d.next;
    adopt(run, &d);
}

void rt_agree_start(RtRun *run)
{
    run->agree = (RtAgree){.next = 1, .since = rt_now()};
    atomic_store(&run->world.control->signals.runs, 1);
}

int rt_agree(ParcRt *rt, RtRun *run)
{
    if (run->agree.next == 0) /* not started */
        return 0;
    run->agree.point++;
    if (is_shared(rt->world))
        agree_in_memory(rt, run);
    else
        agree_over_connections(rt, run);
    return run->agree.pending;
}

void rt_agree_saved(RtRun *run)
{
    run->agree.pending &= ~RT_SAVE;
    run->agree.next = run->agree.point + 1;
}

int rt_agree_status(const RtWorld *w)
{
    return w->control ? atomic_load(&w->control->agreement.status) : 0;
}
