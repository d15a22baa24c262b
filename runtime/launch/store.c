/* store.c: connects the processes of a job.
 *
 * Rank 0 listens at the address from the launcher (launch/accept_ranks.c).
 * Every other rank opens two connections and proves that it belongs to the job
 * (launch/handshake.h). The line carries synchronization and data; the lifeline
 * reports a failure or the end of a rank. Rank 0 may start last, so the others
 * retry until the limit.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/message.h"
#include "launch/handshake.h"
#include "launch/job.h"
#include "rt.h"

enum { RETRY_MS = 50 };

static const char *answer_text(uint32_t answer)
{
    static const char *const text[RT_ANSWERS] = {
        [RT_OTHER_JOB] = "that is the rank 0 of another job",
        [RT_OTHER_TOKEN] = "rank 0 has another token: PARC_TOKEN or "
                           "PARC_TOKEN_FILE has to be the same for all ranks",
        [RT_OTHER_SIZE] = "rank 0 has another number of ranks",
        [RT_OTHER_PLAN] = "rank 0 was built from another plan: start the same "
                          "program on all ranks",
        [RT_TAKEN] = "another process has joined as this rank",
        [RT_NO_RANK] = "rank 0 has no such rank in its mesh"};
    return answer < RT_ANSWERS && text[answer] ? text[answer]
                                               : "another program listens "
                                                 "there";
}

const char *rt_store_name(const RtStore *s, int rank, char text[RT_RANK_NAME])
{
    const RtLink *l = rt_link_to(s, rank);
    snprintf(text, RT_RANK_NAME, "rank %d%s%s", rank, l->node[0] ? " on " : "",
             l->node);
    return text;
}

/* Receives the challenge, sends the Hello and returns the answer. Only an
 * answer with a valid code is trusted; without one, rank 0 belongs to another
 * job or has another token. */
static uint32_t exchange_hello(const RtStore *s, int fd, RtHello *h,
                               double limit)
{
    const RtLaunch *l = s->launch;
    RtChallenge c;
    RtReply r;
    unsigned char code[RT_DIGEST];
    if (!rt_socket_receive(fd, &c, sizeof c, limit))
        return RT_SILENT;
    rt_nonce(h->nonce);
    rt_hello_code(l, &c, h, h->code);
    if (memcmp(c.magic, rt_handshake_magic, sizeof c.magic) != 0 ||
        !rt_socket_send(fd, h, sizeof *h, limit) ||
        !rt_socket_receive(fd, &r, sizeof r, limit))
        return RT_SILENT;
    rt_reply_code(l, &c, h, r.answer, code);
    return rt_digest_equal(code, r.code)   ? r.answer
           : r.answer == RT_OTHER_JOB ? RT_OTHER_JOB
                                      : RT_OTHER_TOKEN;
}

/* Connects the socket; false and errno on failure. */
static bool connect_within(int fd, const struct addrinfo *a, double limit)
{
    socklen_t n = sizeof(int);
    int how = 0;
    return fd >= 0 &&
           (connect(fd, a->ai_addr, a->ai_addrlen) == 0 ||
            (errno == EINPROGRESS && rt_socket_poll(fd, POLLOUT, &limit) &&
             getsockopt(fd, SOL_SOCKET, SO_ERROR, &how, &n) == 0 &&
             (errno = how) == 0));
}

/* Why the attempts to connect failed. An answer from one address counts more
 * than an error of another: a name may have addresses without rank 0. */
typedef struct Failure {
    const char *error;
    bool answered, final; /* final: a retry cannot succeed */
} Failure;

/* Tries to open a connection that rank 0 accepts; -1 and *why on failure. An
 * attempt that hangs ends after some seconds, because another program may
 * listen there until rank 0 starts. */
static int try_address(const RtStore *s, const struct addrinfo *a, RtHello *h,
                       double until, Failure *why)
{
    double left = until - rt_now();
    double limit = left < RT_HANDSHAKE_SECONDS ? left : RT_HANDSHAKE_SECONDS;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    uint32_t answer = 0;
    if (!connect_within(fd, a, limit)) {
        why->error = why->answered ? why->error : strerror(errno);
    } else if ((answer = exchange_hello(s, fd, h, limit)) == RT_JOINED) {
        rt_socket_tune(fd);
        return fd;
    } else {
        why->error = answer_text(answer);
        why->answered = true;
        why->final = answer == RT_OTHER_PLAN || answer == RT_OTHER_SIZE ||
                     answer == RT_NO_RANK;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static int join_store(const RtStore *s, bool life)
{
    const RtLaunch *l = s->launch;
    RtHello h = {.version = RT_HANDSHAKE_VERSION,
                 .life = life,
                 .rank = l->rank,
                 .size = l->size,
                 .job = l->job,
                 .plan = s->world->model->plan_hash};
    Failure why = {0};
    double until = rt_now() + s->limit;
    memcpy(h.magic, rt_handshake_magic, sizeof h.magic);
    rt_node_name(h.host);
    while (!why.final && rt_now() < until) {
        const char *unknown;
        struct addrinfo *list = rt_rank0_addresses(l, &unknown);
        Failure now = {.error = unknown ? unknown : why.error};
        for (struct addrinfo *a = list; a && !now.final; a = a->ai_next) {
            int fd = try_address(s, a, &h, until, &now);
            if (fd >= 0) {
                freeaddrinfo(list);
                return fd;
            }
        }
        if (list)
            freeaddrinfo(list);
        /* Attempts that the limit cut off tell less than those before. */
        if (!why.error || now.final || rt_now() < until)
            why = now;
        usleep(RETRY_MS * 1000);
    }
    rt_error("rank %d cannot join rank 0 at %s:%d%s: %s", l->rank, l->host,
             l->port, why.final ? "" : " in time",
             why.error ? why.error : "no process answers");
    return -1;
}

bool rt_store_open(RtStore *s, RtWorld *w, const RtLaunch *launch, double limit)
{
    memset(s, 0, sizeof *s);
    s->launch = launch;
    s->world = w;
    s->limit = limit;
    s->wake[0] = s->wake[1] = -1;
    s->link = rt_allocate((size_t)rt_links(s) * sizeof *s->link);
    for (int i = 0; i < rt_links(s); i++)
        s->link[i].line = s->link[i].life = -1;
    if (launch->rank == 0)
        return rt_accept_ranks(s);
    s->link[0].line = join_store(s, false);
    s->link[0].life = s->link[0].line >= 0 ? join_store(s, true) : -1;
    return s->link[0].life >= 0;
}

void rt_store_close(RtStore *s)
{
    for (int i = 0; i < rt_links(s); i++) {
        if (s->link[i].line >= 0)
            close(s->link[i].line);
        if (s->link[i].life >= 0)
            close(s->link[i].life);
    }
    free(s->link);
    s->link = NULL;
}
