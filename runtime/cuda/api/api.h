/* api.h: declares the functions of the CUDA driver, cuBLASLt and NCCL that the
 * runtime calls.
 *
 * A training binary is built without CUDA and opens the libraries at run time,
 * so it can print a clear message if one is missing. Hence the facts of their
 * ABI (symbols, constants, structs) are declared here, under parc's own names.
 * tests/unit/cuda_api.c compares them with the toolkit's headers.
 *
 * Types are opaque here. The test substitutes the toolkit's types
 * (PARC_CUDA_TYPES), so the compiler compares every signature.
 */
#ifndef PARC_CUDA_API_H
#define PARC_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef PARC_CUDA_TYPES
typedef unsigned int CuResult, CuAttribute, CuFunctionAttribute, CuJitOption,
    CuMemoryOption,    CuCaptureMode, CuCaptureStatus;
typedef int CuDevice;
typedef unsigned long long CuAddress, CuMemoryHandle;
typedef struct CuContextObject *CuContext;
typedef struct CuStreamObject *CuStream;
typedef struct CuEventObject *CuEvent;
typedef struct CuModuleObject *CuModule;
typedef struct CuFunctionObject *CuFunction;
typedef struct CuGraphObject *CuGraph;
typedef struct CuGraphExecObject *CuGraphExec;
typedef struct CuGraphNodeObject *CuGraphNode;

typedef unsigned int BlasStatus, BlasCompute, BlasType, BlasProductAttribute,
    BlasLayoutAttribute, BlasPreferenceAttribute;
typedef struct BlasHandleObject *BlasHandle;
typedef struct BlasProductObject *BlasProduct;
typedef struct BlasLayoutObject *BlasLayout;
typedef struct BlasPreferenceObject *BlasPreference;
typedef CuStream BlasStream; /* the runtime API's name of the same type */

/* Identifies a kernel and its configuration, in an opaque format that is valid
 * for the version and device that created it. */
typedef struct BlasAlgorithm {
    uint64_t data[8];
} BlasAlgorithm;

typedef struct BlasCandidate {
    BlasAlgorithm algorithm;
    size_t workspace_bytes;
    BlasStatus state;
    float waves;
    int reserved[4];
} BlasCandidate;

/* A copy of rows of `width` bytes between two buffers; rows of a buffer are
 * `pitch` bytes apart. */
typedef struct CuCopyEnd {
    size_t x, y; /* offset: bytes within a row, rows */
    unsigned int type;
    const void *host;
    CuAddress at;
    void *array;
    size_t pitch;
} CuCopyEnd;
typedef struct CuCopy2D {
    CuCopyEnd from, to;
    size_t width, height;
} CuCopy2D;

/* Memory that is mapped at reserved addresses: CUmemAllocationProp and
 * CUmemAccessDesc. */
typedef struct CuMemoryPlace {
    unsigned int type;
    int id;
} CuMemoryPlace;
typedef struct CuMemoryKind {
    unsigned int type, handles;
    CuMemoryPlace where;
    void *security;
    unsigned char compression, remote;
    unsigned short usage;
    unsigned char reserved[4];
} CuMemoryKind;
typedef struct CuMemoryAccess {
    CuMemoryPlace where;
    unsigned int flags;
} CuMemoryAccess;

/* Types of NCCL. */
typedef int NcclResult, NcclElement, NcclReduction;
typedef struct NcclCommObject *NcclComm;
typedef struct NcclWindowObject *NcclWindow;
/* The members that NCCL 2.18 has; newer versions read size and version to know
 * which members exist. */
typedef struct NcclConfig {
    size_t size;
    unsigned int magic, version;
    int blocking, cluster, least_blocks, most_blocks;
    const char *network;
    int shares;
    int traffic; /* here and below: of NCCL 2.28 */
    const char *name;
    int switches, policy;
} NcclConfig;
typedef struct NcclId {
    char data[128];
} NcclId;
typedef CuStream NcclStream;
#endif

/* ORDER cuda-constants: tests/unit/cuda_api.c compares each. */
enum {
    RT_CU_SUCCESS = 0,
    RT_CU_INVALID_VALUE = 1,
    RT_CU_OUT_OF_MEMORY = 2,
    RT_CU_NO_DEVICE = 100,
    RT_CU_NOT_FOUND = 500,
    RT_CU_NOT_READY = 600,

