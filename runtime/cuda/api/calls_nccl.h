/* calls_nccl.h: lists the functions of NCCL that the runtime requires, as
 * CALL(result, name, symbol, (arguments)). The including file defines CALL, for
 * example to declare a table of function pointers; see calls_driver.h. Optional
 * functions are in calls_nccl_window.h.
 */
CALL(NcclResult, ncclGetVersion, "ncclGetVersion", (int *version))
CALL(NcclResult, ncclGetUniqueId, "ncclGetUniqueId", (NcclId *id))
CALL(NcclResult, ncclCommInitRankConfig, "ncclCommInitRankConfig",
     (NcclComm *comm, int nranks, NcclId id, int rank, NcclConfig *config))
CALL(NcclResult, ncclCommSplit, "ncclCommSplit",
     (NcclComm comm, int color, int key, NcclComm *to, NcclConfig *config))
CALL(NcclResult, ncclCommDestroy, "ncclCommDestroy", (NcclComm comm))
CALL(NcclResult, ncclCommAbort, "ncclCommAbort", (NcclComm comm))
CALL(NcclResult, ncclCommGetAsyncError, "ncclCommGetAsyncError",
     (NcclComm comm, NcclResult *error))
CALL(const char *, ncclGetErrorString, "ncclGetErrorString", (NcclResult error))
CALL(const char *, ncclGetLastError, "ncclGetLastError", (NcclComm comm))

CALL(NcclResult, ncclGroupStart, "ncclGroupStart", (void))
CALL(NcclResult, ncclGroupEnd, "ncclGroupEnd", (void))
CALL(NcclResult, ncclAllGather, "ncclAllGather",
     (const void *from, void *to, size_t count, NcclElement type, NcclComm comm,
      NcclStream stream))
CALL(NcclResult, ncclReduceScatter, "ncclReduceScatter",
     (const void *from, void *to, size_t count, NcclElement type, NcclReduction op,
      NcclComm comm, NcclStream stream))
CALL(NcclResult, ncclAllReduce, "ncclAllReduce",
     (const void *from, void *to, size_t count, NcclElement type, NcclReduction op,
      NcclComm comm, NcclStream stream))
CALL(NcclResult, ncclBroadcast, "ncclBroadcast",
     (const void *from, void *to, size_t count, NcclElement type, int root,
      NcclComm comm, NcclStream stream))
CALL(NcclResult, ncclReduce, "ncclReduce",
     (const void *from, void *to, size_t count, NcclElement type, NcclReduction op,
      int root, NcclComm comm, NcclStream stream))
CALL(NcclResult, ncclSend, "ncclSend",
     (const void *from, size_t count, NcclElement type, int peer, NcclComm comm,
      NcclStream stream))
CALL(NcclResult, ncclRecv, "ncclRecv",
     (void *to, size_t count, NcclElement type, int peer, NcclComm comm,
      NcclStream stream))
#undef CALL
