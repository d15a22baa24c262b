/* rt_job.c: what the ranks of a job do together without shared memory.
 *
 * Rank 0 is in the middle. At a meeting the others say that they have come and
 * wait for its word; until then they hand out what it asks for, so that one
 * rank can write a file out of everybody's memory. Who fails sends the reason
 * to rank 0, which prints the first one and sends all home; the same where a
 * connection breaks, so that a rank that was killed ends the run at once.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rt_job.h"

enum { TEXT = 2048, SOON = 10, LINGER = 2, PIECE = 1 << 20 };

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

/* ---- ends ---------------------------------------------------------------- */

_Noreturn static void leave(const RtStore *s)
{
    const RtWorld *w = s->world;
    for (int i = 0; s->launch->rank == 0 && i < 2; i++) {
        if (w->temporary[i] && w->temporary[i][0]) {
            unlink(w->temporary[i]);
        }
    }
    fflush(stdout);
    _exit(1);
}

/* One thread of a process ends it. */
static void take_the_word(RtStore *s)
{
    if (atomic_exchange(&s->failed, 1) != 0) {
        for (;;) {
            pause();
        }
    }
}

/* To everybody at the other ends. */
static void tell(RtStore *s, const RtFrame *f, const char *text)
{
    for (int i = s->launch->rank == 0; i < peers(s); i++) {
        if (s->link[i].life >= 0 && !s->link[i].done &&
            rt_store_send(s->link[i].life, f, sizeof *f, SOON) && f->bytes) {
            rt_store_send(s->link[i].life, text, (size_t)f->bytes, SOON);
        }
    }
}

/* Reads what has come on a lifeline; false at its end. */
static bool read_away(int life)
{
    char text[TEXT];
    ssize_t n = recv(life, text, sizeof text, MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Reads away what the others still say until they have left, or do not for a
 * while: a socket that is closed with bytes unread takes back what was sent
 * last, the word that it is over, and they would take rank 0 for lost. */
static void see_off(RtStore *s)
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
        if (poll(p, (nfds_t)n, 100) < 0 && errno != EINTR) {
            break;
        }
        for (int r = 1; r < n; r++) {
            if (p[r].fd >= 0 && p[r].revents && !read_away(p[r].fd)) {
                p[r].fd = -1;
                left--;
            }
        }
    }
    free(p);
}

/* Rank 0 prints and sends all home. */
_Noreturn static void end_run(RtStore *s, const char *text)
{
    if (text) {
        rt_put(text);
    }
    tell(s, &(RtFrame){.say = RT_SAY_FAIL}, NULL);
    see_off(s);
    leave(s);
}

/* Without rank 0, ranks that share memory agree on the one that prints. */
static bool spoken_for(RtStore *s)
{
    const RtWorld *w = s->world;
    return w->map && w->mapped == w->nranks &&
           atomic_exchange(&w->control->failed, 1) != 0;
}

void rt_job_fail(RtStore *s, const char *text)
{
    take_the_word(s);
    if (s->launch->rank == 0) {
        end_run(s, text);
    }
    RtFrame f = {.say = RT_SAY_FAIL, .bytes = text ? strlen(text) : 0};
    tell(s, &f, text);
    if (s->watched) {
        sleep(SOON); /* rank 0's word ends this process: the watcher hears it */
    }
    if (text && !spoken_for(s)) {
        rt_put(text);
    }
    leave(s);
}

/* Where the run was when a rank was lost: what that rank did last is known
 * only where memory is shared. */
static void place_text(const RtStore *s, int rank, char text[TEXT])
{
    const RtWorld *w = s->world;
    int known = w->mapped == w->nranks ? rank : s->launch->rank;
    if (!w->slot) { /* this process has mapped nothing yet */
        snprintf(text, TEXT, "in 'start of the run'");
        return;
    }
    const RtSlot *slot = &w->slot[known];
    int state = atomic_load(&slot->state);
    bool in = state == RT_WAITING || state == RT_MOVING;
    char who[32];
    snprintf(who, sizeof who, "rank %d was ", known);
    snprintf(text, TEXT, "%sin step %lld, %s '%s'", known == rank ? "" : who,
             (long long)atomic_load(&slot->step), in ? "in" : "after",
             rt_collective_name(w->model, atomic_load(&slot->collective)));
}

