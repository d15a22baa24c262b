/* calls_nccl_window.h: the calls that make the arena memory of NCCL's; newer than
 * the oldest NCCL that the runtime takes, which does without them.
 */
CALL(NcclResult, ncclMemAlloc, "ncclMemAlloc", (void **to, size_t bytes))
CALL(NcclResult, ncclMemFree, "ncclMemFree", (void *at))
CALL(NcclResult, ncclCommWindowRegister, "ncclCommWindowRegister",
     (NcclComm comm, void *at, size_t bytes, NcclWindow *window, int flags))
CALL(NcclResult, ncclCommWindowDeregister, "ncclCommWindowDeregister",
     (NcclComm comm, NcclWindow window))
#undef CALL
