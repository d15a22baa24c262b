/* calls_cudnn.h: lists all functions of cuDNN that the runtime calls, as
 * CALL(result, name, suffix, (arguments)); see calls_driver.h. Graphs and plans
 * are descriptors with attributes.
 */
CALL(size_t, cudnnGetVersion, , (void))
CALL(const char *, cudnnGetErrorString, , (DnnStatus status))
CALL(void, cudnnGetLastErrorString, , (char *message, size_t capacity))
CALL(DnnStatus, cudnnCreate, , (DnnHandle *handle))
CALL(DnnStatus, cudnnDestroy, , (DnnHandle handle))
CALL(DnnStatus, cudnnSetStream, , (DnnHandle handle, DnnStream stream))

CALL(DnnStatus, cudnnBackendCreateDescriptor, ,
     (DnnKind kind, DnnDescriptor *descriptor))
CALL(DnnStatus, cudnnBackendDestroyDescriptor, , (DnnDescriptor descriptor))
CALL(DnnStatus, cudnnBackendSetAttribute, ,
     (DnnDescriptor descriptor, DnnAttribute attribute, DnnValue type, int64_t
      count, const void *value))
CALL(DnnStatus, cudnnBackendGetAttribute, ,
     (DnnDescriptor descriptor, DnnAttribute attribute, DnnValue type,
      int64_t capacity, int64_t *count, void *value))
CALL(DnnStatus, cudnnBackendFinalize, , (DnnDescriptor descriptor))
CALL(DnnStatus, cudnnBackendExecute, ,
     (DnnHandle handle, DnnDescriptor plan, DnnDescriptor pack))
