/* rt_store.c: the connections between the processes of a job.
 *
 * Rank 0 listens where the launcher says; every other rank connects twice (a
 * line and a lifeline) and introduces itself. Rank 0 may come last, so the
 * others try again until the limit. Anybody may connect to an open port: an
 * introduction has a fixed size, must be complete in a few seconds, and what
 * it says is compared with what can be true; who says anything else is cut
 * off. When all have come nobody listens any more.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rt_job.h"

enum { GUESTS = 64, GUEST_SECONDS = 10, RETRY_MS = 50, VERSION = 1 };

typedef enum Answer {
    JOINED = 1, OTHER_JOB, OTHER_SIZE, OTHER_PLAN, TAKEN, NO_RANK,
} Answer;

typedef struct Hello {
    char magic[8];
    uint32_t version, life;
    int32_t rank, size;
    uint64_t job, plan;
    char box[64];
} Hello;
static const char magic[8] = "parcrank";

static const char *answer_text(uint32_t answer)
{
    static const char *const text[] = {
        [OTHER_JOB] = "that is the rank 0 of another job",
        [OTHER_SIZE] = "rank 0 has another number of ranks",
        [OTHER_PLAN] = "rank 0 was built from another plan",
        [TAKEN] = "another process has joined as this rank",
        [NO_RANK] = "rank 0 knows no such rank"};
    return answer > JOINED && answer <= NO_RANK ? text[answer]
                                                : "no rank 0 of parc answers";
}

const char *rt_store_name(const RtStore *s, int rank, char text[96])
{
    const RtLink *l = &s->link[s->launch->rank == 0 ? rank : 0];
    snprintf(text, 96, "rank %d%s%s", rank, l->box[0] ? " on " : "", l->box);
    return text;
}

/* ---- bytes --------------------------------------------------------------- */

/* Until the socket is ready, or `until`. */
static bool wait_for(int socket, short events, double until)
{
    struct pollfd p = {.fd = socket, .events = events};
    for (;;) {
        double left = until - rt_now();
        if (left <= 0) {
            errno = ETIMEDOUT;
            return false;
        }
        int n = poll(&p, 1, left > 1000 ? 1000000 : (int)(left * 1e3) + 1);
        if (n > 0) {
            return true;
        }
        if (n < 0 && errno != EINTR) {
            return false;
        }
    }
}

