/* calls_loopback.h: lists the calls of the CUDA driver that loopback.c makes
 * and the runtime does not, like runtime/cuda/api/calls_driver.h.
 */
CALL(CuResult, cuMemHostRegister, _v2,
     (void *at, size_t bytes, unsigned int flags))
CALL(CuResult, cuMemHostUnregister, , (void *at))
CALL(CuResult, cuLaunchHostFunc, ,
     (CuStream stream, void (*call)(void *), void *with))
/* state: 1 if the stream is being captured; the other results: NULL. */
CALL(CuResult, cuStreamGetCaptureInfo, _v2,
     (CuStream stream, CuCaptureStatus *state, uint64_t *id, CuGraph *graph,
      const CuGraphNode **after, size_t *nafter))