/* A connection broke before its rank said goodbye. */
static void lost(RtStore *s, int rank)
{
    char name[96], place[TEXT], text[TEXT + 256];
    if (atomic_load(&s->ending)) {
        return;
    }
    place_text(s, rank, place);
    snprintf(text, sizeof text,
             "%s: error: %s is gone (killed, or its machine is lost): %s\n",
             s->world->program, rt_store_name(s, rank, name), place);
    take_the_word(s);
    if (s->launch->rank == 0) {
        end_run(s, text);
    }
    if (!spoken_for(s)) {
        rt_put(text);
    }
    leave(s);
}

/* ---- the watcher --------------------------------------------------------- */

/* Rank 0 hears why; the others hear that it is over. */
static void hear_failure(RtStore *s, const RtLink *l, const RtFrame *f)
{
    char text[TEXT + 1];
    size_t n = f->bytes < TEXT ? (size_t)f->bytes : TEXT;
    bool whole = rt_store_receive(l->life, text, n, SOON);
    text[n] = 0;
    if (s->launch->rank == 0) {
        take_the_word(s);
        end_run(s, whole && n > 0 ? text : NULL);
    }
    leave(s);
}

static void hear(RtStore *s, int i)
{
    RtLink *l = &s->link[i];
    RtFrame f;
    if (!rt_store_receive(l->life, &f, sizeof f, SOON)) {
        if (!l->done) {
            lost(s, rank_of(s, i));
        }
        l->done = true;
    } else if (f.say == RT_SAY_FAIL) {
        hear_failure(s, l, &f);
    } else if (f.say == RT_SAY_DONE) {
        l->done = true;
    } else if (f.say == RT_SAY_WHERE) {
        rt_places_asked(s, &f);
    } else if (f.say == RT_SAY_PLACE && !rt_places_told(s, i, &f)) {
        lost(s, rank_of(s, i));
    }
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
        if (poll(p, (nfds_t)n + 1, -1) < 0 && errno != EINTR) {
            break;
        }
        if (p[n].revents) {
            break;
        }
        for (int i = 0; i < n; i++) {
            if (p[i].revents) {
                hear(s, i);
            }
        }
    }
    free(p);
    return NULL;
}

bool rt_job_watch(RtStore *s)
{
    int error = pipe(s->bell) != 0 ? errno : 0;
    error = error ? error : pthread_create(&s->watcher, NULL, watch, s);
    if (error) {
        rt_error(s->world->program, "cannot start a thread: %s; 'ulimit -u' is "
                                    "a limit to their number",
                 strerror(error));
    }
    s->watched = error == 0;
    return s->watched;
}

void rt_job_goodbye(RtStore *s)
{
    if (s->watched) {
        atomic_store(&s->ending, 1);
        if (write(s->bell[1], "", 1) == 1) {
            pthread_join(s->watcher, NULL);
        }
        tell(s, &(RtFrame){.say = RT_SAY_DONE}, NULL);
        close(s->bell[0]);
        close(s->bell[1]);
        s->watched = false;
    }
}

/* ---- meetings ------------------------------------------------------------ */

/* Ends the run: rank does not come, or its connection is broken. A line breaks
 * when its rank ends, for whatever reason; the lifeline says which, and the
 * watcher, who hears it, ends this process. */
_Noreturn static void give_up(RtStore *s, int rank, const char *what)
{
    char name[96], text[TEXT], late[RT_LATE];
    const RtWorld *w = s->world;
    if (errno != ETIMEDOUT) {
        if (s->watched && !link_to(s, rank)->done) {
            sleep(SOON);
        }
        lost(s, rank);
    }
    if (!w->slot) { /* nothing is known of others yet */
        snprintf(text, sizeof text,
                 "%s: error: rank %d waited %.0f s in '%s' for %s; PARC_TIMEOUT "
                 "sets the limit\n", w->program, s->launch->rank, s->limit, what,
                 rt_store_name(s, rank, name));
        rt_job_fail(s, text);
    }
    rt_places_ask(s);
    /* Rank 0 knows who has not come; the others may be waiting for a third. */
    snprintf(text, sizeof text, "%s: error: %s\n", w->program,
             rt_late_text(w, s->launch->rank, rank == 0 ? -1 : rank, late));
    rt_job_fail(s, text);
}

