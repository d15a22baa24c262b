/* calls_driver.h: lists all functions of the CUDA driver that the runtime
 * calls.
 *
 *   CALL(result, name, suffix, (arguments))
 *
 * `name` is the name in the runtime; libcuda.so.1 exports the symbol `name`
 * `suffix`. The suffix is a version, because the driver keeps the old form of a
 * function under its plain name. The including file defines CALL.
 */
CALL(CuResult, cuInit, , (unsigned int flags))
CALL(CuResult, cuDriverGetVersion, , (int *version))
CALL(CuResult, cuGetErrorName, , (CuResult error, const char **name))
CALL(CuResult, cuGetErrorString, , (CuResult error, const char **text))

CALL(CuResult, cuDeviceGetCount, , (int *count))
CALL(CuResult, cuDeviceGet, , (CuDevice *device, int ordinal))
CALL(CuResult, cuDeviceGetName, , (char *name, int capacity, CuDevice device))
CALL(CuResult, cuDeviceGetAttribute, ,
     (int *value, CuAttribute attribute, CuDevice device))
CALL(CuResult, cuDeviceGetPCIBusId, , (char *id, int capacity, CuDevice device))
CALL(CuResult, cuDevicePrimaryCtxRetain, ,
     (CuContext *context, CuDevice device))
CALL(CuResult, cuDevicePrimaryCtxRelease, _v2, (CuDevice device))
CALL(CuResult, cuCtxSetCurrent, , (CuContext context))
CALL(CuResult, cuCtxGetStreamPriorityRange, , (int *least, int *greatest))

CALL(CuResult, cuMemGetInfo, _v2, (size_t *free, size_t *total))
CALL(CuResult, cuMemAlloc, _v2, (CuAddress *to, size_t bytes))
CALL(CuResult, cuMemFree, _v2, (CuAddress at))
CALL(CuResult, cuMemGetAllocationGranularity, ,
     (size_t *bytes, const CuMemoryKind *kind, CuMemoryOption option))
CALL(CuResult, cuMemAddressReserve, ,
     (CuAddress *at, size_t bytes, size_t alignment, CuAddress wish,
      unsigned long long flags))
CALL(CuResult, cuMemAddressFree, , (CuAddress at, size_t bytes))
CALL(CuResult, cuMemCreate, ,
     (CuMemoryHandle *handle, size_t bytes, const CuMemoryKind *kind,
      unsigned long long flags))
CALL(CuResult, cuMemRelease, , (CuMemoryHandle handle))
CALL(CuResult, cuMemMap, ,
     (CuAddress at, size_t bytes, size_t offset, CuMemoryHandle handle,
      unsigned long long flags))
CALL(CuResult, cuMemUnmap, , (CuAddress at, size_t bytes))
CALL(CuResult, cuMemSetAccess, ,
     (CuAddress at, size_t bytes, const CuMemoryAccess *access, size_t n))
CALL(CuResult, cuMemHostAlloc, , (void **to, size_t bytes, unsigned int flags))
CALL(CuResult, cuMemFreeHost, , (void *at))
CALL(CuResult, cuMemcpyHtoDAsync, _v2,
     (CuAddress to, const void *from, size_t bytes, CuStream stream))
CALL(CuResult, cuMemcpyDtoHAsync, _v2,
     (void *to, CuAddress from, size_t bytes, CuStream stream))
CALL(CuResult, cuMemcpyDtoDAsync, _v2,
     (CuAddress to, CuAddress from, size_t bytes, CuStream stream))
CALL(CuResult, cuMemcpy2DAsync, _v2, (const CuCopy2D *copy, CuStream stream))
CALL(CuResult, cuMemsetD8Async, ,
     (CuAddress to, unsigned char value, size_t bytes, CuStream stream))
CALL(CuResult, cuMemsetD32Async, ,
     (CuAddress to, unsigned int value, size_t words, CuStream stream))

CALL(CuResult, cuStreamCreateWithPriority, ,
     (CuStream *stream, unsigned int flags, int priority))
CALL(CuResult, cuStreamDestroy, _v2, (CuStream stream))
CALL(CuResult, cuStreamQuery, , (CuStream stream))
CALL(CuResult, cuStreamWaitEvent, ,
     (CuStream stream, CuEvent event, unsigned int flags))
CALL(CuResult, cuEventCreate, , (CuEvent *event, unsigned int flags))
CALL(CuResult, cuEventDestroy, _v2, (CuEvent event))
CALL(CuResult, cuEventRecord, , (CuEvent event, CuStream stream))
CALL(CuResult, cuEventQuery, , (CuEvent event))
CALL(CuResult, cuEventElapsedTime, ,
     (float *milliseconds, CuEvent from, CuEvent to))

CALL(CuResult, cuStreamBeginCapture, _v2, (CuStream stream, CuCaptureMode mode))
CALL(CuResult, cuStreamEndCapture, , (CuStream stream, CuGraph *graph))
CALL(CuResult, cuGraphInstantiate, WithFlags,
     (CuGraphExec *exec, CuGraph graph, unsigned long long flags))
CALL(CuResult, cuGraphLaunch, , (CuGraphExec exec, CuStream stream))
CALL(CuResult, cuGraphExecDestroy, , (CuGraphExec exec))
CALL(CuResult, cuGraphDestroy, , (CuGraph graph))

CALL(CuResult, cuModuleLoadDataEx, ,
     (CuModule *module, const void *image, unsigned int noptions, CuJitOption
      *option, void **value))
CALL(CuResult, cuModuleUnload, , (CuModule module))
CALL(CuResult, cuModuleGetFunction, ,
     (CuFunction *function, CuModule module, const char *symbol))
CALL(CuResult, cuFuncSetAttribute, ,
     (CuFunction function, CuFunctionAttribute attribute, int value))
CALL(CuResult, cuFuncGetAttribute, ,
     (int *value, CuFunctionAttribute attribute, CuFunction function))
CALL(CuResult, cuLaunchKernel, ,
     (CuFunction function, unsigned int grid_x, unsigned int grid_y, unsigned
      int grid_z, unsigned int block_x, unsigned int block_y, unsigned int
      block_z, unsigned int shared_bytes, CuStream stream, void **arguments,
      void **extra))