static bool try_again(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool rt_store_send(int socket, const void *data, size_t n, double limit)
{
    const char *p = data;
    double until = rt_now() + limit;
    while (n > 0) {
        ssize_t did = send(socket, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (did > 0) {
            p += did;
            n -= (size_t)did;
        } else if (!try_again() || !wait_for(socket, POLLOUT, until)) {
            return false;
        }
    }
    return true;
}

bool rt_store_receive(int socket, void *data, size_t n, double limit)
{
    char *p = data;
    double until = rt_now() + limit;
    while (n > 0) {
        ssize_t did = recv(socket, p, n, MSG_DONTWAIT);
        if (did > 0) {
            p += did;
            n -= (size_t)did;
        } else if (did == 0) {
            errno = 0;
            return false;
        } else if (!try_again() || !wait_for(socket, POLLIN, until)) {
            return false;
        }
    }
    return true;
}

static struct addrinfo *addresses(const RtLaunch *l, const char **error)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char port[16];
    snprintf(port, sizeof port, "%d", l->port);
    int how = getaddrinfo(l->host, port, &want, &found);
    *error = how == 0 ? NULL : gai_strerror(how);
    return how == 0 ? found : NULL;
}

static void tune(int socket)
{
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
}

/* ---- rank 0 -------------------------------------------------------------- */

/* A connection that has not said all of its introduction. */
typedef struct Guest {
    int socket;
    double until;
    size_t n;
    Hello hello;
} Guest;

typedef struct Reception {
    RtStore *store;
    Guest guest[GUESTS];
    int guests, missing; /* connections yet to come */
    bool refused;        /* a rank that cannot take part: all are told */
    uint64_t plan;
} Reception;

static bool is_loopback(const struct sockaddr *a)
{
    const struct sockaddr_in *four = (const void *)a;
    const struct sockaddr_in6 *six = (const void *)a;
    return a->sa_family == AF_INET
               ? ntohl(four->sin_addr.s_addr) >> 24 == 127
               : IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* Where all other ranks are in this box nobody else is heard; else whichever
 * of its addresses the others reach. */
static int listen_at(struct addrinfo *a)
{
    struct sockaddr_in six_less = {.sin_family = AF_INET};
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    const struct sockaddr *at = a->ai_addr;
    socklen_t n = a->ai_addrlen;
    if (!is_loopback(at) && a->ai_family == AF_INET6) {
        any.sin6_port = ((struct sockaddr_in6 *)(void *)a->ai_addr)->sin6_port;
        at = (const void *)&any;
        n = sizeof any;
    } else if (!is_loopback(at)) {
        six_less.sin_port = ((struct sockaddr_in *)(void *)a->ai_addr)->sin_port;
        at = (const void *)&six_less;
        n = sizeof six_less;
    }
    int s = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (s >= 0 && bind(s, at, n) == 0 && listen(s, SOMAXCONN) == 0) {
        return s;
    }
    if (s >= 0) {
        int error = errno;
        close(s);
        errno = error;
    }
    return -1;
}

static int open_door(const RtStore *s)
{
    const RtLaunch *l = s->launch;
    const char *error;
    struct addrinfo *list = addresses(l, &error);
    int door = -1;
    for (struct addrinfo *a = list; a && door < 0; a = a->ai_next) {
        door = listen_at(a);
    }
    if (door < 0) {
        bool used = !error && errno == EADDRINUSE;
        rt_error(s->world->program,
                 "rank 0 cannot listen at %s:%d: %s%s", l->host, l->port,
                 error ? error : strerror(errno),
                 used ? "; give this job a free one: PARC_MASTER=host:port"
                      : "");
    }
    if (list) {
        freeaddrinfo(list);
    }
    return door;
}

static Answer judge(const Reception *r, const Hello *h)
{
    const RtLaunch *l = r->store->launch;
    const RtLink *link;
    if (h->job != l->job) {
        return OTHER_JOB;
    }
    if (h->size != l->size) {
        return OTHER_SIZE;
    }
    if (h->rank < 1 || h->rank >= l->size) {
        return NO_RANK;
    }
    link = &r->store->link[h->rank];
    return h->plan != r->plan                           ? OTHER_PLAN
           : (h->life ? link->life : link->line) >= 0 ? TAKEN
                                                        : JOINED;
}

/* A guest has said all. */
static void welcome(Reception *r, Guest *g)
{
    Hello *h = &g->hello;
    h->box[sizeof h->box - 1] = 0;
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->version != VERSION) {
        close(g->socket); /* no rank of parc */
        return;
    }
    uint32_t answer = judge(r, h);
    bool told = rt_store_send(g->socket, &answer, sizeof answer, 1);
    if (answer == JOINED && told) {
        RtLink *link = &r->store->link[h->rank];
        memcpy(link->box, h->box, sizeof link->box);
        *(h->life ? &link->life : &link->line) = g->socket;
        r->missing--;
        return;
    }
    close(g->socket);
    if (answer == OTHER_PLAN) {
        if (!r->refused) {
            rt_error(r->store->world->program,
                     "rank %d on %s was built from another plan than rank 0",
                     h->rank, h->box);
        }
        r->refused = true;
        r->missing -= 2; /* nor will it come back */
    }
}

/* Reads on; whether the guest stays for more. */
static bool listen_to(Reception *r, Guest *g)
{
    char *to = (char *)&g->hello + g->n;
    ssize_t n = recv(g->socket, to, sizeof g->hello - g->n, MSG_DONTWAIT);
    if (n > 0 && (g->n += (size_t)n) == sizeof g->hello) {
        welcome(r, g);
        return false;
    }
    if (n > 0 || (n < 0 && try_again() && rt_now() < g->until)) {
        return true;
    }
    close(g->socket);
    return false;
}

static void let_in(Reception *r, int door)
{
    int s = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    if (s >= 0) {
        tune(s);
        r->guest[r->guests++] =
            (Guest){.socket = s, .until = rt_now() + GUEST_SECONDS};
    }
}

static bool report_missing(const RtStore *s)
{
    int missing = 0, first = 0;
    for (int i = s->launch->size - 1; i > 0; i--) {
        if (s->link[i].line < 0 || s->link[i].life < 0) {
            missing++;
            first = i;
        }
    }
    rt_error(s->world->program,
             "rank 0 waited %.0f s at %s:%d for %d of %d ranks; the first that "
             "has not come is rank %d",
             s->limit, s->launch->host, s->launch->port, missing,
             s->launch->size, first);
    return false;
}

static bool receive_all(Reception *r, int door)
{
    double until = rt_now() + r->store->limit;
    while (r->missing > 0) {
        struct pollfd p[GUESTS + 1];
        bool full = r->guests == GUESTS;
        if (rt_now() > until) {
            return !r->refused && report_missing(r->store);
        }
        p[0] = (struct pollfd){.fd = full ? -1 : door, .events = POLLIN};
        for (int i = 0; i < r->guests; i++) {
            p[i + 1] =
                (struct pollfd){.fd = r->guest[i].socket, .events = POLLIN};
        }
        if (poll(p, (nfds_t)r->guests + 1, 200) < 0 && errno != EINTR) {
            rt_error(r->store->world->program,
                     "rank 0 cannot wait for the others: %s", strerror(errno));
            return false;
        }
        for (int i = r->guests - 1; i >= 0; i--) {
            if (!listen_to(r, &r->guest[i])) {
                r->guest[i] = r->guest[--r->guests];
            }
        }
        if (p[0].revents & POLLIN) {
            let_in(r, door);
        }
    }
    return !r->refused;
}

static bool gather_ranks(RtStore *s)
{
    Reception *r = rt_allocate(sizeof *r);
    int door = open_door(s);
    r->store = s;
    r->missing = 2 * (s->launch->size - 1);
    r->plan = s->world->model->plan_hash;
    bool good = door >= 0 && receive_all(r, door);
    for (int i = 0; i < r->guests; i++) {
        close(r->guest[i].socket);
    }
    if (door >= 0) {
        close(door);
    }
    free(r);
    return good;
}

/* ---- the other ranks ----------------------------------------------------- */

/* A connection that rank 0 has accepted; -1 and what went wrong. *final: it
 * will not get better. */
static int try_address(const struct addrinfo *a, const Hello *h, double until,
                       const char **error, bool *final)
{
    uint32_t answer = 0;
    socklen_t n = sizeof(int);
    int how = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    double left = until - rt_now();
    if (fd < 0 || (connect(fd, a->ai_addr, a->ai_addrlen) != 0 &&
                   (errno != EINPROGRESS || !wait_for(fd, POLLOUT, until) ||
                    getsockopt(fd, SOL_SOCKET, SO_ERROR, &how, &n) != 0 ||
                    (errno = how) != 0))) {
        *error = strerror(errno);
    } else if (!rt_store_send(fd, h, sizeof *h, left) ||
               !rt_store_receive(fd, &answer, sizeof answer, left)) {
        *error = errno ? strerror(errno) : "it hangs up";
    } else if (answer == JOINED) {
        tune(fd);
        return fd;
    } else {
        *error = answer_text(answer);
        *final = answer != TAKEN && answer != OTHER_JOB;
    }
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

static int join(const RtStore *s, bool life)
{
    const RtLaunch *l = s->launch;
    Hello h = {.version = VERSION, .life = life, .rank = l->rank,
               .size = l->size, .job = l->job,
               .plan = s->world->model->plan_hash};
    const char *error = "nobody answers";
    double until = rt_now() + s->limit;
    bool final = false;
    memcpy(h.magic, magic, sizeof magic);
    gethostname(h.box, sizeof h.box - 1);
    while (!final && rt_now() < until) {
        const char *unknown;
        struct addrinfo *list = addresses(l, &unknown);
        error = unknown ? unknown : error;
        for (struct addrinfo *a = list; a && !final; a = a->ai_next) {
            int fd = try_address(a, &h, until, &error, &final);
            if (fd >= 0) {
                freeaddrinfo(list);
                return fd;
            }
        }
        if (list) {
            freeaddrinfo(list);
        }
        usleep(RETRY_MS * 1000);
    }
    rt_error(s->world->program,
             "rank %d cannot join rank 0 at %s:%d%s: %s", l->rank, l->host,
             l->port, final ? "" : " in time", error);
    return -1;
}

bool rt_store_open(RtStore *s, RtWorld *w, const RtLaunch *launch, double limit)
{
    int n = launch->rank == 0 ? launch->size : 1;
    memset(s, 0, sizeof *s);
    s->launch = launch;
    s->world = w;
    s->limit = limit;
    s->bell[0] = s->bell[1] = -1;
    s->link = rt_allocate((size_t)n * sizeof *s->link);
    for (int i = 0; i < n; i++) {
        s->link[i].line = s->link[i].life = -1;
    }
    if (launch->rank == 0) {
        return gather_ranks(s);
    }
    s->link[0].line = join(s, false);
    s->link[0].life = s->link[0].line >= 0 ? join(s, true) : -1;
    return s->link[0].life >= 0;
}

void rt_store_close(RtStore *s)
{
    int n = s->launch->rank == 0 ? s->launch->size : 1;
    for (int i = 0; i < n; i++) {
        int fd[] = {s->link[i].line, s->link[i].life};
        for (int k = 0; k < 2; k++) {
            if (fd[k] >= 0) {
                close(fd[k]);
            }
        }
    }
    free(s->link);
    s->link = NULL;
}
