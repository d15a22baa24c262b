/* calls_nccl_window.h: lists the functions of NCCL that register the arena as
 * a window. They are newer than the oldest NCCL that the runtime supports, and
 * optional.
 */
CALL(NcclResult, ncclMemAlloc, "ncclMemAlloc", (void **to, size_t bytes))
CALL(NcclResult, ncclMemFree, "ncclMemFree", (void *at))
CALL(NcclResult, ncclCommWindowRegister, "ncclCommWindowRegister",
     (NcclComm comm, void *at, size_t bytes, NcclWindow *window, int flags))
CALL(NcclResult, ncclCommWindowDeregister, "ncclCommWindowDeregister",
     (NcclComm comm, NcclWindow window))
#undef CALL
