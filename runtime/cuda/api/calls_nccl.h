/* calls_nccl.h: lists all functions of NCCL that the runtime calls, as
 * CALL(result, name, suffix, (arguments)); see calls_driver.h.
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

/* Optional: they register the arena as a window, and are newer than the oldest
 * NCCL that the runtime supports. */
CALL(NcclResult, ncclMemAlloc, , (void **to, size_t bytes))
CALL(NcclResult, ncclMemFree, , (void *at))
CALL(NcclResult, ncclCommWindowRegister, ,
     (NcclComm comm, void *at, size_t bytes, NcclWindow *window, int flags))
CALL(NcclResult, ncclCommWindowDeregister, , (NcclComm comm, NcclWindow window))
