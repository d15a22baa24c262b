/* job.h: declares how ranks that a launcher started synchronize; each is a
 * separate process.
 *
 * Without a launcher a program forks its ranks on this node, and they share
 * memory. Under a launcher each process is one rank: launch/launcher.c finds its
 * number, launch/store.c connects it to rank 0, and launch/job.c implements over these
 * connections the synchronization that forked ranks do in shared memory.
 */
#ifndef PARC_RT_JOB_H
#define PARC_RT_JOB_H

#include <pthread.h>

#include "launch/hmac.h"
#include "rt.h"

enum { RT_HOST = 256, RT_RANK_NAME = 96 };

/* The name of this process's node: the host name, or "host-k" with PARC_NODE=k
 * in the environment, so that tests can run several nodes on one host. */
void rt_node_name(char name[RT_NODE]);

/* The description of this process in the environment. */
struct RtLaunch {
    const char *by; /* "torchrun", "mpirun", "srun"; NULL: no launcher */
    int rank, size;
    int local;          /* index among the ranks of this node */
    int local_size;     /* number of ranks on this node; 1 if the launcher does
                           not set it */
    char host[RT_HOST]; /* where rank 0 listens */
    int port;
    uint64_t job; /* hash of the job: equal in the processes of one job, almost
                     surely different for two jobs */
    unsigned char key[RT_DIGEST]; /* the job's key: launch/key.c */
    bool secret;  /* the key includes a token */
};

/* Reads the environment. l->by stays NULL if no launcher started this process,
 * or if the job has only this process. False after a message if the
 * environment is inconsistent. */
bool rt_launcher(RtLaunch *l, const ParcModel *model);

/* Sets job, key and secret; false after a message. */
bool rt_key(RtLaunch *l);

/* The two connections of a rank to rank 0. The line carries expected messages:
 * synchronization points, and bytes that rank 0 sends or requests. The
 * lifeline reports a failure or the end of a rank; a separate thread reads it
 * at all times. */
typedef struct RtLink {
    int line, life;
    bool done;     /* the rank has sent RT_FRAME_DONE */
    bool arrived;  /* the rank is at the synchronization point that rank 0 is
                      at or will reach next */
    int32_t where; /* id of this synchronization point */
    char node[RT_NODE]; /* host name of the rank's node */
} RtLink;

struct RtStore {
    const RtLaunch *launch;
    RtWorld *world;
    double limit;  /* seconds */
    int64_t zero;  /* ns: start of the run on this node's clock */
    RtLink *link;  /* rank 0: by rank; others: one, to rank 0 */
    _Atomic int32_t failed; /* a thread of this process is ending the run */
    _Atomic int32_t ending; /* the run has ended well: other ranks may close
                               their connections */
    _Atomic int32_t requester; /* rank 0: the rank that requests the states of
                                  all others, +1; 0: none */
    _Atomic int32_t states_received; /* number of states of other ranks that
                                        have arrived here */
    pthread_t watcher;
    bool watched;
    int wake[2]; /* a pipe that wakes the watcher: a byte 0 ends it, another
                    byte is a signal to forward */
};

/* The number of this process's links, and the link to another rank. */
static inline int rt_links(const RtStore *s)
{
    return s->launch->rank == 0 ? s->launch->size : 1;
}

static inline RtLink *rt_link_to(const RtStore *s, int rank)
{
    return &s->link[s->launch->rank == 0 ? rank : 0];
}

/* The kinds of messages. A frame is followed by `bytes` more. Both ends run
 * the same program, hence the same byte order and layout. */
