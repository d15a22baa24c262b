/* barrier.c: implements a barrier of a group's ranks in shared memory,
 * and the synchronization point of all ranks (rt_synchronize); copies rank 0's
 * decisions to all ranks.
 *
 * A barrier has a counter and a phase. The last rank to arrive resets the
 * counter, increments the phase and wakes the others, which wait on the phase
 * as a futex. With a core for every thread a rank polls the phase for a short
 * while before it sleeps; with more ranks than cores it sleeps immediately,
 * since the rank that it waits for may need the same core. No rank waits longer
 * than the limit: a lost peer ends the run with a message, it does not hang it.
 *
 * A rank sleeps a second at most and counts no more than that: while a whole
 * run is stopped (Ctrl-Z, a debugger, a machine that sleeps), the limit does
 * not approach.
 */
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

enum { LOOKS = 2000, LONGEST_SLEEP = 1 };

void rt_wake(_Atomic uint32_t *word)
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

void rt_wait_change(ParcRt *rt, _Atomic uint32_t *word, uint32_t value,
                    int late)
{
    double left = rt->world->timeout_seconds;
    char text[RT_LATE];
    int looks = rt->world->crowded ? 0 : LOOKS;
    while (looks-- > 0 && atomic_load(word) == value)
        relax();
    while (atomic_load(word) == value) {
        double slice = left < LONGEST_SLEEP ? left : LONGEST_SLEEP;
        double begin = rt_now();
        futex_wait(word, value, slice);
        double slept = rt_now() - begin;
        left -= slept < slice ? slept : slice;
        if (left <= 0 && atomic_load(word) == value) {
            rt_states_gather(rt);
            rt_fail(rt, "%s", rt_late_text(rt->world, rt->rank, late, text));
        }
    }
}

void rt_barrier(ParcRt *rt, uint32_t axes)
{
    const RtGroup *g = &rt->group[axes];
    if (g->n == 1)
        return;
    uint32_t number = axes * (uint32_t)rt->nranks + (uint32_t)g->member[0];
    RtBarrier *b = &rt->world->barrier[number];
    RtStatus *status = &rt->world->status[rt->rank];
    uint32_t phase = atomic_load(&b->phase);
    atomic_store(&status->phase, phase);
    atomic_store(&status->barrier, number + 1);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == (uint32_t)g->n) {
        atomic_store(&b->arrived, 0);
        atomic_fetch_add(&b->phase, 1);
        rt_wake(&b->phase);
    } else {
        rt_wait_change(rt, &b->phase, phase, -1);
    }
    atomic_store(&status->barrier, 0);
}

void rt_synchronize(ParcRt *rt, int id)
{
    RtStatus *status = &rt->world->status[rt->rank];
    atomic_store(&status->collective, id);
    atomic_store(&status->state, RT_WAITING);
    if (rt->world->store)
        rt_job_synchronize(rt->world->store, id);
    else
        rt_barrier(rt, (1u << rt->model->naxes) - 1);
    atomic_store(&status->state, RT_COMPUTING);
}

/* A choice that depends on a measurement may differ between ranks. Values that
 * must be equal on all ranks need equal computations, so rank 0 decides for
 * all. */
void rt_share(ParcRt *rt, int id, void *data, size_t bytes)
{
    RtControl *c = rt->world->control;
    if (rt->world->store) {
        rt_job_broadcast(rt->world->store, id, data, bytes);
        return;
    }
    for (size_t done = 0; done < bytes && rt->nranks > 1;) {
        size_t left = bytes - done;
        size_t piece = left < sizeof c->board ? left : sizeof c->board;
        char *at = (char *)data + done;
        if (rt->rank == 0)
            memcpy(c->board, at, piece);
        rt_synchronize(rt, id);
        if (rt->rank != 0)
            memcpy(at, c->board, piece);
        rt_synchronize(rt, id); /* rank 0 may write the next piece */
        done += piece;
    }
}
