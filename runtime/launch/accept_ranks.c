/* accept_ranks.c: accepts the connections of the other ranks of a job at rank
 * 0.
 *
 * Any process that reaches the port may connect. Until it has joined as a rank
 * it is a client (`Client`). Its Hello (launch/handshake.h: what it claims to
 * be, and a code) has a fixed size, must be complete within a few seconds, and
 * must prove that the client has the job's key; other connections are closed
 * and counted. If too many clients are connected, the oldest one is dropped, so
 * that idle connections cannot keep ranks out.
 *
 * A client's message ends the run in one case only: it is authenticated by a
 * secret token and says that the rank's program has another plan. Otherwise
 * the time limit ends the run, with a summary of the refused connections. When
 * all ranks have joined, the port is closed.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/message.h"
#include "launch/handshake.h"
#include "launch/job.h"
#include "rt.h"

enum { CLIENTS = 64, LAST_SECONDS = 30, LOOK_MS = 200 };
enum { FROM = INET6_ADDRSTRLEN, REFUSALS = 1200 };

/* A connection with an incomplete Hello. */
typedef struct Client {
    int socket;
    double until;
    size_t n;
    char from[FROM];
    RtChallenge challenge;
    RtHello hello;
} Client;

/* Connections that were refused for one reason. */
typedef struct Tally {
    int n;
    char from[FROM]; /* address of the last connection */
    char who[RT_RANK_NAME]; /* rank and host that it claims */
} Tally;

typedef struct AcceptState {
    RtStore *store;
    Client client[CLIENTS];
    int clients, missing; /* number of connections that have not joined yet */
    Tally tally[RT_ANSWERS];
    double until;
    bool refused; /* an authenticated rank was built from another plan */
} AcceptState;

static bool is_loopback(const struct sockaddr *a)
{
    const struct sockaddr_in *four = (const void *)a;
    const struct sockaddr_in6 *six = (const void *)a;
    return a->sa_family == AF_INET
               ? ntohl(four->sin_addr.s_addr) >> 24 == 127
               : IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* Whether the host is an address or "localhost". Other names may have a
 * loopback address on this node only: Debian's /etc/hosts maps the node's own
 * name to 127.0.1.1. */
static bool is_same_everywhere(const char *host)
{
    struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST}, *found = NULL;
    if (strcmp(host, "localhost") == 0)
        return true;
    if (getaddrinfo(host, NULL, &numeric, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}

static int listen_at(const void *address, socklen_t n)
{
    int family = ((const struct sockaddr *)address)->sa_family;
    int s = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return -1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (family == AF_INET6)
        setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
    if (bind(s, address, n) == 0 && listen(s, SOMAXCONN) == 0)
        return s;
    int error = errno;
    close(s);
    errno = error;
    return -1;
}

/* Listens at every address of the machine; at those of IPv4 if it has no IPv6. */
static int listen_everywhere(int port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6,
                               .sin6_addr = IN6ADDR_ANY_INIT,
                               .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port)};
    int s = listen_at(&any, sizeof any);
    return s < 0 ? listen_at(&any4, sizeof any4) : s;
}

/* Listens only at the loopback address if all ranks are on this node; else at
 * every address of the machine. */
static int open_listener(const RtStore *s)
{
    const RtLaunch *l = s->launch;
    const char *error;
    struct addrinfo *list = rt_rank0_addresses(l, &error);
    bool may_be_local = is_same_everywhere(l->host);
    int listener = -1;
    for (struct addrinfo *a = list; a && listener < 0; a = a->ai_next)
        listener = may_be_local && is_loopback(a->ai_addr)
                   ? listen_at(a->ai_addr, a->ai_addrlen)
                   : listen_everywhere(l->port);
    if (listener < 0) {
        bool used = !error && errno == EADDRINUSE;
        rt_error("rank 0 cannot listen at %s:%d: %s%s", l->host, l->port,
                 error ? error : strerror(errno),
                 used ? "; name a free port: PARC_MASTER=host:port" : "");
    }
    if (list)
        freeaddrinfo(list);
    return listener;
}

static const char *reason(RtAnswer answer)
{
    static const char *const text[RT_ANSWERS] = {
        [RT_OTHER_JOB] = "of another job",
        [RT_OTHER_TOKEN] = "with another token (PARC_TOKEN has to be the same "
                           "for all ranks)",
        [RT_OTHER_SIZE] = "with another number of ranks",
        [RT_OTHER_PLAN] = "built from another plan than rank 0",
        [RT_TAKEN] = "as a rank that has joined already",
        [RT_NO_RANK] = "as a rank that does not exist",
        [RT_SILENT] = "that did not introduce itself"};
    return text[answer];
}

/* Replaces characters that a terminal would interpret: the host name that a
 * client sends is printed. */
