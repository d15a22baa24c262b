/* nccl_plan.h: declares the calls of a group on one communicator, and the
 * memory through which ranks exchange data. */
#ifndef STANDIN_NCCL_PLAN_H
#define STANDIN_NCCL_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { NCCL_MAX_RANKS = 64, NCCL_MAX_CALLS = 4096 };

typedef enum NcclKind {
    NCCL_ALL_GATHER, NCCL_REDUCE_SCATTER, NCCL_ALL_REDUCE, NCCL_BROADCAST,
    NCCL_REDUCE, NCCL_SEND, NCCL_RECV, NCCL_KINDS,
} NcclKind;
extern const char *const nccl_kind_name[NCCL_KINDS];

/* Element types and reductions, in the order of nccl.h. */
typedef enum NcclType {
    NCCL_I8, NCCL_U8, NCCL_I32, NCCL_U32, NCCL_I64, NCCL_U64, NCCL_F16,
    NCCL_F32, NCCL_F64, NCCL_BF16, NCCL_TYPES,
} NcclType;
typedef enum NcclOp {
    NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG, NCCL_OPS,
} NcclOp;

/* One call of a rank; counts are in elements, as in nccl.h. `peer` is the root,
 * or the other end of a send. */
typedef struct NcclCall {
    NcclKind kind;
    NcclType type;
    NcclOp op;
    int peer;
    int64_t count;
    int64_t at; /* offset of its data in the rank's outbox */
} NcclCall;

typedef struct NcclPost {
    NcclCall call;
    const void *send;
    void *recv;
} NcclPost;

/* A group's calls on one communicator. */
typedef struct NcclPlan {
    struct NcclPlan *next;
    int n;
    NcclPost post[];
} NcclPlan;

/* A rank's part of the shared memory: its state, as other ranks see it. */
typedef struct NcclMember {
    _Atomic int joined, pid;
    _Atomic uint64_t posted, done; /* numbers of groups */
    _Atomic int n;
    _Atomic int color, key;        /* the rank's arguments of a split */
    _Atomic uint64_t split, split_read; /* splits requested, and read */
    NcclCall call[NCCL_MAX_CALLS];
    /* Messages between two ranks: by peer, how many were offered to it and taken
     * from it; the one on offer. */
    _Atomic uint64_t offered[NCCL_MAX_RANKS], taken[NCCL_MAX_RANKS];
    NcclCall message;
} NcclMember;

/* A communicator's shared memory: an NcclMember for each rank, then outboxes.
 */
typedef struct NcclShared {
    char name[100];
    int nranks, rank;
    char *memory;
    int64_t bytes;
} NcclShared;

/* Opens or creates it; false with a message on stderr. */
bool nccl_shared_open(NcclShared *r, const char *name, int nranks, int rank);
/* Whether all ranks have opened it; then its name is removed. */
bool nccl_shared_full(NcclShared *r);
void nccl_shared_close(NcclShared *r);
NcclMember *nccl_member(const NcclShared *r, int rank);
/* The rank's data of a group; and, apart from it, a message. */
char *nccl_outbox(const NcclShared *r, int rank);
char *nccl_message(const NcclShared *r, int rank);

int64_t nccl_type_bytes(NcclType t);
/* Bytes that a call sends from, and receives into, on this rank (0: none). */
int64_t nccl_send_bytes(const NcclCall *c, int rank, int nranks);
int64_t nccl_recv_bytes(const NcclCall *c, int rank, int nranks);

/* Whether the plan is one message, which only its two ends take part in. */
bool nccl_is_message(const NcclPlan *p);
/* Offers the message; whether it has been taken. One of a rank is on offer at a
 * time. */
void nccl_offer(const NcclShared *r, const NcclPost *p);
bool nccl_is_taken(const NcclShared *r, const NcclPost *p);
/* Takes a message that is on offer; false: there is none. *agrees: it is the one
 * that is expected. */
bool nccl_take_message(const NcclShared *r, const NcclPost *p, bool *agrees);
/* Whether the message is unchanged since it was offered. */
bool nccl_message_is_unchanged(const NcclShared *r, const NcclPost *p);

/* Copies this rank's data into its outbox and announces it. */
bool nccl_give(const NcclShared *r, const NcclPlan *p, uint64_t round);
/* Whether the calls of all ranks agree; reports differences. All have posted. */
bool nccl_agree(const NcclShared *r, const NcclPlan *p);
/* Stores this rank's results. False: its send buffers have changed. */
bool nccl_take(const NcclShared *r, const NcclPlan *p);

#endif
