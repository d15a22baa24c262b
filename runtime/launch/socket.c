/* socket.c: sends and receives bytes within a time limit, and finds the
 * addresses of rank 0, for both ends of the connections of a job.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "common/message.h"
#include "launch/job.h"
#include "rt.h"

/* Each wait of one second counts as at most one second: time in which the
 * process is stopped does not count. */
bool rt_socket_poll(int socket, short events, double *left)
{
    struct pollfd p = {.fd = socket, .events = events};
    while (*left > 0) {
        double slice = *left < 1 ? *left : 1, begin = rt_now();
        int n = poll(&p, 1, (int)(slice * 1e3) + 1);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        double waited = rt_now() - begin;
        *left -= waited < slice ? waited : slice;
    }
    errno = ETIMEDOUT;
    return false;
}

static bool may_retry(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool rt_socket_send(int socket, const void *data, size_t n, double limit)
{
    const char *p = data;
    while (n > 0) {
        ssize_t did = send(socket, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (did > 0) {
            p += did;
            n -= (size_t)did;
        } else if (!may_retry() || !rt_socket_poll(socket, POLLOUT, &limit)) {
            return false;
        }
    }
    return true;
}

bool rt_socket_receive(int socket, void *data, size_t n, double limit)
{
    char *p = data;
    while (n > 0) {
        ssize_t did = recv(socket, p, n, MSG_DONTWAIT);
        if (did > 0) {
            p += did;
            n -= (size_t)did;
        } else if (did == 0) {
            errno = 0;
            return false;
        } else if (!may_retry() || !rt_socket_poll(socket, POLLIN, &limit)) {
            return false;
        }
    }
    return true;
}

struct addrinfo *rt_rank0_addresses(const RtLaunch *l, const char **error)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char port[16];
    snprintf(port, sizeof port, "%d", l->port);
    int how = getaddrinfo(l->host, port, &want, &found);
    *error = how == 0 ? NULL : gai_strerror(how);
    return how == 0 ? found : NULL;
}

void rt_socket_tune(int socket)
{
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
}
