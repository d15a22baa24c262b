/* nccl_back.h: what runs groups of NCCL's calls behind nccl.c: the stand-in's
 * queue (nccl_queue.c), or the streams of a GPU that ranks share
 * (tests/gpu/loopback.c). */
#ifndef STANDIN_NCCL_BACK_H
#define STANDIN_NCCL_BACK_H

#include "nccl_calls.h"

struct Comm {
    NcclRoom room;
    NcclPlan *plans;
    int first_rank; /* in the communicator that this was split from, first */
    uint64_t queued, begun, splits; /* groups; splits of it */
    _Atomic Result error;
    bool waits; /* for the others, not blocking */
    void *own;  /* what it keeps of the device's memory */
};

/* What other threads change of communicators. */
void nccl_back_lock(void);
void nccl_back_unlock(void);
/* The group becomes work on the stream; the plan lives as long as the
 * communicator. Returns the driver's code. */
CuResult nccl_back_queue(Comm *c, const NcclPlan *p, CuStream stream);

/* It is destroyed. */
void nccl_back_close(Comm *c);

/* The communicator frees it in the end. */
void nccl_keep(Comm *c, NcclPlan *p);
double nccl_now(void);   /* seconds */
double nccl_limit(void); /* that a group waits for its peers */
/* Says for whom a group has waited in vain; the error that this is. */
Result nccl_late(Comm *c, const NcclPlan *p, uint64_t turn, double seconds,
                 const char *what, int rank);

#endif
