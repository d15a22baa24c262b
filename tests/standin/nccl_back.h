/* nccl_back.h: declares the interface between nccl.c and the code that runs
 * groups of calls: the stand-in's queue (nccl_queue.c), or the streams of a GPU
 * that ranks share (tests/gpu/loopback.c). */
#ifndef STANDIN_NCCL_BACK_H
#define STANDIN_NCCL_BACK_H

#include "nccl_calls.h"

struct Comm {
    NcclShared shared;
    NcclPlan *plans;
    int first_rank; /* its rank in the original communicator, before splits */
    uint64_t queued, begun, splits; /* numbers of groups, and of splits */
    uint64_t collectives; /* of the groups, those that are no message */
    _Atomic Result error;
    CuStream stream; /* of all its groups; NULL: it has queued none */
    bool waits; /* calls block until the other ranks have joined */
    void *own;  /* its allocation of device memory */
    void *of_kind[NCCL_KINDS]; /* the same for each kind of call */
};

/* Locks the fields of communicators that other threads change. */
void nccl_back_lock(void);
void nccl_back_unlock(void);
/* Queues the group on the stream; the plan lives as long as the communicator.
 * Returns the driver's code. */
CuResult nccl_back_queue(Comm *c, const NcclPlan *p, CuStream stream);

/* Frees the backend's memory of a communicator that is being destroyed. */
void nccl_back_close(Comm *c);

/* Gives the plan to the communicator, which frees it when it is destroyed. */
void nccl_keep(Comm *c, NcclPlan *p);
double nccl_now(void);   /* seconds */
double nccl_limit(void); /* seconds that a group waits for its peers */
/* Reports the ranks that a group has waited for; returns the error. */
Result nccl_late(Comm *c, const NcclPlan *p, uint64_t round, double seconds,
                 const char *what, int rank);

#endif
