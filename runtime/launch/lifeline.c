/* lifeline.c: reports failures, signals and the ends of ranks between the
 * processes of a job, over the lifelines (launch/job.h).
 *
 * A rank that fails sends its reason to rank 0. Rank 0 prints the first reason
 * and ends all ranks. A broken connection has the same effect: a killed rank
 * ends the run immediately.
 *
 * A thread of each process, the watcher, reads the lifelines while the main
 * thread computes or waits.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

enum { TEXT = RT_MESSAGE, LINGER = 2, POLL_MS = 100 };

/* The rank at the other end of a link. */
static int rank_of(const RtStore *s, int link)
{
    return s->launch->rank == 0 ? link : 0;
}

/* ---- end of a run -------------------------------------------------------- */

_Noreturn static void exit_job(const RtStore *s)
{
    const RtWorld *w = s->world;
    for (int i = 0; s->launch->rank == 0 && i < RT_TEMPORARIES; i++)
        rt_output_discard(w->temporary[i]);
    fflush(stdout);
    _exit(1);
}

/* Only one thread of a process may end it; other callers block. */
static void claim_failure(RtStore *s)
{
    if (atomic_exchange(&s->failed, 1) != 0)
        for (;;)
            pause();
}

/* Sends a frame and its text over all lifelines that are open. */
static void send_lifelines(RtStore *s, const RtFrame *f, const char *text)
{
    for (int i = s->launch->rank == 0; i < rt_links(s); i++)
        if (s->link[i].life >= 0 && !s->link[i].done &&
            rt_socket_send(s->link[i].life, f, sizeof *f, RT_SOON) && f->bytes)
            rt_socket_send(s->link[i].life, text, (size_t)f->bytes, RT_SOON);
}

