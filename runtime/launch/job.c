/* job.c: synchronizes the ranks that a launcher started, over connections to
 * rank 0.
 *
 * Rank 0 coordinates. At a synchronization point each other rank sends ARRIVE
 * (messages: launch/job.h) and waits for GO. Until then it serves rank 0's
 * requests for bytes of its memory, so that rank 0 can write a file from the
 * memory of all ranks.
 */
#include <errno.h>
#include <unistd.h>

#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

enum { TEXT = RT_MESSAGE, PIECE = 1 << 20 };

/* Ends the run because `rank` did not answer in time or its connection broke.
 * A line breaks whenever its rank ends; only the lifeline carries the reason.
 * Hence this thread waits for the watcher, which reads the lifeline, to end
 * the process. */
_Noreturn static void end_lost_job(RtStore *s, int rank, const char *what)
{
    char name[RT_RANK_NAME], text[TEXT], late[RT_LATE];
    const RtWorld *w = s->world;
    if (errno != ETIMEDOUT) {
        if (s->watched && !rt_link_to(s, rank)->done)
            sleep(RT_SOON);
        rt_job_lost(s, rank);
    }
    if (!w->status) { /* the statuses of the other ranks are not mapped yet */
        rt_error_text(text, "rank %d waited %.0f s in '%s' for %s; "
                      "PARC_TIMEOUT sets the limit", s->launch->rank, s->limit,
                      what, rt_store_name(s, rank, name));
        rt_job_fail(s, text);
    }
    rt_states_request(s);
    /* Rank 0 knows which rank is late; another rank may wait for a third
     * one. */
    rt_error_text(
        text, "%s",
        rt_late_text(w, s->launch->rank, rank == 0 ? -1 : rank, late));
    rt_job_fail(s, text);
}

static void send_to(RtStore *s, int rank, const RtFrame *f, const void *data)
{
    int line = rt_link_to(s, rank)->line;
    if (!rt_socket_send(line, f, sizeof *f, s->limit) ||
        !rt_socket_send(line, data, (size_t)f->bytes, s->limit))
        end_lost_job(s, rank, "sending");
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
    RtFrame f;
    RtLink *l = rt_link_to(s, rank);
    if (!rt_socket_receive(l->line, &f, sizeof f, s->limit))
        end_lost_job(s, rank, rt_collective_name(s->world->model, id));
    if (s->launch->rank == 0 && f.kind == RT_FRAME_ARRIVE && !l->arrived) {
        l->arrived = true;
        l->where = f.id;
    }
    return f;
}

static void send_requested(RtStore *s, const RtFrame *f, int id)
{
    const RtWorld *w = s->world;
    bool trace = f->id == RT_OF_TRACE;
    int own = s->launch->rank;
    const char *from =
        trace ? (const char *)rt_trace_ring(w, own) : rt_world_arena(w, own);
    int64_t capacity =
        trace ? (int64_t)w->trace.stride : rt_arena_end(w->model);
    if (f->a < 0 || f->b < 0 || f->b > capacity || f->a > capacity - f->b ||
        (trace && !w->trace.rings))
        fail_mismatch(s, 0, id);
    if (trace) /* relative to the start of the run: rt_trace_gather */
        rt_marks_shift(rt_trace_ring(w, own), -s->zero);
    RtFrame data = {.kind = RT_FRAME_DATA, .bytes = (uint64_t)f->b};
    send_to(s, 0, &data, from + f->a);
}

/* Waits at a synchronization point until rank 0 sends GO; serves its
 * requests. */
static void wait_at_point(RtStore *s, int id)
{
    send_to(s, 0, &(RtFrame){.kind = RT_FRAME_ARRIVE, .id = id}, NULL);
    for (;;) {
        RtFrame f = frame_of(s, 0, id);
        if (f.kind == RT_FRAME_GO && f.id == id)
            return;
        if (f.kind != RT_FRAME_READ)
            fail_mismatch(s, 0, id);
        send_requested(s, &f, id);
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
        send_to(s, r, &(RtFrame){.kind = RT_FRAME_GO, .id = id}, NULL);
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
    } while (s->launch->rank == 0 && f.kind == RT_FRAME_ARRIVE);
    if (f.kind != RT_FRAME_DATA || f.bytes != bytes)
        fail_mismatch(s, rank, id);
    char *at = to;
    for (size_t left = bytes; left > 0;) { /* the time limit applies to each
                                              piece */
        size_t n = left < PIECE ? left : PIECE;
        if (!rt_socket_receive(rt_link_to(s, rank)->line, at, n, s->limit))
            end_lost_job(s, rank, rt_collective_name(s->world->model, id));
        at += n;
        left -= n;
    }
}

void rt_job_broadcast(RtStore *s, int id, void *data, size_t bytes)
{
    RtFrame f = {.kind = RT_FRAME_DATA, .bytes = bytes};
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
    RtFrame f = {.kind = RT_FRAME_READ, .id = of, .a = offset, .b = bytes};
    send_to(s, rank, &f, NULL);
    receive_data(s, rank, to, (size_t)bytes, RT_AT_END);
}

void rt_marks_shift(RtRing *ring, int64_t ns)
{
    for (int64_t i = 0; i < ring->n; i++)
        ring->mark[i].ns += ns;
}
