/* rt_job.h: ranks that a launcher has started, each a process of its own.
 *
 * Without a launcher a program forks its ranks in this box and they share
 * memory. Under one, each process is one rank: rt_launcher.c finds out which,
 * rt_store.c connects all to rank 0, rt_job.c does over these connections what
 * forked ranks do in shared memory.
 */
#ifndef PARC_RT_JOB_H
#define PARC_RT_JOB_H

#include <pthread.h>

#include "rt.h"
#include "rt_hmac.h"

enum { RT_HOST = 256 };

/* What the environment says of this process. */
struct RtLaunch {
    const char *by; /* "torchrun", "mpirun", "srun"; NULL: no launcher */
    int rank, size;
    int local;          /* its number among the ranks of its machine */
    int neighbours;     /* how many these are, as far as is known; at least 1 */
    char host[RT_HOST]; /* where rank 0 listens */
    int port;
    uint64_t job; /* equal for the processes of one job, hardly for two jobs */
    unsigned char key[RT_DIGEST]; /* of the job: rt_key.c */
    bool secret;  /* the key holds a token */
};

/* Finds out; by stays NULL where no launcher has started this process, or one
 * whose job is this process alone. False after a message, where what the
 * environment says cannot be. */
bool rt_launcher(RtLaunch *l, const ParcModel *model, const char *program);

/* Sets job, key and secret; false after a message. */
bool rt_key(RtLaunch *l, const char *program);

/* Two connections from every other rank to rank 0. What both ends expect goes
 * over the line: meetings, bytes that rank 0 gives or asks for. That a rank
 * fails or is gone is heard on the lifeline, by a thread of its own, whatever
 * its process waits for. */
typedef struct RtLink {
    int line, life;
    bool done;     /* it has said goodbye */
    bool arrived;  /* at the meeting that rank 0 is in, or has yet to come to */
    int32_t where; /* that meeting */
    char box[64];  /* its host's name */
} RtLink;

struct RtStore {
    const RtLaunch *launch;
    RtWorld *world;
    double limit;  /* seconds */
    int64_t zero;  /* ns: when the run began, on this box's clock */
    RtLink *link;  /* rank 0: by rank; others: one, to rank 0 */
    _Atomic int32_t failed; /* this process is about to end the run */
    _Atomic int32_t ending; /* all is done; who leaves may */
    _Atomic int32_t asker;  /* rank 0: who is told where ranks are, +1; 0: none */
    _Atomic int32_t heard;  /* answers that this rank has got */
    pthread_t watcher;
    bool watched;
    int bell[2];   /* a pipe: wakes the watcher, to end */
};

/* One message: what it is, then `bytes` more. Both ends run one program. */
enum {
    RT_SAY_ARRIVE = 1, /* id: of the meeting */
    RT_SAY_GO,         /* all have arrived */
    RT_SAY_READ,       /* id: RT_OF_…, a: offset, b: bytes */
    RT_SAY_DATA,
    RT_SAY_FAIL, /* a text; none: it has been said */
    RT_SAY_DONE, /* goodbye */
    RT_SAY_WHERE, /* id: the rank that asks where all others are */
    RT_SAY_PLACE, /* id: where that rank is, a: who has asked */
};
enum { RT_OF_ARENA, RT_OF_TRACE };
typedef struct RtFrame {
    uint32_t say;
    int32_t id;
    int64_t a, b;
    uint64_t bytes;
} RtFrame;

/* Connects the ranks of a job: false after a message. Rank 0 listens, the
 * others try until the limit; who is of another job, or built from another
 * plan, is told so. */
bool rt_store_open(RtStore *s, RtWorld *w, const RtLaunch *launch,
                   double limit);
void rt_store_close(RtStore *s);

/* All `n` bytes, within the limit of seconds; false and errno, 0 where the
 * other end is gone. */
bool rt_store_send(int socket, const void *data, size_t n, double limit);
bool rt_store_receive(int socket, void *data, size_t n, double limit);

/* A rank of the job that this process is not, for messages: "rank 3 on
 * node7". */
const char *rt_store_name(const RtStore *s, int rank, char text[96]);

/* ---- rt_join.c ---- */

/* Connects this process with the others; false after a message. */
bool rt_join(RtWorld *w, const RtLaunch *launch);
/* A file in memory, of zeros; -1 where the system has none. */
int rt_memory_file(size_t bytes);
/* One that all ranks of the job open; -1 after a message. */
int rt_join_file(const RtWorld *w, size_t bytes);

/* ---- rt_job.c: between the ranks of a job; each ends the run where it
 * cannot be done ---- */

/* Starts to listen to lifelines; false after a message. goodbye: the run has
 * ended well here, others may go on. */
bool rt_job_watch(RtStore *s);
void rt_job_goodbye(RtStore *s);

void rt_job_meet(RtStore *s, int id);
/* Rank 0's bytes become everybody's. */
void rt_job_broadcast(RtStore *s, void *data, size_t bytes);
/* By rank 0, while the others are in a meeting or on the way there. */
void rt_job_read(RtStore *s, int rank, int of, int64_t offset, int64_t bytes,
                 void *to);
/* ---- rt_places.c: what the watchers do with questions and answers ---- */

void rt_places_asked(RtStore *s, const RtFrame *f);
/* rt_places_gather, for a process that has no ParcRt at hand. */
void rt_places_ask(RtStore *s);
/* False: the answer is not whole. */
bool rt_places_told(RtStore *s, int link, const RtFrame *f);

/* The run ends because of this rank, for the reason that `text` says; NULL:
 * it has been said. One rank's reason is printed. */
_Noreturn void rt_job_fail(RtStore *s, const char *text);

#endif