    RT_CU_SM_COUNT = 16, /* device attributes */
    RT_CU_MAJOR = 75,
    RT_CU_MINOR = 76,
    RT_CU_SHARED_OPTIN = 97,

    RT_CU_HOST_PORTABLE = 1,
    RT_CU_STREAM_NON_BLOCKING = 1,
    RT_CU_EVENT_DEFAULT = 0,
    RT_CU_EVENT_DISABLE_TIMING = 2,
    RT_CU_CAPTURE_RELAXED = 2,
    RT_CU_GRAPH_NODE_PRIORITY = 8, /* flag of cuGraphInstantiate */

    RT_CU_FUNCTION_STATIC_SHARED = 1, /* function attributes */
    RT_CU_FUNCTION_DYNAMIC_SHARED = 8,

    RT_CU_PINNED = 1, /* kind and place of mapped memory */
    RT_CU_LOCATION_DEVICE = 1,
    RT_CU_READ_WRITE = 3,
    RT_CU_LEAST_GRANULARITY = 0,
    RT_CU_MEMORY_KIND_BYTES = 32, /* size of CuMemoryKind, … */
    RT_CU_MEMORY_KIND_PLACE = 8,  /* … offset of its place, … */
    RT_CU_MEMORY_ACCESS_BYTES = 12, /* … and size of CuMemoryAccess */

    RT_CU_MEMORY_DEVICE = 2,
    RT_CU_COPY_2D_BYTES = 128, /* size of CuCopy2D */
    RT_CU_COPY_2D_TO = 56,     /* offset of CuCopy2D's second end */

    RT_CU_JIT_ERROR_LOG = 5,
    RT_CU_JIT_ERROR_LOG_BYTES = 6,
};

enum {
    RT_BLAS_SUCCESS = 0,
    RT_BLAS_NOT_SUPPORTED = 15,

    RT_BLAS_F32 = 0, /* element types */
    RT_BLAS_F16 = 2,
    RT_BLAS_BF16 = 14,
    RT_BLAS_COMPUTE_F32 = 68,
    RT_BLAS_COMPUTE_TF32 = 77,

    RT_BLAS_TRANSPOSE_A = 3, /* attributes of a product: int32_t */
    RT_BLAS_TRANSPOSE_B = 4,
    RT_BLAS_TRANSPOSED = 1, /* a value of the transpose attributes */

    RT_BLAS_EPILOGUE = 7,     /* uint32_t: one of RT_BLAS_EPILOGUE_… */
    RT_BLAS_BIAS_POINTER = 8, /* the vector that an epilogue adds or writes */
    RT_BLAS_AUX_POINTER = 11, /* GELU's operand, which an epilogue writes or
                                 reads */
    RT_BLAS_AUX_LEADING = 12, /* int64_t, in elements */
    RT_BLAS_SM_COUNT = 15, /* int32_t: multiprocessors for which kernels are
                              proposed and run */
    RT_BLAS_EPILOGUE_BIAS = 4,
    RT_BLAS_EPILOGUE_GELU_AUX = 160,
    RT_BLAS_EPILOGUE_GELU_AUX_BIAS = 164,
    RT_BLAS_EPILOGUE_GELU_GRAD = 192,
    RT_BLAS_EPILOGUE_SUM_A = 256,
    RT_BLAS_EPILOGUE_SUM_B = 512,

    RT_BLAS_BATCH_COUNT = 5,  /* layout attributes: int32_t */
    RT_BLAS_BATCH_STRIDE = 6, /* int64_t, in elements */

    RT_BLAS_MAX_WORKSPACE = 1,  /* preference attributes: uint64_t */
    RT_BLAS_REDUCTION_MASK = 3, /* uint32_t */
    RT_BLAS_ALIGNMENT_A = 5,    /* uint32_t, in bytes; B, C and D follow */
    RT_BLAS_ALIGNMENT_B = 6,
    RT_BLAS_ALIGNMENT_C = 7,
    RT_BLAS_ALIGNMENT_D = 8,
    RT_BLAS_REDUCE_IN_COMPUTE_TYPE = 2,

