/* socket.h: declares transfers over the connections of a job (launch/socket.c).
 */
#ifndef PARC_RT_SOCKET_H
#define PARC_RT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "launch/job.h"

struct addrinfo;

/* Transfer all `n` bytes within `limit` seconds. On failure false and errno;
 * errno is 0 if the other end has closed the connection. */
bool rt_socket_send(int socket, const void *data, size_t n, double limit);
bool rt_socket_receive(int socket, void *data, size_t n, double limit);
/* Waits until the socket is ready for `events` of poll(2) and subtracts the
 * time from *left, in seconds. False and errno when no time is left or on
 * failure. */
bool rt_socket_poll(int socket, short events, double *left);
/* Sends small messages immediately, and detects a lost machine. */
void rt_socket_tune(int socket);

/* The addresses of rank 0; NULL and *error where its host is not known. The
 * caller frees the list. */
struct addrinfo *rt_rank0_addresses(const RtLaunch *l, const char **error);

#endif