/* Discards received bytes of a lifeline; false at its end. */
static bool discard(int life)
{
    char text[TEXT];
    ssize_t n = recv(life, text, sizeof text, MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Discards what the other ranks still send until they have closed their
 * lifelines, for at most LINGER seconds. If rank 0 closed a socket with unread
 * bytes, TCP would reset the connection and could discard its last message,
 * RT_FRAME_FAIL; the other ranks would then report rank 0 as lost. */
static void drain_lifelines(RtStore *s)
{
    int n = s->launch->size, left = 0;
    double end = rt_now() + LINGER;
    RT_OWNED struct pollfd *p = rt_allocate((size_t)n * sizeof *p);
    for (int r = 0; r < n; r++) {
        int life = r > 0 ? s->link[r].life : -1;
        bool there = life >= 0 && shutdown(life, SHUT_WR) == 0;
        p[r] = (struct pollfd){.fd = there ? life : -1, .events = POLLIN};
        left += there;
    }
    while (left > 0 && rt_now() < end) {
        if (poll(p, (nfds_t)n, POLL_MS) < 0 && errno != EINTR)
            break;
        for (int r = 1; r < n; r++)
            if (p[r].fd >= 0 && p[r].revents && !discard(p[r].fd)) {
                p[r].fd = -1;
                left--;
            }
    }
}

/* Prints why the run ends. Ranks that share memory print it once. */
static void put_failure(const RtStore *s, const char *text)
{
    const RtWorld *w = s->world;
    if (w->map && w->mapped == w->nranks) {
        rt_put_failure(&w->control->failure, text);
    } else {
        rt_clear_line();
        rt_put(text);
    }
}

/* Rank 0: prints the reason and ends all ranks. */
_Noreturn static void end_run(RtStore *s, const char *text)
{
    if (text)
        put_failure(s, text);
    send_lifelines(s, &(RtFrame){.kind = RT_FRAME_FAIL}, NULL);
    drain_lifelines(s);
    exit_job(s);
}

void rt_job_fail(RtStore *s, const char *text)
{
    claim_failure(s);
    if (s->launch->rank == 0)
        end_run(s, text);
    RtFrame f = {.kind = RT_FRAME_FAIL, .bytes = text ? strlen(text) : 0};
    send_lifelines(s, &f, text);
    if (s->watched)
        sleep(RT_SOON); /* rank 0's answer ends this process, in the watcher
                        thread */
    if (text)
        put_failure(s, text);
    exit_job(s);
}

/* The position of the run when a rank was lost. The last state of the lost
 * rank itself is known only if ranks share memory. */
static void position_text(const RtStore *s, int rank, char text[TEXT])
{
    const RtWorld *w = s->world;
    int known = rt_is_mapped(w, rank) ? rank : s->launch->rank;
    if (!w->status) { /* this process has mapped nothing yet */
        snprintf(text, TEXT, "in 'start of the run'");
        return;
    }
    char who[32], where[RT_PROGRESS];
    snprintf(who, sizeof who, "rank %d was ", known);
    snprintf(text, TEXT, "%s%s", known == rank ? "" : who,
             rt_progress_text(w, known, where));
}

void rt_job_lost(RtStore *s, int rank)
{
    char name[RT_RANK_NAME], position[TEXT], text[TEXT];
    if (atomic_load(&s->ending))
        return;
    position_text(s, rank, position);
    rt_error_text(text, "%s is gone (killed, or its machine is lost): %s",
                  rt_store_name(s, rank, name), position);
    claim_failure(s);
    if (s->launch->rank == 0)
        end_run(s, text);
    put_failure(s, text);
    exit_job(s);
}

/* ---- the watcher --------------------------------------------------------- */

/* A rank failed: rank 0 prints the reason; the other ranks only exit. */
static void receive_failure(RtStore *s, const RtLink *l, const RtFrame *f)
{
    char text[TEXT + 1];
    size_t n = f->bytes < TEXT ? (size_t)f->bytes : TEXT;
    bool whole = rt_socket_receive(l->life, text, n, RT_SOON);
    text[n] = 0;
    if (s->launch->rank == 0) {
        claim_failure(s);
        end_run(s, whole && n > 0 ? text : NULL);
    }
    exit_job(s);
}

static void receive_message(RtStore *s, int i)
{
    RtLink *l = &s->link[i];
    RtFrame f;
    if (!rt_socket_receive(l->life, &f, sizeof f, RT_SOON)) {
        if (!l->done)
            rt_job_lost(s, rank_of(s, i));
        l->done = true;
    } else if (f.kind == RT_FRAME_FAIL) {
        receive_failure(s, l, &f);
    } else if (f.kind == RT_FRAME_DONE) {
        l->done = true;
    } else if (f.kind == RT_FRAME_SAVED && s->world->status) {
        RtStatus *status = &s->world->status[rank_of(s, i)];
        atomic_store(&status->save_error, f.id);
        atomic_store(&status->saves, (uint32_t)f.a);
    } else if (f.kind == RT_FRAME_SIGNAL && s->world->control) {
        rt_signals_record(&s->world->control->signals, f.id);
    } else if (f.kind == RT_FRAME_REQUEST_STATES) {
        rt_states_answer(s, &f);
    } else if (f.kind == RT_FRAME_STATE && !rt_states_receive(s, i, &f)) {
        rt_job_lost(s, rank_of(s, i));
    }
}

/* Reads a byte of the pipe; whether the watcher continues. */
static bool handle_wake(RtStore *s)
{
    char signal = 0;
    if (read(s->wake[0], &signal, 1) != 1 || signal == 0)
        return false;
    send_lifelines(s, &(RtFrame){.kind = RT_FRAME_SIGNAL, .id = signal}, NULL);
    return true;
}

static void *watch(void *context)
{
    RtStore *s = context;
    int n = rt_links(s);
    RT_OWNED struct pollfd *p = rt_allocate(((size_t)n + 1) * sizeof *p);
    for (;;) {
        for (int i = 0; i < n; i++) {
            int fd = s->link[i].done ? -1 : s->link[i].life;
            p[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
        p[n] = (struct pollfd){.fd = s->wake[0], .events = POLLIN};
        if (poll(p, (nfds_t)n + 1, -1) < 0 && errno != EINTR)
            break;
        if (p[n].revents && !handle_wake(s))
            break;
        for (int i = 0; i < n; i++)
            if (p[i].revents)
                receive_message(s, i);
    }
    return NULL;
}

bool rt_job_watch(RtStore *s)
{
    int error = pipe(s->wake) != 0 ? errno : 0;
    error = error ? error : pthread_create(&s->watcher, NULL, watch, s);
    if (error)
        rt_error("cannot start a thread: %s; 'ulimit -u' is a limit to their "
                 "number",
                 strerror(error));
    s->watched = error == 0;
    return s->watched;
}

void rt_job_saved(RtStore *s, int32_t error, uint32_t count)
{
    send_lifelines(
        s, &(RtFrame){.kind = RT_FRAME_SAVED, .id = error, .a = count}, NULL);
}

void rt_job_end(RtStore *s)
{
    if (s->watched) {
        atomic_store(&s->ending, 1);
        if (write(s->wake[1], "", 1) == 1)
            pthread_join(s->watcher, NULL);
        send_lifelines(s, &(RtFrame){.kind = RT_FRAME_DONE}, NULL);
        close(s->wake[0]);
        close(s->wake[1]);
        s->watched = false;
    }
}
