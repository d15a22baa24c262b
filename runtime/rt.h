/* rt.h: declares the state of a run that the files of the runtime share: the
 * world and a rank. The headers of the directories declare functions.
 *
 * Generated programs include parc_rt.h only. A run is one RtWorld: a shared
 * mapping with a control block, the published state of each rank (RtStatus),
 * the barriers of all groups, and the arenas of all ranks. Ranks are forked
 * from the process that created the mapping, so every rank has it at the same
 * address. Under a launcher each process maps it itself (launch/world.c).
 */
#ifndef PARC_RT_INTERNAL_H
#define PARC_RT_INTERNAL_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parc_rt.h"

enum { RT_GROUPS = 1 << PARC_MAX_AXES, RT_LARGE_PAGE = PARC_SHARED_ALIGN };
/* RT_LINE: a line of the cache. RT_NODE: the name of a node, truncated. */
enum { RT_PAGE = 4096, RT_LINE = 64, RT_NODE = 64 };

/* RtLaunch: which rank of a job a launcher made this process. RtStore: the
 * connections to the other processes of the job. */
typedef struct RtLaunch RtLaunch;
typedef struct RtStore RtStore;

typedef enum RtState {
    RT_STARTING,
    RT_COMPUTING,
    RT_WAITING, /* at the first or last barrier of `collective` */
    RT_MOVING,  /* transfers the data of `collective` */
    RT_DONE,
} RtState;

/* Bytes of a rank's arena that it sends to another rank: cpu/rt_transfer.c. */
enum { RT_OFFERS = 16 };
typedef struct RtOffer {
    _Atomic int32_t to;       /* the rank that may copy them, +1; 0: it has */
    _Atomic uint32_t number;  /* of all offers of the sender */
    _Atomic int32_t id;       /* the transfer */
    _Atomic int64_t at, bytes;
} RtOffer;

/* The state of a rank, for messages of other ranks. */
typedef struct RtStatus {
    _Atomic int64_t step;
    _Atomic int32_t state, collective; /* the current or latest collective */
    _Atomic uint32_t barrier;          /* the barrier that the rank waits at,
                                          +1; else 0 */
    _Atomic uint32_t phase;            /* the phase of that barrier that the
                                          rank waits to pass */
    _Atomic uint32_t exchange;         /* the axes of the group that the rank
                                          exchanges messages with, +1; else 0 */
    _Atomic int32_t peer;              /* the rank that it sends to or receives
                                          from, +1; else 0 */
    _Atomic uint32_t offers;           /* changes when an offer is made, or
                                          taken */
    RtOffer offer[RT_OFFERS];          /* number n is at n mod RT_OFFERS */
    _Atomic int32_t process;           /* process id */
    _Atomic int32_t work;              /* the statement that runs, +1; 0: not
                                          known. CPU only */
    _Atomic int64_t iteration;         /* iteration of the loops around that
                                          statement */
    _Atomic uint32_t begun[PARC_STREAMS]; /* collectives that each stream of
                                             the device has begun and ended:
                                             rt_cuda_progress.c */
    _Atomic int32_t save_error;        /* errno of the rank's part of the latest
                                          save; 0: it was written */
    _Atomic uint32_t saves;            /* number of saves whose part the rank
                                          has ended */
    uint64_t plan_hash;
} RtStatus;

typedef struct RtBarrier {
    _Atomic uint32_t arrived, phase;
    char pad[RT_LINE - 2 * sizeof(uint32_t)];
} RtBarrier;

/* The requests of a run, in memory that its ranks and their parent share. Zeros
 * before the first request. Times are ns of CLOCK_MONOTONIC. */
typedef struct RtSignals {
    _Atomic int64_t stop_ns, save_ns; /* the latest request that counts; 0:
                                         none */
    _Atomic int32_t stop;   /* SIGINT or SIGTERM has requested the end of the
                               run; 0: no signal has */
    _Atomic uint32_t saves; /* number of requests by SIGUSR1 */
    _Atomic int32_t runs;   /* 1 from the first step on: a stop waits for the
                               end of a step */
} RtSignals;

/* A decision of rank 0 for all ranks: checkpoint/stop_decision.c. */
typedef struct RtAgreement {
    _Atomic uint32_t decided; /* the latest point that rank 0 has decided */
    _Atomic uint32_t point;   /* the latest point at which the run does not just
                                 go on, and what the ranks do there */
    _Atomic int32_t verdict;
    _Atomic int32_t status; /* exit status of a run that is stopped */
} RtAgreement;

/* RtControl.failure: the id of the process that prints why the run ends, or one
 * of these. */
enum { RT_NO_FAILURE = 0, RT_FAILURE_PRINTED = -1 };

typedef struct RtControl {
    _Atomic int32_t failure; /* the process that prints why the run ends */
    unsigned char
        board[256]; /* data from rank 0 to all others: launch/barrier.c */
    uint64_t token; /* identifies the job that shares this memory */
    RtSignals signals;
    RtAgreement agreement;
} RtControl;

/* What a mark records: the index of the statement that starts, in iteration
 * `iteration` of its loops, or one of these events. */
