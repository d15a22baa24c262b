/* calls_nccl_window.h: lists the functions of NCCL that register the arena as
 * a window. They are newer than the oldest NCCL that the runtime supports, and
 * optional.
 */
CALL(NcclResult, ncclMemAlloc, , (void **to, size_t bytes))
CALL(NcclResult, ncclMemFree, , (void *at))
CALL(NcclResult, ncclCommWindowRegister, ,
     (NcclComm comm, void *at, size_t bytes, NcclWindow *window, int flags))
CALL(NcclResult, ncclCommWindowDeregister, , (NcclComm comm, NcclWindow window))
