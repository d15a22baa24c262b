/* ranks.c: starts and supervises the ranks of a node, one process each.
 *
 * The parent forks all ranks before any library has started a thread, then
 * only waits. A rank that fails prints the reason itself; if a rank is killed,
 * the parent names it and its last collective. Both end the run, since the
 * other ranks would wait for it until the time limit. Ranks are killed when
 * their parent ends.
 *
 * A single rank runs in the parent process, which simplifies debugging. So
 * does a rank that a launcher started: the other ranks are processes of the
 * launcher.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "device.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

/* The axes of more than one rank. */
static uint32_t split_axes(const ParcModel *m)
{
    uint32_t axes = 0;
    for (int a = 0; a < m->naxes; a++)
        axes |= (uint32_t)(m->axis[a].size > 1) << a;
    return axes;
}

/* Builds the rank's group over `axes`: members are ordered by their
 * coordinates, axis 0 major. An axis of one rank adds none: the group of the
 * other axes is made earlier. */
static void make_group(ParcRt *rt, uint32_t axes)
{
    const ParcModel *m = rt->model;
    RtGroup *g = &rt->group[axes];
    uint32_t split = axes & split_axes(m);
    if (split != axes) {
        *g = rt->group[split];
        return;
    }
    g->n = (int)rt_group_size(m, axes);
    g->index = (int)rt_index(m, rt->rank, axes);
    g->member = rt_allocate((size_t)g->n * sizeof(int));
    for (int r = 0; r < rt->nranks; r++)
        if (rt_in_group(m, r, rt->rank, axes))
            g->member[rt_index(m, r, axes)] = r;
}

static int run_rank(RtWorld *w, int rank, RtBody *body, void *context)
{
    ParcRt rt = {.model = w->model,
                 .world = w,
                 .rank = rank,
                 .nranks = w->nranks,
                 .threads = w->threads,
                 .local = w->launch ? w->launch->local : rank};
    rt_device_place(w, rank);
    for (uint32_t axes = 0; axes < 1u << w->model->naxes; axes++)
        make_group(&rt, axes);
    rt_arena_take(&rt);
    w->status[rank].plan_hash = w->model->plan_hash;
    atomic_store(&w->status[rank].process, (int32_t)getpid());
    atomic_store(&w->status[rank].state, RT_COMPUTING);
    rt_synchronize(&rt, RT_AT_START);
    if (!w->store && w->status[0].plan_hash != w->model->plan_hash)
        rt_fail(&rt, "rank %d was built from another plan than rank 0: start "
                     "the same program on all ranks", rank);
    int status = body(&rt, context);
    atomic_store(&w->status[rank].state, RT_DONE);
    for (uint32_t axes = 0; axes < 1u << w->model->naxes; axes++)
        if (!(axes & ~split_axes(w->model)))
            free(rt.group[axes].member);
    rt_device_close(&rt);
    return status;
}

/* The parent's message about a killed rank. */
static void report_killed(const RtWorld *w, int rank, int how)
{
    int sig = WTERMSIG(how);
    char where[RT_PROGRESS], text[RT_MESSAGE];
    rt_error_text(text, "rank %d was killed by signal %d (%s) %s%s", rank, sig,
                  strsignal(sig), rt_progress_text(w, rank, where),
                  sig == SIGKILL
                      ? "; Linux kills a process with SIGKILL when memory "
                        "runs out: see dmesg"
                      : "");
    rt_put_failure(&w->control->failure, text);
}

static void kill_all(const pid_t *pid, int n)
{
    for (int r = 0; r < n; r++)
        if (pid[r] > 0)
            kill(pid[r], SIGKILL);
}

/* Whether a second signal has ended a rank that was asked to stop. */
static bool is_stop(const RtWorld *w, int signal)
{
    return (signal == SIGINT || signal == SIGTERM) &&
           atomic_load(&w->control->signals.stop) != 0;
}

/* Waits for all ranks; the first failure kills the others. */
static int supervise(const RtWorld *w, pid_t *pid, int started)
{
    int status = started < w->nranks ? 1 : 0;
    for (int left = started; left > 0;) {
        int how;
        pid_t gone = waitpid(-1, &how, 0);
        int rank = 0;
        if (gone < 0 && errno == EINTR)
            continue;
        while (rank < started && pid[rank] != gone)
            rank++;
        if (gone < 0 || rank == started)
            continue; /* a child process that is not a rank */
        pid[rank] = 0;
        left--;
        if (how != 0 && status == 0) {
            status = 1;
            /* SIGPIPE: the reader of the output has closed it. */
            if (WIFSIGNALED(how) && WTERMSIG(how) == SIGPIPE)
                status = 128 + SIGPIPE;
            else if (WIFSIGNALED(how) && is_stop(w, WTERMSIG(how)))
                status = 128 + WTERMSIG(how);
            else if (WIFSIGNALED(how))
                report_killed(w, rank, how);
            kill_all(pid, started);
        }
    }
    return status;
}

int rt_ranks_run(RtWorld *w, RtBody *body, void *context)
{
    if (w->nranks == 1 || w->launch) {
        cpu_set_t before;
        bool known = sched_getaffinity(0, sizeof before, &before) == 0;
        int status = run_rank(w, w->rank, body, context);
        if (known)
            sched_setaffinity(0, sizeof before, &before);
        return status;
    }
    pid_t *pid = rt_allocate((size_t)w->nranks * sizeof *pid);
    pid_t parent = getpid();
    int started = 0;
    fflush(NULL); /* otherwise every rank would print the buffered output */
    for (; started < w->nranks; started++) {
        pid_t p = fork();
        if (p == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(1);
            int status = run_rank(w, started, body, context);
            fflush(NULL);
            _exit(status);
        }
        if (p < 0) {
            rt_error("cannot start rank %d of %d: %s; 'ulimit -u' is a limit "
                     "to the number of processes", started, w->nranks,
                     strerror(errno));
            kill_all(pid, started);
            break;
        }
        pid[started] = p;
    }
    int status = supervise(w, pid, started);
    for (int i = 0; status != 0 && i < RT_TEMPORARIES; i++)
        rt_output_discard(w->temporary[i]);
    free(pid);
    return status;
}