enum {
    RT_MARK_STEP = -1, /* step `iteration` begins, with its input */
    RT_MARK_MOVE = -2, /* all ranks of the group have arrived: a collective
                          starts its transfer, any other statement starts its
                          work */
    RT_MARK_WAIT = -3, /* the rank has transferred its data and waits for the
                          other ranks */
    RT_MARK_END = -4,  /* end of the step */
    RT_MARK_ACTION = -5, /* action number `iteration` of a pipeline begins, or
                          there are no more */
};
typedef struct RtMark {
    int64_t ns;
    int64_t cpu_ns; /* CPU time of the rank's main thread; -1: of a device */
    int32_t what, iteration;
} RtMark;

/* The marks of one rank. The buffer holds all marks of the traced steps. */
typedef struct RtRing {
    int64_t n, capacity, lost;
    RtMark mark[];
} RtRing;

/* Steps first … last are traced. Each rank has a ring in shared memory. */
typedef struct RtTrace {
    int64_t first, last;
    char *rings; /* NULL: the run is not traced */
    size_t stride, bytes;
} RtTrace;

/* The files of a run that are written under a temporary name. */
enum { RT_EXPORT_FILE, RT_TRACE_FILE, RT_PREDICT_FILE, RT_TEMPORARIES };

typedef struct RtWorld {
    const ParcModel *model;
    int nranks, threads, timeout_seconds;
    int rank;          /* that this process is under a launcher; else 0 */
    int first, mapped; /* this process maps the arenas of ranks first …
                          first+mapped-1 */
    cpu_set_t cpus; /* on which the program may run */
    bool crowded; /* more threads than cores */
    const RtLaunch *launch; /* NULL: the ranks are forked from this process */
    RtStore *store;         /* NULL without launch */
    RtControl *control;
    RtStatus *status;
    RtBarrier *barrier; /* [mask of axes][least rank of the group] */
    char *arenas;
    size_t arena_stride;
    void *map;
    size_t map_bytes;
    char *temporary[RT_TEMPORARIES]; /* names that are removed if the run fails;
                                        NULL: none */
    RtTrace trace;
} RtWorld;

/* The ranks that differ only in some axes, axis 0 major. */
typedef struct RtGroup {
    int n, index; /* index: position of the rank in member[] */
    int *member;
} RtGroup;

/* The dynamic loss scale (run/nonfinite.c). */
typedef struct RtScale {
    double scale;  /* scale of the next step; 0: the loss is not scaled */
    double used;   /* scale of the current or latest step */
    int64_t good;  /* steps since the scale changed or a step was skipped */
    int64_t bad;   /* consecutive skipped steps */
} RtScale;

struct ParcRt {
    const ParcModel *model;
    RtWorld *world;
    int rank, nranks, threads;
    int local;                 /* the rank's number among the ranks of its
                                  node */
    char *arena;               /* the host mirror: device.h */
    RtGroup group[RT_GROUPS];  /* by mask of axes */
    int64_t peak_bytes;        /* rt_arena_most */
    int64_t host_bytes;        /* bytes that the target allocates in host
                                  memory */
    double lr;                 /* learning rate of the current step */
    double overflow;           /* RtRecord.overflow of the current step */
    int64_t dropped;           /* RtRecord.dropped of the current step */
    int64_t rounds;            /* of experts, in programs that have them: at least 1 */
    int64_t updates;           /* number of steps that have updated
                                  parameters */
    RtScale scale;
    void *engine, *stream;     /* oneDNN's; NULL before the first matmul */
    ParcMatmul *matmuls;
    struct ParcConv *convs;
    struct RtGroupedKernel *grouped;
    struct RtDevice *device;   /* state of the target; NULL: no device is
                                  open */
    RtRing *ring;              /* not NULL while a step is traced */
    bool nan_check;            /* PARC_NANCHECK=1 */
    int32_t nan_work;          /* the statement whose results are checked next;
                                  -1: none */
    int64_t nan_iteration, nan_stage;
    int64_t stage;             /* of the pipeline: that of the current action */
};

/* Ids of synchronization points that are not collectives of the model. */
enum {
    RT_AT_START = -1,
    RT_AT_END = -2,
    RT_AT_TRACE = -3,
    RT_AT_GRADIENTS = -4,
    RT_AT_MATMULS = -5,
    RT_AT_DECISION = -6,
    RT_AT_PROGRAM = -7,
    RT_AT_SAVE = -8,
    RT_AT_RESUME = -9,
    RT_AT_SAMPLE = -10,
    RT_AT_PREDICT = -11,
    RT_AT_LEAST = RT_AT_PREDICT,
};

static inline bool rt_is_mapped(const RtWorld *w, int rank)
{
    return rank >= w->first && rank < w->first + w->mapped;
}

/* The arena of a rank that is mapped in this process. */
static inline char *rt_world_arena(const RtWorld *w, int rank)
{
    return w->arenas + (size_t)(rank - w->first) * w->arena_stride;
}

static inline char *rt_peer(const ParcRt *rt, int rank)
{
    return rt_world_arena(rt->world, rank);
}

static inline float *rt_floats(ParcRt *rt, int64_t offset)
{
    return (float *)(void *)(rt->arena + offset);
}

/* The marks of a rank of a traced run. */
static inline RtRing *rt_trace_ring(const RtWorld *w, int rank)
{
    return (RtRing *)(void *)(w->trace.rings +
                              (size_t)rank * w->trace.stride);
}

#endif
