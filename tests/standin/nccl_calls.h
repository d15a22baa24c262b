/* nccl_calls.h: declares the calls of libnccl.so.2 that the stand-in has, with
 * NCCL's names and ABI. */
#ifndef STANDIN_NCCL_CALLS_H
#define STANDIN_NCCL_CALLS_H

#include <stddef.h>

#include "cuda/api/api.h"
#include "nccl_plan.h"

typedef enum Result {
    SUCCESS, UNHANDLED_CUDA, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT,
    INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS, RESULTS,
} Result;

typedef struct UniqueId {
    char name[128];
} UniqueId;

/* The first fields of ncclConfig_t. */
typedef struct Config {
    size_t size;
    unsigned int magic, version;
    int blocking, cluster, least_blocks, most_blocks;
    const char *network;
    int shares, traffic;
    const char *name;
    int switches, policy;
} Config;

typedef struct Comm Comm;

Result ncclGetVersion(int *version);
const char *ncclGetErrorString(Result r);
const char *ncclGetLastError(Comm *c);
Result ncclCommGetAsyncError(Comm *c, Result *r);
Result ncclCommCount(const Comm *c, int *n);
Result ncclCommUserRank(const Comm *c, int *rank);
Result ncclCommCuDevice(const Comm *c, int *device);
Result ncclGetUniqueId(UniqueId *id);
Result ncclCommInitRank(Comm **c, int nranks, UniqueId id, int rank);
Result ncclCommInitRankConfig(Comm **c, int nranks, UniqueId id, int rank,
                              const Config *config);
Result ncclCommSplit(Comm *c, int color, int key, Comm **to,
                     const Config *config);
Result ncclCommFinalize(Comm *c);
Result ncclCommDestroy(Comm *c);
Result ncclCommAbort(Comm *c);
Result ncclGroupStart(void);
Result ncclGroupEnd(void);
Result ncclAllReduce(const void *send, void *recv, size_t count, NcclType type,
                     NcclOp op, Comm *c, CuStream stream);
Result ncclReduce(const void *send, void *recv, size_t count, NcclType type,
                  NcclOp op, int root, Comm *c, CuStream stream);
Result ncclBroadcast(const void *send, void *recv, size_t count, NcclType type,
                     int root, Comm *c, CuStream stream);
Result ncclReduceScatter(const void *send, void *recv, size_t count,
                         NcclType type, NcclOp op, Comm *c, CuStream stream);
Result ncclAllGather(const void *send, void *recv, size_t count, NcclType type,
                     Comm *c, CuStream stream);
Result ncclSend(const void *send, size_t count, NcclType type, int peer,
                Comm *c, CuStream stream);
Result ncclRecv(void *recv, size_t count, NcclType type, int peer, Comm *c,
                CuStream stream);
Result ncclMemAlloc(void **at, size_t bytes);
Result ncclMemFree(void *at);
/* Makes memory from ncclMemAlloc a symmetric window (flags: 1). Fails if
 * STANDIN_NO_WINDOWS is set. */
Result ncclCommWindowRegister(Comm *c, void *at, size_t bytes, void **window,
                              int flags);
Result ncclCommWindowDeregister(const Comm *c, void *window);
Result ncclCommRegister(const Comm *c, void *at, size_t bytes, void **handle);
Result ncclCommDeregister(const Comm *c, void *handle);

#endif