enum {
    RT_FRAME_ARRIVE = 1, /* the rank has reached synchronization point `id` */
    RT_FRAME_GO,         /* all ranks have reached it and may continue */
    RT_FRAME_READ,       /* rank 0 requests `b` bytes at offset `a` of memory
                            `id` (RT_OF_…) */
    RT_FRAME_DATA,       /* the bytes follow */
    RT_FRAME_FAIL,       /* the run fails; the reason follows unless it was
                            printed */
    RT_FRAME_DONE,       /* the rank ends without an error */
    RT_FRAME_REQUEST_STATES, /* rank `id` requests the states of all other
                                ranks */
    RT_FRAME_STATE,          /* the state of rank `id`, for rank `a` */
    RT_FRAME_SAVED,          /* the rank has ended its part of save `a`; id: an
                                errno */
    RT_FRAME_SIGNAL,         /* signal `id` has reached the rank */
};
enum { RT_OF_ARENA, RT_OF_TRACE };
typedef struct RtFrame {
    uint32_t kind;
    int32_t id;
    int64_t a, b;
    uint64_t bytes;
} RtFrame;

/* Connects the ranks of a job; false after a message. Rank 0 listens; the
 * others retry until the limit. A process of another job or plan is refused
 * with a reason. */
bool rt_store_open(RtStore *s, RtWorld *w, const RtLaunch *launch,
                   double limit);
void rt_store_close(RtStore *s);

/* The name of another rank of the job for messages: "rank 3 on node7". */
const char *rt_store_name(const RtStore *s, int rank, char text[RT_RANK_NAME]);

/* ---- launch/socket.c: transfers over the connections ---- */

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

/* ---- launch/job.c: each function ends the run on failure ---- */

void rt_job_synchronize(RtStore *s, int id);
/* Copies rank 0's bytes to all ranks at synchronization point `id`. Rank 0 does
 * not wait for the others. */
void rt_job_broadcast(RtStore *s, int id, void *data, size_t bytes);
/* Copies bytes of another rank's memory to rank 0. Rank 0 calls it while the
 * others are at, or will reach, a synchronization point. */
void rt_job_read(RtStore *s, int rank, int of, int64_t offset, int64_t bytes,
                 void *to);

/* ---- launch/lifeline.c: failures, signals and ends of ranks ---- */

/* Seconds in which the other end of a lifeline answers. */
enum { RT_SOON = 10 };
/* rt_job_watch starts the thread that reads lifelines; false after a message.
 * rt_job_end: the run has ended without an error on this rank; the others may
 * continue. */
bool rt_job_watch(RtStore *s);
void rt_job_end(RtStore *s);
/* Reports the rank's part of save `count` to rank 0; `error`: an
 * errno, or 0. Any thread may call it. */
void rt_job_saved(RtStore *s, int32_t error, uint32_t count);
/* Ends the run because of this rank, with the reason `text`; NULL: the reason
 * has been printed. Only one rank's reason is printed. */
_Noreturn void rt_job_fail(RtStore *s, const char *text);
/* Ends the run after a connection broke before its rank sent RT_FRAME_DONE.
 * Returns if this rank has ended its run. */
void rt_job_lost(RtStore *s, int rank);

/* ---- launch/late_rank.c: states of ranks, for messages ---- */

/* Rank 0 forwards a request, every other rank answers it. */
void rt_states_answer(RtStore *s, const RtFrame *f);
/* rt_states_gather for callers without a ParcRt. */
void rt_states_request(RtStore *s);
/* False if the answer is incomplete. */
bool rt_states_receive(RtStore *s, int link, const RtFrame *f);

/* Adds `ns` to the times of all marks of a ring. */
void rt_marks_shift(RtRing *ring, int64_t ns);

/* ---- launch/signals.c: requests that signals make of a run: to stop after the
 * current step, or to save a checkpoint ---- */

/* Handles SIGINT, SIGTERM and SIGUSR1 from now on, except those that the
 * process ignores. Before rt_signals_attach SIGINT and SIGTERM end the process
 * as without a handler, and SIGUSR1 has no effect. */
void rt_signals_open(void);
/* Signals are requests to the run of this world from now on; NULL: to none.
 * Called before ranks are forked, so that they inherit it. */
void rt_signals_attach(RtWorld *w);

/* Counts a signal that another process of the job received. */
void rt_signals_record(RtSignals *s, int signal);
/* "SIGTERM" */
const char *rt_signal_name(int signal);

#endif
