/* driver_stub.c: a libcuda.so.1 that has no GPU and takes every module.
 *
 * cuDNN makes plans for a device that is described to it. It compiles kernels
 * for them and hands those to the driver, which here is satisfied with anything;
 * all other calls fail, as those of the toolkit's own stub do.
 */
enum { SUCCESS = 0, STUB = 34 };

/* A module, a kernel: something that is not NULL. */
#define MAKES(name)                                                            \
    int name(void **it);                                                       \
    int name(void **it)                                                        \
    {                                                                          \
        static int made;                                                       \
        *it = &made;                                                           \
        return SUCCESS;                                                        \
    }
#define SAYS(name, code)                                                       \
    int name(void);                                                            \
    int name(void)                                                             \
    {                                                                          \
        return code;                                                           \
    }

MAKES(cuLibraryLoadData)
MAKES(cuLibraryLoadFromFile)
MAKES(cuLibraryGetKernel)
MAKES(cuModuleLoadData)
MAKES(cuModuleLoadDataEx)
MAKES(cuModuleLoadFatBinary)
MAKES(cuModuleGetFunction)
SAYS(cuLibraryUnload, SUCCESS)
SAYS(cuModuleUnload, SUCCESS)
SAYS(cuKernelGetAttribute, SUCCESS)
SAYS(cuKernelSetAttribute, SUCCESS)
SAYS(cuFuncGetAttribute, SUCCESS)
SAYS(cuFuncSetAttribute, SUCCESS)

SAYS(cuInit, STUB)
SAYS(cuCtxGetCurrent, STUB)
SAYS(cuCtxGetDevice, STUB)
SAYS(cuCtxGetLimit, STUB)
SAYS(cuCtxPopCurrent, STUB)
SAYS(cuCtxPushCurrent, STUB)
SAYS(cuDeviceGet, STUB)
SAYS(cuDeviceGetAttribute, STUB)
SAYS(cuDeviceGetCount, STUB)
SAYS(cuDevicePrimaryCtxRelease, STUB)
SAYS(cuDevicePrimaryCtxReset, STUB)
SAYS(cuDevicePrimaryCtxRetain, STUB)
SAYS(cuDriverGetVersion, STUB)
SAYS(cuGetErrorName, STUB)
SAYS(cuGetErrorString, STUB)
SAYS(cuLaunchCooperativeKernel, STUB)
SAYS(cuLaunchKernel, STUB)
SAYS(cuLaunchKernelEx, STUB)
SAYS(cuLinkAddData, STUB)
SAYS(cuLinkAddData_v2, STUB)
SAYS(cuLinkAddFile_v2, STUB)
SAYS(cuLinkComplete, STUB)
SAYS(cuLinkCreate, STUB)
SAYS(cuLinkCreate_v2, STUB)
SAYS(cuLinkDestroy, STUB)
SAYS(cuMemcpyDtoH_v2, STUB)
SAYS(cuModuleGetGlobal_v2, STUB)
SAYS(cuOccupancyMaxActiveBlocksPerMultiprocessor, STUB)
SAYS(cuOccupancyMaxPotentialClusterSize, STUB)
SAYS(cuStreamGetCtx, STUB)
SAYS(cuStreamSynchronize, STUB)
SAYS(cuTensorMapEncodeTiled, STUB)
