/* nccl_plan.h: what a group of NCCL's calls is to do on one communicator, and
 * the memory through which ranks do it. */
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

/* ORDER nccl-types: as in nccl.h. */
typedef enum NcclType {
    NCCL_I8, NCCL_U8, NCCL_I32, NCCL_U32, NCCL_I64, NCCL_U64, NCCL_F16,
    NCCL_F32, NCCL_F64, NCCL_BF16, NCCL_TYPES,
} NcclType;
typedef enum NcclOp {
    NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG, NCCL_OPS,
} NcclOp;

/* One call as a rank made it; counts in elements as in nccl.h. `peer` is the
 * root, or the other end of a send. */
typedef struct NcclCall {
    NcclKind kind;
    NcclType type;
    NcclOp op;
    int peer;
    int64_t count;
    int64_t at; /* in the rank's outbox: what it gives */
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

/* A rank's part of the shared memory: what it has told the others. */
typedef struct NcclBox {
    _Atomic int joined, pid;
    _Atomic uint64_t posted, done; /* groups */
    _Atomic int n;
    _Atomic int color, key;        /* of a split */
    _Atomic uint64_t split, split_read; /* splits asked for, and known */
    NcclCall call[NCCL_MAX_CALLS];
} NcclBox;

/* The shared memory of a communicator: a box for each rank, then outboxes. */
typedef struct NcclRoom {
    char name[100];
    int nranks, rank;
    char *memory;
    int64_t bytes;
} NcclRoom;

/* Opens (or makes) it; false with a message on stderr. */
bool nccl_room_open(NcclRoom *r, const char *name, int nranks, int rank);
/* All are there; then its name goes. */
bool nccl_room_full(NcclRoom *r);
void nccl_room_close(NcclRoom *r);
NcclBox *nccl_box(const NcclRoom *r, int rank);
char *nccl_outbox(const NcclRoom *r, int rank);

int64_t nccl_type_bytes(NcclType t);
/* Bytes that a call sends from, and receives into, on this rank (0: none). */
int64_t nccl_send_bytes(const NcclCall *c, int rank, int nranks);
int64_t nccl_recv_bytes(const NcclCall *c, int rank, int nranks);

/* Lays what this rank gives into its outbox and tells of it. */
bool nccl_give(const NcclRoom *r, const NcclPlan *p, uint64_t turn);
/* When all ranks have given: the calls agree? Says what does not. */
bool nccl_agree(const NcclRoom *r, const NcclPlan *p);
/* Takes what is for this rank. False: what it gave has changed since. */
bool nccl_take(const NcclRoom *r, const NcclPlan *p);

#endif
