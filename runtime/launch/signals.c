/* signals.c: translates SIGINT, SIGTERM and SIGUSR1 to requests that the step
 * loop serves between two steps.
 *
 * A run must not end in the middle of a step, because the ranks of a group
 * would then hold states of different steps. Hence the handler only records
 * the request in memory that all ranks map (RtSignals in the control block);
 * rank 0 reads it after each step and decides for all ranks (run.h). A signal
 * to any rank, or to the parent of forked ranks, is therefore enough. A process
 * that does not map rank 0's control block wakes its watcher thread, which
 * sends the signal to rank 0 over the lifeline (launch/lifeline.c).
 *
 * One Ctrl-C reaches every process of the terminal, and launchers forward
 * signals. Signals within REPEAT_NS of the first one are therefore one request.
 * A later second SIGINT or SIGTERM ends the process immediately; the other
 * ranks end with it. Before the first step nothing would be lost, so the first
 * signal ends the run immediately. After the last step the first signal has no
 * effect: the run writes its files and ends.
 *
 *   kill -TERM, in step 7         -> step 7 is finished and saved, exit
 *                                    status 143
 *   kill -TERM again, 5 s later   -> the run ends immediately
 *
 * The handler calls only async-signal-safe functions. Its state is global,
 * because a handler has no argument.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "common/message.h"
#include "launch/job.h"
#include "rt.h"

static const int64_t REPEAT_NS = 2000000000;

static struct RtWorld *_Atomic attached;

/* Sets *at to now if no signal counted within REPEAT_NS. Of several processes
 * only one succeeds. */
static bool counts(_Atomic int64_t *at)
{
    int64_t now = rt_now_ns(), before = atomic_load(at);
    return (before == 0 || now - before > REPEAT_NS) &&
           atomic_compare_exchange_strong(at, &before, now);
}

void rt_signals_record(RtSignals *s, int signal)
{
    int64_t none = 0;
    int32_t zero = 0;
    if (signal == SIGUSR1) {
        if (counts(&s->save_ns))
            atomic_fetch_add(&s->saves, 1);
    } else if (atomic_compare_exchange_strong(&s->stop_ns, &none,
                                              rt_now_ns())) {
        atomic_compare_exchange_strong(&s->stop, &zero, signal);
    }
}

/* Ends the process by the signal, as without a handler. The signal is blocked
 * until the handler returns. */
static void end_now(struct RtWorld *w, int signal_number)
{
    for (int i = 0; w && w->rank == 0 && i < RT_TEMPORARIES; i++)
        if (w->temporary[i] && w->temporary[i][0])
            unlink(w->temporary[i]);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Whether a SIGINT or SIGTERM ends the process now instead of after a step. */
static bool ends_now(const RtSignals *s)
{
    int64_t before = atomic_load(&s->stop_ns);
    return !atomic_load(&s->runs) ||
           (before != 0 && rt_now_ns() - before > REPEAT_NS);
}

/* Wakes the watcher thread, which sends the signal to rank 0. */
static void forward(const RtStore *s, int signal)
{
    char byte = (char)signal;
    if (s->watched && write(s->wake[1], &byte, 1) != 1)
        return; /* the pipe is full of signals that are forwarded anyway */
}

static void handle(int signal)
{
    int error = errno;
    struct RtWorld *w = atomic_load(&attached);
    RtSignals *s = w ? &w->control->signals : NULL;
    if (signal != SIGUSR1 && (!s || ends_now(s))) {
        end_now(w, signal);
    } else if (s) {
        rt_signals_record(s, signal);
        /* Whether rank 0's control block is elsewhere. */
        if (w->store && w->rank > 0 && w->mapped < w->nranks)
            forward(w->store, signal);
    }
    errno = error;
}

void rt_signals_open(void)
{
    static const int handled[] = {SIGINT, SIGTERM, SIGUSR1};
    struct sigaction a = {.sa_handler = handle, .sa_flags = SA_RESTART}, old;
    sigemptyset(&a.sa_mask);
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++)
        sigaddset(&a.sa_mask, handled[i]);
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++)
        if (sigaction(handled[i], NULL, &old) == 0 &&
            old.sa_handler != SIG_IGN)
            sigaction(handled[i], &a, NULL);
}

void rt_signals_attach(struct RtWorld *w)
{
    atomic_store(&attached, w);
}

const char *rt_signal_name(int signal)
{
    return signal == SIGINT ? "SIGINT" : "SIGTERM";
}