static void clean(char host[RT_NODE])
{
    host[RT_NODE - 1] = 0;
    for (char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-._", *c))
            *c = '?';
}

static void count_refused(AcceptState *r, const Client *c, RtAnswer why)
{
    Tally *t = &r->tally[why];
    t->n++;
    memcpy(t->from, c->from, sizeof t->from);
    if (why != RT_SILENT)
        snprintf(t->who, sizeof t->who, ", as rank %d on %s", c->hello.rank,
                 c->hello.host);
    if (t->n == 1 && why != RT_SILENT && why != RT_TAKEN)
        rt_note("rank 0 refused a process %s, from %s%s", reason(why), t->from,
                t->who);
}

/* Whether the process of a connection has closed it: it gave up waiting for the
 * reply. */
static bool has_left(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0; /* POLLHUP and POLLERR as well */
}

/* Whether a connection of this kind has joined as this rank. If the process of
 * that connection has left, closes it and counts it as missing again. */
static bool rank_has_joined(AcceptState *r, const RtHello *h)
{
    RtLink *link = &r->store->link[h->rank];
    int *fd = h->life ? &link->life : &link->line;
    if (*fd < 0)
        return false;
    if (!has_left(*fd))
        return true;
    close(*fd);
    *fd = -1;
    r->missing++;
    return false;
}

static RtAnswer check_hello(AcceptState *r, const Client *c)
{
    const RtLaunch *l = r->store->launch;
    const RtHello *h = &c->hello;
    unsigned char code[RT_DIGEST];
    rt_hello_code(l, &c->challenge, h, code);
    if (h->job != l->job)
        return RT_OTHER_JOB;
    if (!rt_digest_equal(code, h->code))
        return RT_OTHER_TOKEN;
    if (h->size != l->size)
        return RT_OTHER_SIZE;
    if (h->rank < 1 || h->rank >= l->size)
        return RT_NO_RANK;
    return h->plan != r->store->world->model->plan_hash ? RT_OTHER_PLAN
           : rank_has_joined(r, h)                      ? RT_TAKEN
                                                        : RT_JOINED;
}

/* An authenticated rank was built from another plan; it has received this
 * answer and exits. The other ranks get some seconds to join, so that they
 * receive the end of the run, too. */
static void refuse_plan(AcceptState *r, const RtHello *h)
{
    if (!r->refused) {
        double soon = rt_now() + LAST_SECONDS;
        rt_error("rank %d on %s was built from another plan than rank 0: start "
                 "the same program on all ranks", h->rank, h->host);
        r->until = soon < r->until ? soon : r->until;
    }
    r->refused = true;
    r->missing -= 2;
}

/* Answers a complete Hello. */
static void answer_hello(AcceptState *r, Client *c)
{
    RtHello *h = &c->hello;
    if (memcmp(h->magic, rt_handshake_magic, sizeof h->magic) != 0 ||
        h->version != RT_HANDSHAKE_VERSION) {
        count_refused(r, c, RT_SILENT);
        close(c->socket); /* not a rank of parc */
        return;
    }
    RtAnswer answer = check_hello(r, c);
    RtReply reply = {.answer = answer};
    rt_reply_code(r->store->launch, &c->challenge, h, answer, reply.code);
    bool told = rt_socket_send(c->socket, &reply, sizeof reply, 1);
    clean(h->host);
    if (answer == RT_JOINED && told && !has_left(c->socket)) {
        RtLink *link = &r->store->link[h->rank];
        memcpy(link->node, h->host, sizeof link->node);
        *(h->life ? &link->life : &link->line) = c->socket;
        r->missing--;
        return;
    }
    close(c->socket);
    if (answer == RT_OTHER_PLAN && r->store->launch->secret)
        refuse_plan(r, h);
    else if (answer != RT_JOINED)
        count_refused(r, c, answer);
}

/* Receives a part of the Hello; whether the client stays connected for more. */
static bool receive_hello(AcceptState *r, Client *c)
{
    char *to = (char *)&c->hello + c->n;
    ssize_t n = recv(c->socket, to, sizeof c->hello - c->n, MSG_DONTWAIT);
    bool later = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n > 0 && (c->n += (size_t)n) == sizeof c->hello) {
        answer_hello(r, c);
        return false;
    }
    if (n > 0 || (later && rt_now() < c->until))
        return true;
    count_refused(r, c, RT_SILENT);
    close(c->socket);
    return false;
}

/* Frees an entry for a new client. */
static void drop_oldest(AcceptState *r)
{
    int oldest = 0;
    for (int i = 1; i < r->clients; i++)
        if (r->client[i].until < r->client[oldest].until)
            oldest = i;
    count_refused(r, &r->client[oldest], RT_SILENT);
    close(r->client[oldest].socket);
    r->client[oldest] = r->client[--r->clients];
}

