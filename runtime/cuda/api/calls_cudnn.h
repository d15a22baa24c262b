/* calls_cudnn.h: lists all functions of cuDNN that the runtime calls, as
 * CALL(result, name, symbol, (arguments)); see calls_driver.h. Graphs and plans
 * are descriptors with attributes.
 */
CALL(size_t, cudnnGetVersion, "cudnnGetVersion", (void))
CALL(const char *, cudnnGetErrorString, "cudnnGetErrorString",
     (DnnStatus status))
CALL(void, cudnnGetLastErrorString, "cudnnGetLastErrorString",
     (char *message, size_t room))
CALL(DnnStatus, cudnnCreate, "cudnnCreate", (DnnHandle *handle))
CALL(DnnStatus, cudnnDestroy, "cudnnDestroy", (DnnHandle handle))
CALL(DnnStatus, cudnnSetStream, "cudnnSetStream",
     (DnnHandle handle, DnnStream stream))

CALL(DnnStatus, cudnnBackendCreateDescriptor, "cudnnBackendCreateDescriptor",
     (DnnKind kind, DnnDescriptor *descriptor))
CALL(DnnStatus, cudnnBackendDestroyDescriptor, "cudnnBackendDestroyDescriptor",
     (DnnDescriptor descriptor))
CALL(DnnStatus, cudnnBackendSetAttribute, "cudnnBackendSetAttribute",
     (DnnDescriptor descriptor, DnnAttribute attribute, DnnValue type,
      int64_t count, const void *value))
CALL(DnnStatus, cudnnBackendGetAttribute, "cudnnBackendGetAttribute",
     (DnnDescriptor descriptor, DnnAttribute attribute, DnnValue type,
      int64_t room, int64_t *count, void *value))
CALL(DnnStatus, cudnnBackendFinalize, "cudnnBackendFinalize",
     (DnnDescriptor descriptor))
CALL(DnnStatus, cudnnBackendExecute, "cudnnBackendExecute",
     (DnnHandle handle, DnnDescriptor plan, DnnDescriptor pack))
#undef CALL
