/* calls_driver.h: lists all functions of the CUDA driver that the runtime
 * calls.
 *
 *   CALL(result, name, symbol, (arguments))
 *
 * `name` is the name in the runtime, `symbol` the one that libcuda.so.1
 * exports. They differ because the driver keeps the old form of a function
 * under its plain name; the symbol includes the version. The including file
 * defines CALL; this file undefines it.
 */
CALL(CuResult, cuInit, "cuInit", (unsigned int flags))
CALL(CuResult, cuDriverGetVersion, "cuDriverGetVersion", (int *version))
CALL(CuResult, cuGetErrorName, "cuGetErrorName",
     (CuResult error, const char **name))
CALL(CuResult, cuGetErrorString, "cuGetErrorString",
     (CuResult error, const char **text))

CALL(CuResult, cuDeviceGetCount, "cuDeviceGetCount", (int *count))
CALL(CuResult, cuDeviceGet, "cuDeviceGet", (CuDevice *device, int ordinal))
CALL(CuResult, cuDeviceGetName, "cuDeviceGetName",
     (char *name, int room, CuDevice device))
CALL(CuResult, cuDeviceGetAttribute, "cuDeviceGetAttribute",
     (int *value, CuAttribute attribute, CuDevice device))
CALL(CuResult, cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId",
     (char *id, int room, CuDevice device))
CALL(CuResult, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",
     (CuContext *context, CuDevice device))
CALL(CuResult, cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2",
     (CuDevice device))
CALL(CuResult, cuCtxSetCurrent, "cuCtxSetCurrent", (CuContext context))
CALL(CuResult, cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange",
     (int *least, int *greatest))

CALL(CuResult, cuMemGetInfo, "cuMemGetInfo_v2", (size_t *free, size_t *total))
CALL(CuResult, cuMemAlloc, "cuMemAlloc_v2", (CuAddress *to, size_t bytes))
CALL(CuResult, cuMemFree, "cuMemFree_v2", (CuAddress at))
CALL(CuResult, cuMemHostAlloc, "cuMemHostAlloc",
     (void **to, size_t bytes, unsigned int flags))
CALL(CuResult, cuMemFreeHost, "cuMemFreeHost", (void *at))
CALL(CuResult, cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",
     (CuAddress to, const void *from, size_t bytes, CuStream stream))
CALL(CuResult, cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",
     (void *to, CuAddress from, size_t bytes, CuStream stream))
CALL(CuResult, cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",
     (CuAddress to, CuAddress from, size_t bytes, CuStream stream))
CALL(CuResult, cuMemcpy2DAsync, "cuMemcpy2DAsync_v2",
     (const CuCopy2D *copy, CuStream stream))
CALL(CuResult, cuMemsetD8Async, "cuMemsetD8Async",
     (CuAddress to, unsigned char value, size_t bytes, CuStream stream))
CALL(CuResult, cuMemsetD32Async, "cuMemsetD32Async",
     (CuAddress to, unsigned int value, size_t words, CuStream stream))

CALL(CuResult, cuStreamCreateWithPriority, "cuStreamCreateWithPriority",
     (CuStream *stream, unsigned int flags, int priority))
CALL(CuResult, cuStreamDestroy, "cuStreamDestroy_v2", (CuStream stream))
CALL(CuResult, cuStreamQuery, "cuStreamQuery", (CuStream stream))
CALL(CuResult, cuStreamWaitEvent, "cuStreamWaitEvent",
     (CuStream stream, CuEvent event, unsigned int flags))
CALL(CuResult, cuEventCreate, "cuEventCreate",
     (CuEvent *event, unsigned int flags))
CALL(CuResult, cuEventDestroy, "cuEventDestroy_v2", (CuEvent event))
CALL(CuResult, cuEventRecord, "cuEventRecord", (CuEvent event, CuStream stream))
CALL(CuResult, cuEventQuery, "cuEventQuery", (CuEvent event))
CALL(CuResult, cuEventElapsedTime, "cuEventElapsedTime",
     (float *milliseconds, CuEvent from, CuEvent to))

CALL(CuResult, cuStreamBeginCapture, "cuStreamBeginCapture_v2",
     (CuStream stream, CuCaptureMode mode))
CALL(CuResult, cuStreamEndCapture, "cuStreamEndCapture",
     (CuStream stream, CuGraph *graph))
CALL(CuResult, cuGraphInstantiate, "cuGraphInstantiateWithFlags",
     (CuGraphExec *exec, CuGraph graph, unsigned long long flags))
CALL(CuResult, cuGraphLaunch, "cuGraphLaunch",
     (CuGraphExec exec, CuStream stream))
CALL(CuResult, cuGraphExecDestroy, "cuGraphExecDestroy", (CuGraphExec exec))
CALL(CuResult, cuGraphDestroy, "cuGraphDestroy", (CuGraph graph))

CALL(CuResult, cuModuleLoadDataEx, "cuModuleLoadDataEx",
     (CuModule *module, const void *image, unsigned int noptions,
      CuJitOption *option, void **value))
CALL(CuResult, cuModuleUnload, "cuModuleUnload", (CuModule module))
CALL(CuResult, cuModuleGetFunction, "cuModuleGetFunction",
     (CuFunction *function, CuModule module, const char *symbol))
CALL(CuResult, cuFuncSetAttribute, "cuFuncSetAttribute",
     (CuFunction function, CuFunctionAttribute attribute, int value))
CALL(CuResult, cuFuncGetAttribute, "cuFuncGetAttribute",
     (int *value, CuFunctionAttribute attribute, CuFunction function))
CALL(CuResult, cuLaunchKernel, "cuLaunchKernel",
     (CuFunction function, unsigned int grid_x, unsigned int grid_y,
      unsigned int grid_z, unsigned int block_x, unsigned int block_y,
      unsigned int block_z, unsigned int shared_bytes, CuStream stream,
      void **arguments, void **extra))
#undef CALL
