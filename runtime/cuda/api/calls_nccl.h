/* calls_nccl.h: lists the functions of NCCL that the runtime requires, as
 * CALL(result, name, suffix, (arguments)). The including file defines CALL, for
 * example to declare a table of function pointers; see calls_driver.h. Optional
 * functions are in calls_nccl_window.h.
 */
CALL(NcclResult, ncclGetVersion, , (int *version))
CALL(NcclResult, ncclGetUniqueId, , (NcclId *id))
CALL(NcclResult, ncclCommInitRankConfig, ,
     (NcclComm *comm, int nranks, NcclId id, int rank, NcclConfig *config))
CALL(NcclResult, ncclCommSplit, ,
     (NcclComm comm, int color, int key, NcclComm *to, NcclConfig *config))
CALL(NcclResult, ncclCommDestroy, , (NcclComm comm))
CALL(NcclResult, ncclCommAbort, , (NcclComm comm))
CALL(NcclResult, ncclCommGetAsyncError, , (NcclComm comm, NcclResult *error))
CALL(const char *, ncclGetErrorString, , (NcclResult error))
CALL(const char *, ncclGetLastError, , (NcclComm comm))

CALL(NcclResult, ncclGroupStart, , (void))
CALL(NcclResult, ncclGroupEnd, , (void))
CALL(NcclResult, ncclAllGather, ,
     (const void *from, void *to, size_t count, NcclElement type, NcclComm comm,
      NcclStream stream))
CALL(NcclResult, ncclReduceScatter, ,
     (const void *from, void *to, size_t count, NcclElement type, NcclReduction
      op, NcclComm comm, NcclStream stream))
CALL(NcclResult, ncclAllReduce, ,
     (const void *from, void *to, size_t count, NcclElement type, NcclReduction
      op, NcclComm comm, NcclStream stream))
CALL(NcclResult, ncclBroadcast, ,
     (const void *from, void *to, size_t count, NcclElement type, int root,
      NcclComm comm, NcclStream stream))
CALL(NcclResult, ncclReduce, ,
     (const void *from, void *to, size_t count, NcclElement type, NcclReduction
      op, int root, NcclComm comm, NcclStream stream))
CALL(NcclResult, ncclSend, ,
     (const void *from, size_t count, NcclElement type, int peer, NcclComm comm,
      NcclStream stream))
CALL(NcclResult, ncclRecv, ,
     (void *to, size_t count, NcclElement type, int peer, NcclComm comm,
      NcclStream stream))
