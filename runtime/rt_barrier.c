/* rt_barrier.c: where the ranks of a group meet.
 *
 * A counter and a phase: the last to arrive resets the counter, turns the
 * phase over and wakes the others, who wait on the phase as a futex. With a
 * core for every thread a rank looks a short while before it sleeps; with
 * more ranks than cores it sleeps at once, since whoever it waits for may
 * need the very core. Nobody waits longer than the limit: a lost peer ends
 * the run with a message instead of hanging it.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rt_job.h"

enum { LOOKS = 2000 };

static void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleeps while *word is `value`, for `seconds` at most. */
static void futex_wait(_Atomic uint32_t *word, uint32_t value, double seconds)
{
    struct timespec limit = {.tv_sec = (time_t)seconds};
    limit.tv_nsec = (long)((seconds - (double)limit.tv_sec) * 1e9);
    syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Names a rank of the group that has not come. */
_Noreturn static void give_up(ParcRt *rt, const RtGroup *g, uint32_t barrier)
{
    RtWorld *w = rt->world;
    RtSlot *own = &w->slot[rt->rank];
    const char *here =
        rt_collective_name(rt->model, atomic_load(&own->collective));
    for (int i = 0; i < g->n; i++) {
        RtSlot *s = &w->slot[g->member[i]];
        int32_t state = atomic_load(&s->state);
        if (atomic_load(&s->barrier) == barrier + 1) {
            continue;
        }
        bool in = state == RT_WAITING || state == RT_MOVING;
        rt_fail(rt,
                "rank %d waited %d s in '%s' for rank %d, which is %s "
                "(step %lld, %s '%s')",
                rt->rank, w->timeout_seconds, here, g->member[i],
                state == RT_DONE ? "done"
                : in             ? "elsewhere"
                                 : "computing",
                (long long)atomic_load(&s->step), in ? "in" : "after",
                rt_collective_name(rt->model, atomic_load(&s->collective)));
    }
    rt_fail(rt, "rank %d waited %d s in '%s'", rt->rank, w->timeout_seconds,
            here);
}

static void sleep_until(ParcRt *rt, const RtGroup *g, uint32_t number,
                        uint32_t phase)
{
    RtBarrier *b = &rt->world->barrier[number];
    double limit = rt_now() + rt->world->timeout_seconds;
    while (atomic_load(&b->phase) == phase) {
        double left = limit - rt_now();
        if (left <= 0) {
            give_up(rt, g, number);
        }
        futex_wait(&b->phase, phase, left);
    }
}

void rt_barrier(ParcRt *rt, uint32_t axes)
{
    const RtGroup *g = &rt->group[axes];
    if (g->n == 1) {
        return;
    }
    uint32_t number = axes * (uint32_t)rt->nranks + (uint32_t)g->member[0];
    RtBarrier *b = &rt->world->barrier[number];
    RtSlot *slot = &rt->world->slot[rt->rank];
    uint32_t phase = atomic_load(&b->phase);
    atomic_store(&slot->barrier, number + 1);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == (uint32_t)g->n) {
        atomic_store(&b->arrived, 0);
        atomic_fetch_add(&b->phase, 1);
        futex_wake_all(&b->phase);
    } else {
        int looks = rt->world->crowded ? 0 : LOOKS;
        while (looks-- > 0 && atomic_load(&b->phase) == phase) {
            relax();
        }
        sleep_until(rt, g, number, phase);
    }
    atomic_store(&slot->barrier, 0);
}

void rt_meet(ParcRt *rt, int id)
{
    RtSlot *slot = &rt->world->slot[rt->rank];
    atomic_store(&slot->collective, id);
    atomic_store(&slot->state, RT_WAITING);
    if (rt->world->store) {
        rt_job_meet(rt->world->store, id);
    } else {
        rt_barrier(rt, (1u << rt->model->naxes) - 1);
    }
    atomic_store(&slot->state, RT_COMPUTING);
}
