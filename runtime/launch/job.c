/* job.c: synchronizes the ranks that a launcher started, over connections to
 * rank 0, and ends the run when one of them fails.
 *
 * Rank 0 coordinates. At a synchronization point each other rank sends ARRIVE
 * (messages: launch/job.h) and waits for GO. Until then it serves rank 0's requests
 * for bytes of its memory, so that rank 0 can write a file from the memory of
 * all ranks.
 *
 * A rank that fails sends its reason to rank 0. Rank 0 prints the first reason
 * and ends all ranks. A broken connection has the same effect: a killed rank
 * ends the run immediately.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

enum {
    TEXT = RT_MESSAGE,
    SOON = 10,
    LINGER = 2,
    LOOK_MS = 100,
    PIECE = 1 << 20
};

static int peers(const RtStore *s)
{
    return s->launch->rank == 0 ? s->launch->size : 1;
}

/* The rank at the other end of a link. */
static int rank_of(const RtStore *s, int link)
{
    return s->launch->rank == 0 ? link : 0;
}

static RtLink *link_to(RtStore *s, int rank)
{
    return &s->link[s->launch->rank == 0 ? rank : 0];
}

/* ---- end of a run -------------------------------------------------------- */

_Noreturn static void exit_job(const RtStore *s)
{
    const RtWorld *w = s->world;
    for (int i = 0; s->launch->rank == 0 && i < 2; i++)
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
static void tell_node(RtStore *s, const RtFrame *f, const char *text)
{
    for (int i = s->launch->rank == 0; i < peers(s); i++)
        if (s->link[i].life >= 0 && !s->link[i].done &&
            rt_store_send(s->link[i].life, f, sizeof *f, SOON) && f->bytes)
            rt_store_send(s->link[i].life, text, (size_t)f->bytes, SOON);
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
 * RT_SAY_FAIL; the other ranks would then report rank 0 as lost. */
static void drain_lifelines(RtStore *s)
{
    int n = s->launch->size, left = 0;
    double end = rt_now() + LINGER;
    struct pollfd *p = rt_allocate((size_t)n * sizeof *p);
    for (int r = 0; r < n; r++) {
        int life = r > 0 ? s->link[r].life : -1;
        bool there = life >= 0 && shutdown(life, SHUT_WR) == 0;
        p[r] = (struct pollfd){.fd = there ? life : -1, .events = POLLIN};
        left += there;
    }
    while (left > 0 && rt_now() < end) {
        if (poll(p, (nfds_t)n, LOOK_MS) < 0 && errno != EINTR)
            break;
        for (int r = 1; r < n; r++)
            if (p[r].fd >= 0 && p[r].revents && !discard(p[r].fd)) {
                p[r].fd = -1;
                left--;
            }
    }
    free(p);
}

/* Prints why the run ends. Ranks that share memory print it once. */
static void put_failure(const RtStore *s, const char *text)
{
    const RtWorld *w = s->world;
    if (w->map && w->mapped == w->nranks) {
        rt_put_failure(w->control, text);
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
    tell_node(s, &(RtFrame){.say = RT_SAY_FAIL}, NULL);
    drain_lifelines(s);
    exit_job(s);
}

void rt_job_fail(RtStore *s, const char *text)
{
    claim_failure(s);
    if (s->launch->rank == 0)
        end_run(s, text);
    RtFrame f = {.say = RT_SAY_FAIL, .bytes = text ? strlen(text) : 0};
    tell_node(s, &f, text);
    if (s->watched)
        sleep(SOON); /* rank 0's answer ends this process, in the watcher
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
    int known = w->mapped == w->nranks ? rank : s->launch->rank;
    if (!w->slot) { /* this process has mapped nothing yet */
        snprintf(text, TEXT, "in 'start of the run'");
        return;
    }
    char who[32], where[RT_PROGRESS];
    snprintf(who, sizeof who, "rank %d was ", known);
    snprintf(text, TEXT, "%s%s", known == rank ? "" : who,
             rt_progress_text(w, known, where));
}

/* Ends the run after a connection broke before its rank sent RT_SAY_DONE. */
static void lost(RtStore *s, int rank)
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
    bool whole = rt_store_receive(l->life, text, n, SOON);
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
    if (!rt_store_receive(l->life, &f, sizeof f, SOON)) {
        if (!l->done)
            lost(s, rank_of(s, i));
        l->done = true;
    } else if (f.say == RT_SAY_FAIL) {
        receive_failure(s, l, &f);
    } else if (f.say == RT_SAY_DONE) {
        l->done = true;
    } else if (f.say == RT_SAY_SAVED && s->world->slot) {
        RtSlot *slot = &s->world->slot[rank_of(s, i)];
        atomic_store(&slot->save_error, f.id);
        atomic_store(&slot->saves, (uint32_t)f.a);
    } else if (f.say == RT_SAY_SIGNAL && s->world->control) {
        rt_signals_record(&s->world->control->signals, f.id);
    } else if (f.say == RT_SAY_WHERE) {
        rt_states_answer(s, &f);
    } else if (f.say == RT_SAY_STATE && !rt_states_receive(s, i, &f)) {
        lost(s, rank_of(s, i));
    }
}

/* Reads a byte of the bell; whether the watcher continues. */
static bool answer_bell(RtStore *s)
{
    char signal = 0;
    if (read(s->bell[0], &signal, 1) != 1 || signal == 0)
        return false;
    tell_node(s, &(RtFrame){.say = RT_SAY_SIGNAL, .id = signal}, NULL);
    return true;
}

static void *watch(void *context)
{
    RtStore *s = context;
    int n = peers(s);
    struct pollfd *p = rt_allocate(((size_t)n + 1) * sizeof *p);
    for (;;) {
        for (int i = 0; i < n; i++) {
            int fd = s->link[i].done ? -1 : s->link[i].life;
            p[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
        p[n] = (struct pollfd){.fd = s->bell[0], .events = POLLIN};
        if (poll(p, (nfds_t)n + 1, -1) < 0 && errno != EINTR)
            break;
        if (p[n].revents && !answer_bell(s))
            break;
        for (int i = 0; i < n; i++)
            if (p[i].revents)
                receive_message(s, i);
    }
    free(p);
    return NULL;
}

bool rt_job_watch(RtStore *s)
{
    int error = pipe(s->bell) != 0 ? errno : 0;
    error = error ? error : pthread_create(&s->watcher, NULL, watch, s);
    if (error)
        rt_error("cannot start a thread: %s; 'ulimit -u' is a limit to their "
                 "number", strerror(error));
    s->watched = error == 0;
    return s->watched;
}

void rt_job_saved(RtStore *s, int32_t error, uint32_t count)
{
    tell_node(s, &(RtFrame){.say = RT_SAY_SAVED, .id = error, .a = count},
              NULL);
}

void rt_job_forward(RtStore *s, int signal)
{
    char byte = (char)signal;
    if (s->watched && write(s->bell[1], &byte, 1) != 1)
        return; /* the pipe is full of signals that are forwarded anyway */
}

void rt_job_goodbye(RtStore *s)
{
    if (s->watched) {
        atomic_store(&s->ending, 1);
        if (write(s->bell[1], "", 1) == 1)
            pthread_join(s->watcher, NULL);
        tell_node(s, &(RtFrame){.say = RT_SAY_DONE}, NULL);
        close(s->bell[0]);
        close(s->bell[1]);
        s->watched = false;
    }
}

/* ---- synchronization points ---------------------------------------------- */

/* Ends the run because `rank` did not answer in time or its connection broke.
 * A line breaks whenever its rank ends; only the lifeline carries the reason.
 * Hence this thread waits for the watcher, which reads the lifeline, to end
 * the process. */
_Noreturn static void end_lost_job(RtStore *s, int rank, const char *what)
{
    char name[RT_RANK_NAME], text[TEXT], late[RT_LATE];
    const RtWorld *w = s->world;
    if (errno != ETIMEDOUT) {
        if (s->watched && !link_to(s, rank)->done)
            sleep(SOON);
        lost(s, rank);
    }
    if (!w->slot) { /* the slots of the other ranks are not mapped yet */
        rt_error_text(text, "rank %d waited %.0f s in '%s' for %s; "
                      "PARC_TIMEOUT sets the limit", s->launch->rank, s->limit,
                      what, rt_store_name(s, rank, name));
        rt_job_fail(s, text);
    }
    rt_states_ask(s);
    /* Rank 0 knows which rank is late; another rank may wait for a third
     * one. */
    rt_error_text(
        text, "%s",
        rt_late_text(w, s->launch->rank, rank == 0 ? -1 : rank, late));
    rt_job_fail(s, text);
}

static void send_to(RtStore *s, int rank, const RtFrame *f, const void *data)
{
    int line = link_to(s, rank)->line;
    if (!rt_store_send(line, f, sizeof *f, s->limit) ||
        !rt_store_send(line, data, (size_t)f->bytes, s->limit))
        end_lost_job(s, rank, "sending");
}

static RtFrame next_frame(RtStore *s, int rank, int id)
{
    RtFrame f;
    if (!rt_store_receive(link_to(s, rank)->line, &f, sizeof f, s->limit))
        end_lost_job(s, rank, rt_collective_name(s->world->model, id));
    return f;
}

/* Ends the run because two ranks are at different points: they run different
 * programs. */
_Noreturn static void fail_mismatch(RtStore *s, int rank, int id)
{
    char name[RT_RANK_NAME], text[TEXT];
    rt_error_text(text, "%s and rank %d do different things in '%s': start the "
                  "same program on all ranks", rt_store_name(s, rank, name),
                  s->launch->rank, rt_collective_name(s->world->model, id));
    rt_job_fail(s, text);
}

/* The next frame of a rank. Rank 0 records an ARRIVE that it receives while it
 * waits for another frame. */
static RtFrame frame_of(RtStore *s, int rank, int id)
{
    RtFrame f = next_frame(s, rank, id);
    RtLink *l = link_to(s, rank);
    if (s->launch->rank == 0 && f.say == RT_SAY_ARRIVE && !l->arrived) {
        l->arrived = true;
        l->where = f.id;
    }
    return f;
}

static void hand_out(RtStore *s, const RtFrame *f, int id)
{
    const RtWorld *w = s->world;
    bool trace = f->id == RT_OF_TRACE;
    int own = s->launch->rank;
    const char *from = trace ? (const char *)rt_trace_ring(w, own)
                       : f->id == RT_OF_SAVE
                           ? (const char *)&w->slot[own].save_error
                           : rt_world_arena(w, own);
    int64_t capacity = trace                 ? (int64_t)w->trace.stride
                       : f->id == RT_OF_SAVE ? (int64_t)sizeof(int32_t)
                                             : rt_arena_end(w->model);
    if (f->a < 0 || f->b < 0 || f->b > capacity || f->a > capacity - f->b ||
        (trace && !w->trace.rings))
        fail_mismatch(s, 0, id);
    if (trace) /* relative to the start of the run: rt_trace_gather */
        rt_marks_shift(rt_trace_ring(w, own), -s->zero);
    RtFrame data = {.say = RT_SAY_DATA, .bytes = (uint64_t)f->b};
    send_to(s, 0, &data, from + f->a);
}

/* Waits at a synchronization point until rank 0 sends GO; serves its
 * requests. */
static void wait_at_point(RtStore *s, int id)
{
    send_to(s, 0, &(RtFrame){.say = RT_SAY_ARRIVE, .id = id}, NULL);
    for (;;) {
        RtFrame f = next_frame(s, 0, id);
        if (f.say == RT_SAY_GO && f.id == id)
            return;
        if (f.say != RT_SAY_READ)
            fail_mismatch(s, 0, id);
        hand_out(s, &f, id);
    }
}

/* Rank 0: waits until all other ranks have arrived, then sends GO. */
static void coordinate_point(RtStore *s, int id)
{
    int n = s->launch->size;
    for (int r = 1; r < n; r++) {
        RtLink *l = &s->link[r];
        while (!l->arrived)
            frame_of(s, r, id);
        if (l->where != id)
            fail_mismatch(s, r, id);
        l->arrived = false;
    }
    for (int r = 1; r < n; r++)
        send_to(s, r, &(RtFrame){.say = RT_SAY_GO, .id = id}, NULL);
}

void rt_job_synchronize(RtStore *s, int id)
{
    if (s->launch->rank == 0)
        coordinate_point(s, id);
    else
        wait_at_point(s, id);
    if (s->zero == 0)
        s->zero = rt_now_ns();
}

static void receive_data(RtStore *s, int rank, void *to, size_t bytes, int id)
{
    RtFrame f;
    do {
        f = frame_of(s, rank, id);
    } while (s->launch->rank == 0 && f.say == RT_SAY_ARRIVE);
    if (f.say != RT_SAY_DATA || f.bytes != bytes)
        fail_mismatch(s, rank, id);
    char *at = to;
    for (size_t left = bytes; left > 0;) { /* the time limit applies to each
                                              piece */
        size_t n = left < PIECE ? left : PIECE;
        if (!rt_store_receive(link_to(s, rank)->line, at, n, s->limit))
            end_lost_job(s, rank, rt_collective_name(s->world->model, id));
        at += n;
        left -= n;
    }
}

void rt_job_broadcast(RtStore *s, int id, void *data, size_t bytes)
{
    RtFrame f = {.say = RT_SAY_DATA, .bytes = bytes};
    if (s->launch->rank != 0) {
        receive_data(s, 0, data, bytes, id);
        return;
    }
    for (int r = 1; r < s->launch->size; r++)
        send_to(s, r, &f, data);
}

void rt_job_read(RtStore *s, int rank, int of, int64_t offset, int64_t bytes,
                 void *to)
{
    RtFrame f = {.say = RT_SAY_READ, .id = of, .a = offset, .b = bytes};
    send_to(s, rank, &f, NULL);
    receive_data(s, rank, to, (size_t)bytes, RT_AT_END);
}

void rt_marks_shift(RtRing *ring, int64_t ns)
{
    for (int64_t i = 0; i < ring->n; i++)
        ring->mark[i].ns += ns;
}