static void accept_client(AcceptState *r, int listener)
{
    struct sockaddr_storage from = {0};
    socklen_t size = sizeof from;
    int s = accept4(listener, (void *)&from, &size, SOCK_CLOEXEC);
    if (s < 0)
        return;
    if (r->clients == CLIENTS)
        drop_oldest(r);
    Client *c = &r->client[r->clients];
    *c = (Client){.socket = s, .until = rt_now() + RT_HANDSHAKE_SECONDS};
    if (getnameinfo((void *)&from, size, c->from, sizeof c->from, NULL, 0,
                    NI_NUMERICHOST) != 0)
        snprintf(c->from, sizeof c->from, "an unknown address");
    static const char mapped[] = "::ffff:"; /* IPv4 on a socket of IPv6 */
    size_t skipped = strlen(mapped), n = strlen(c->from);
    if (strncmp(c->from, mapped, skipped) == 0)
        memmove(c->from, c->from + skipped, n - skipped + 1);
    memcpy(c->challenge.magic, rt_handshake_magic, sizeof c->challenge.magic);
    rt_nonce(c->challenge.nonce);
    rt_socket_tune(s);
    if (rt_socket_send(s, &c->challenge, sizeof c->challenge, 0))
        r->clients++;
    else
        close(s);
}

/* "; refused: 3 connections with another token …, the last from 10.0.0.5" */
static void add_refusals(const AcceptState *r, RtText *text)
{
    text->at[0] = 0;
    for (int i = 0; i < RT_ANSWERS; i++) {
        const Tally *t = &r->tally[i];
        if (t->n > 0)
            rt_add(text, "; refused %d connection%s %s, the last from %s%s",
                   t->n, t->n == 1 ? "" : "s", reason(i), t->from, t->who);
    }
}

static bool report_missing(const AcceptState *r)
{
    const RtStore *s = r->store;
    char refusals[REFUSALS];
    int missing = 0, first = 0;
    for (int i = s->launch->size - 1; i > 0; i--)
        if (s->link[i].line < 0 || s->link[i].life < 0) {
            missing++;
            first = i;
        }
    add_refusals(r, &(RtText){.at = refusals, .capacity = sizeof refusals});
    return rt_error("rank 0 waited %.0f s at %s:%d for %d of %d ranks; the "
                    "first that did not join is rank %d%s", s->limit,
                    s->launch->host, s->launch->port, missing, s->launch->size,
                    first, refusals);
}

static bool receive_all(AcceptState *r, int listener)
{
    r->until = rt_now() + r->store->limit;
    while (r->missing > 0) {
        struct pollfd p[CLIENTS + 1];
        if (rt_now() > r->until)
            return !r->refused && report_missing(r);
        p[0] = (struct pollfd){.fd = listener, .events = POLLIN};
        for (int i = 0; i < r->clients; i++)
            p[i + 1] =
                (struct pollfd){.fd = r->client[i].socket, .events = POLLIN};
        if (poll(p, (nfds_t)r->clients + 1, LOOK_MS) < 0 && errno != EINTR)
            return rt_error("rank 0 cannot wait for the other ranks: %s",
                            strerror(errno));
        for (int i = r->clients - 1; i >= 0; i--)
            if (!receive_hello(r, &r->client[i]))
                r->client[i] = r->client[--r->clients];
        if (p[0].revents & POLLIN)
            accept_client(r, listener);
    }
    return !r->refused;
}

/* Raises the limit of open files to the hard limit if the connections need more
 * than the soft limit; false, after a message, if they need more than that. */
static bool allow_connections(const RtStore *s)
{
    enum { OTHER_FILES = 64 };
    struct rlimit most;
    rlim_t needed = 2 * (rlim_t)s->launch->size + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur >= needed)
        return true;
    most.rlim_cur = most.rlim_max;
    if (most.rlim_max >= needed && setrlimit(RLIMIT_NOFILE, &most) == 0)
        return true;
    return rt_error("rank 0 has two connections to each of %d ranks and needs "
                    "%lld open files; 'ulimit -Hn' allows %lld",
                    s->launch->size, (long long)needed,
                    (long long)most.rlim_max);
}

bool rt_accept_ranks(RtStore *s)
{
    if (!allow_connections(s))
        return false;
    AcceptState *r = rt_allocate(sizeof *r);
    int listener = open_listener(s);
    r->store = s;
    r->missing = 2 * (s->launch->size - 1);
    bool good = listener >= 0 && receive_all(r, listener);
    for (int i = 0; i < r->clients; i++)
        close(r->client[i].socket);
    if (listener >= 0)
        close(listener);
    free(r);
    return good;
}
