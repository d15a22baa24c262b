/* driver_stub.c: a libcuda.so.1 without a GPU that accepts every module.
 *
 * cuDNN makes plans for a described device, compiles their kernels and passes
 * these to the driver. This driver accepts them unread. All other calls fail,
 * as in the stub of the toolkit.
 */
enum { SUCCESS = 0, STUB = 34 };

/* A call that makes a module or a kernel returns any pointer but NULL. */
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