    RT_BLAS_ALGORITHM_BYTES = 64, /* sizes and offsets of structs */
    RT_BLAS_CANDIDATE_BYTES = 96,
    RT_BLAS_CANDIDATE_WORKSPACE = 64,
    RT_BLAS_CANDIDATE_STATE = 72,
};

enum {
    RT_NCCL_SUCCESS = 0,
    RT_NCCL_IN_PROGRESS = 7,
    RT_NCCL_BYTES = 1, /* element types */
    RT_NCCL_I32 = 2,
    RT_NCCL_I64 = 4,
    RT_NCCL_F16 = 6,
    RT_NCCL_F32 = 7,
    RT_NCCL_BF16 = 9,
    RT_NCCL_SUM = 0,
    RT_NCCL_MAX = 2,
    RT_NCCL_ID_BYTES = 128,
    RT_NCCL_WINDOW_SYMMETRIC = 1,
    RT_NCCL_CONFIG_MAGIC = (int)0xcafebeef,
    RT_NCCL_CONFIG_MOST_BLOCKS = 28, /* offset of NcclConfig.most_blocks */
    RT_NCCL_CONFIG_POLICY = 60,
    RT_NCCL_POLICY_ZERO = 2, /* copy engines in place of multiprocessors */
};

#ifndef PARC_CUDA_TYPES
_Static_assert(sizeof(CuCopy2D) == RT_CU_COPY_2D_BYTES &&
                   offsetof(CuCopy2D, to) == RT_CU_COPY_2D_TO &&
                   sizeof(NcclId) == RT_NCCL_ID_BYTES &&
                   offsetof(NcclConfig, most_blocks) ==
                       RT_NCCL_CONFIG_MOST_BLOCKS &&
                   offsetof(NcclConfig, policy) == RT_NCCL_CONFIG_POLICY,
               "structs of the driver's and NCCL's ABI");
_Static_assert(sizeof(BlasAlgorithm) == RT_BLAS_ALGORITHM_BYTES &&
                   sizeof(BlasCandidate) == RT_BLAS_CANDIDATE_BYTES &&
                   offsetof(BlasCandidate, workspace_bytes) ==
                       RT_BLAS_CANDIDATE_WORKSPACE &&
                   offsetof(BlasCandidate, state) == RT_BLAS_CANDIDATE_STATE,
               "structs of cuBLASLt's ABI");
#endif

/* The oldest NCCL that can split a communicator. */
enum { RT_NCCL_LEAST_VERSION = 21803 };
/* The oldest NCCL whose copy engines gather. */
enum { RT_NCCL_COPYING_VERSION = 22800 };
/* The oldest driver that has all calls of the runtime: CUDA 12.0. */
enum { RT_CU_LEAST_DRIVER = 12000 };

/* The function table of each library, which rt_cuda_load fills. */
#define CALL(result, name, suffix, arguments) result(*name) arguments;
typedef struct CudaDriver {
#include "cuda/api/calls_driver.h"
} CudaDriver;

typedef struct CudaBlas {
#include "cuda/api/calls_blas.h"
} CudaBlas;

typedef struct CudaNccl {
#include "cuda/api/calls_nccl.h"
} CudaNccl;
#undef CALL

/* A library that is opened at run time. */
typedef struct CudaLibrary {
    const char *what; /* "the CUDA driver" */
    const char *names[4]; /* file names in the order of attempts, ended by
                             NULL */
    const char *advice; /* what a user can do if the library is missing */
    const char *const *symbol; /* in the order of the table's members */
    int nsymbols, noptional; /* noptional: symbols at the end of the list that
                                a library may lack */
} CudaLibrary;

extern const CudaLibrary rt_cuda_driver_library, rt_cuda_blas_library,
    rt_cuda_nccl_library;

/* Opens a library and fills `table` (a CudaDriver, …) with its functions; those
 * that it lacks become NULL. False, with a message in `error`, if it is missing
 * or incomplete: what was found, and what to do. */
bool rt_cuda_load(const CudaLibrary *library, void *table, char *error,
                  size_t capacity);

#endif