static void send_to(RtStore *s, int rank, const RtFrame *f, const void *data)
{
    int line = link_to(s, rank)->line;
    if (!rt_store_send(line, f, sizeof *f, s->limit) ||
        !rt_store_send(line, data, (size_t)f->bytes, s->limit)) {
        give_up(s, rank, "sending");
    }
}

static RtFrame next_frame(RtStore *s, int rank, int id)
{
    RtFrame f;
    if (!rt_store_receive(link_to(s, rank)->line, &f, sizeof f, s->limit)) {
        give_up(s, rank, rt_collective_name(s->world->model, id));
    }
    return f;
}

/* The two ends do not do the same: train.c was changed for one of them. */
_Noreturn static void astray(RtStore *s, int rank, int id)
{
    char name[96], text[TEXT];
    snprintf(text, sizeof text,
             "%s: error: %s and rank %d do different things in '%s': start the "
             "same program on all ranks\n",
             s->world->program, rt_store_name(s, rank, name), s->launch->rank,
             rt_collective_name(s->world->model, id));
    rt_job_fail(s, text);
}

/* Rank 0 takes note of who arrives while it waits for something else. */
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
                             : rt_world_arena(w, own);
    int64_t room =
        trace ? (int64_t)w->trace.stride : rt_arena_end(w->model);
    if (f->a < 0 || f->b < 0 || f->b > room || f->a > room - f->b ||
        (trace && !w->trace.rings)) {
        astray(s, 0, id);
    }
    if (trace) { /* on nobody's clock: rt_trace_gather */
        rt_trace_shift(rt_trace_ring(w, own), -s->zero);
    }
    RtFrame data = {.say = RT_SAY_DATA, .bytes = (uint64_t)f->b};
    send_to(s, 0, &data, from + f->a);
}

/* At rank 0, until it says go. */
static void attend(RtStore *s, int id)
{
    send_to(s, 0, &(RtFrame){.say = RT_SAY_ARRIVE, .id = id}, NULL);
    for (;;) {
        RtFrame f = next_frame(s, 0, id);
        if (f.say == RT_SAY_GO && f.id == id) {
            return;
        }
        if (f.say != RT_SAY_READ) {
            astray(s, 0, id);
        }
        hand_out(s, &f, id);
    }
}

/* All others have come: go. */
static void preside(RtStore *s, int id)
{
    int n = s->launch->size;
    for (int r = 1; r < n; r++) {
        RtLink *l = &s->link[r];
        while (!l->arrived) {
            frame_of(s, r, id);
        }
        if (l->where != id) {
            astray(s, r, id);
        }
        l->arrived = false;
    }
    for (int r = 1; r < n; r++) {
        send_to(s, r, &(RtFrame){.say = RT_SAY_GO, .id = id}, NULL);
    }
}

void rt_job_meet(RtStore *s, int id)
{
    if (s->launch->rank == 0) {
        preside(s, id);
    } else {
        attend(s, id);
    }
    if (s->zero == 0) {
        s->zero = (int64_t)(rt_now() * 1e9);
    }
}

static void receive_data(RtStore *s, int rank, void *to, size_t bytes, int id)
{
    RtFrame f;
    do {
        f = frame_of(s, rank, id);
    } while (s->launch->rank == 0 && f.say == RT_SAY_ARRIVE);
    if (f.say != RT_SAY_DATA || f.bytes != bytes) {
        astray(s, rank, id);
    }
    char *at = to;
    for (size_t left = bytes; left > 0;) { /* the limit is a piece's */
        size_t n = left < PIECE ? left : PIECE;
        if (!rt_store_receive(link_to(s, rank)->line, at, n, s->limit)) {
            give_up(s, rank, rt_collective_name(s->world->model, id));
        }
        at += n;
        left -= n;
    }
}

void rt_job_broadcast(RtStore *s, void *data, size_t bytes)
{
    RtFrame f = {.say = RT_SAY_DATA, .bytes = bytes};
    if (s->launch->rank != 0) {
        receive_data(s, 0, data, bytes, RT_AT_START);
        return;
    }
    for (int r = 1; r < s->launch->size; r++) {
        send_to(s, r, &f, data);
    }
}

void rt_job_read(RtStore *s, int rank, int of, int64_t offset, int64_t bytes,
                 void *to)
{
    RtFrame f = {.say = RT_SAY_READ, .id = of, .a = offset, .b = bytes};
    send_to(s, rank, &f, NULL);
    receive_data(s, rank, to, (size_t)bytes, RT_AT_END);
}
