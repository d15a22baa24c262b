/* rt_cuda_probe.c: tests on the device what the driver's documentation leaves
 * open. */
#include "cuda/core/rt_nccl.h"
#include "rt.h"

/* Captures a memset of a word; false if the driver refuses that. */
static bool capture_memset(ParcRt *rt, CuAddress word, uint32_t value,
                           CuGraphExec *exec)
{
    const CudaDriver *cu = &rt->device->cu;
    CuStream stream = rt->device->stream[PARC_COMPUTE];
    CuGraph graph = NULL;
    CU(rt, cuStreamBeginCapture(stream, RT_CU_CAPTURE_RELAXED));
    CuResult r = cu->cuMemsetD32Async(word, value, 1, stream);
    CuResult end = cu->cuStreamEndCapture(stream, &graph);
    r = r ? r : end;
    r = r ? r : cu->cuGraphInstantiate(exec, graph, RT_CU_GRAPH_NODE_PRIORITY);
    if (graph)
        CU(rt, cuGraphDestroy(graph));
    return r == RT_CU_SUCCESS;
}

bool rt_cuda_graph_sets_host(ParcRt *rt)
{
    enum { WRITTEN = 0x50415243 };
    CuGraphExec exec = NULL;
    void *at = NULL;
    bool sets = false;
    CU(rt, cuMemHostAlloc(&at, sizeof(uint32_t), RT_CU_HOST_PORTABLE));
    _Atomic uint32_t *word = at;
    atomic_init(word, 0);
    if (capture_memset(rt, rt_cuda_address(at), WRITTEN, &exec)) {
        CU(rt, cuGraphLaunch(exec, rt->device->stream[PARC_COMPUTE]));
        rt_cuda_wait_stream(rt, PARC_COMPUTE, "a memset of pinned memory");
        CU(rt, cuGraphExecDestroy(exec));
        sets = atomic_load(word) == WRITTEN;
    }
    CU(rt, cuMemFreeHost(at));
    return sets;
}
