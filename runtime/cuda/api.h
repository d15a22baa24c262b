/* api.h: the CUDA driver, cuBLASLt and NCCL, as far as the runtime calls them.
 *
 * A training binary is built where no CUDA is installed and says clearly what
 * is missing where it runs: libraries are opened at run time, and the facts of
 * their ABI (symbols, constants, structs) are declared here, with our own
 * names. tests/unit/cuda_api.c holds them against the toolkit's headers.
 *
 * Types are opaque to us. The test gives the toolkit's own instead
 * (PARC_CUDA_TYPES), so that the compiler compares every signature.
 */
#ifndef PARC_CUDA_API_H
#define PARC_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef PARC_CUDA_TYPES
typedef unsigned int CuResult, CuAttribute, CuFunctionAttribute, CuJitOption,
    CuCaptureMode, CuCaptureStatus;
typedef int CuDevice;
typedef unsigned long long CuAddress;
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
typedef CuStream BlasStream; /* the runtime API's name for the same */

/* Which kernel computes a product and how: words of the library's own, good
 * for the version and device that made them. */
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
#endif

#ifndef PARC_CUDA_TYPES
/* Rows of `width` bytes, between memory whose rows are `pitch` bytes apart. */
typedef struct CuCopyEnd {
    size_t x, y; /* bytes of a row, rows */
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

/* NCCL's. */
typedef int NcclResult, NcclElement, NcclReduction;
typedef struct NcclCommObject *NcclComm;
typedef struct NcclWindowObject *NcclWindow;
/* The members that NCCL 2.18 has; newer ones know from size and version which
 * these are. */
typedef struct NcclConfig {
    size_t size;
    unsigned int magic, version;
    int blocking, cluster, least_blocks, most_blocks;
    const char *network;
    int shares;
} NcclConfig;
typedef struct NcclId {
    char data[128];
} NcclId;
typedef CuStream NcclStream;
#endif

/* ORDER cuda-constants: tests/unit/cuda_api.c compares each. */
enum {
    RT_CU_SUCCESS = 0,
    RT_CU_OUT_OF_MEMORY = 2,
    RT_CU_NO_DEVICE = 100,
    RT_CU_NO_BINARY = 209,
    RT_CU_NOT_FOUND = 500,
    RT_CU_NOT_READY = 600,

    RT_CU_SM_COUNT = 16, /* attributes of a device */
    RT_CU_MAJOR = 75,
    RT_CU_MINOR = 76,
    RT_CU_SHARED_OPTIN = 97,

    RT_CU_HOST_PORTABLE = 1,
    RT_CU_STREAM_NON_BLOCKING = 1,
    RT_CU_EVENT_DEFAULT = 0,
    RT_CU_EVENT_DISABLE_TIMING = 2,
    RT_CU_CAPTURE_RELAXED = 2,
    RT_CU_GRAPH_NODE_PRIORITY = 8, /* of cuGraphInstantiate */

    RT_CU_FUNCTION_STATIC_SHARED = 1, /* attributes of a function */
    RT_CU_FUNCTION_DYNAMIC_SHARED = 8,

    RT_CU_MEMORY_DEVICE = 2,
    RT_CU_COPY_2D_BYTES = 128, /* of the struct, and where the second end is */
    RT_CU_COPY_2D_TO = 56,

    RT_CU_JIT_ERROR_LOG = 5,
    RT_CU_JIT_ERROR_LOG_BYTES = 6,
};

enum {
    RT_BLAS_SUCCESS = 0,
    RT_BLAS_NOT_SUPPORTED = 15,

    RT_BLAS_F32 = 0, /* types of elements */
    RT_BLAS_F16 = 2,
    RT_BLAS_BF16 = 14,
    RT_BLAS_COMPUTE_F32 = 68,
    RT_BLAS_COMPUTE_TF32 = 77,

    RT_BLAS_TRANSPOSE_A = 3, /* attributes of a product, int32_t … */
    RT_BLAS_TRANSPOSE_B = 4,
    RT_BLAS_PLAIN = 0, /* … and their values */
    RT_BLAS_TRANSPOSED = 1,

    RT_BLAS_EPILOGUE = 7,     /* uint32_t, of those below */
    RT_BLAS_BIAS_POINTER = 8, /* what is added or summed: a vector */
    RT_BLAS_AUX_POINTER = 11, /* GELU's operand, kept or read */
    RT_BLAS_AUX_LEADING = 12, /* int64_t, in elements */
    RT_BLAS_EPILOGUE_BIAS = 4,
    RT_BLAS_EPILOGUE_GELU_AUX = 160,
    RT_BLAS_EPILOGUE_GELU_AUX_BIAS = 164,
    RT_BLAS_EPILOGUE_GELU_GRAD = 192,
    RT_BLAS_EPILOGUE_SUM_A = 256,
    RT_BLAS_EPILOGUE_SUM_B = 512,

    RT_BLAS_BATCH_COUNT = 5,  /* attributes of a layout: int32_t */
    RT_BLAS_BATCH_STRIDE = 6, /* int64_t, in elements */

    RT_BLAS_MAX_WORKSPACE = 1,  /* attributes of a preference: uint64_t */
    RT_BLAS_REDUCTION_MASK = 3, /* uint32_t */
    RT_BLAS_ALIGNMENT_A = 5,    /* uint32_t, in bytes; B, C, D follow */
    RT_BLAS_ALIGNMENT_B = 6,
    RT_BLAS_ALIGNMENT_C = 7,
    RT_BLAS_ALIGNMENT_D = 8,
    RT_BLAS_REDUCE_IN_COMPUTE_TYPE = 2,

    RT_BLAS_ALGORITHM_BYTES = 64, /* sizes and places in the ABI's structs */
    RT_BLAS_CANDIDATE_BYTES = 96,
    RT_BLAS_CANDIDATE_WORKSPACE = 64,
    RT_BLAS_CANDIDATE_STATE = 72,
};

enum {
    RT_NCCL_SUCCESS = 0,
    RT_NCCL_IN_PROGRESS = 7,
    RT_NCCL_BYTES = 1, /* types of elements */
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
    RT_NCCL_CONFIG_MOST_BLOCKS = 28, /* where that member is */
};

#ifndef PARC_CUDA_TYPES
_Static_assert(sizeof(CuCopy2D) == RT_CU_COPY_2D_BYTES &&
                   offsetof(CuCopy2D, to) == RT_CU_COPY_2D_TO &&
                   sizeof(NcclId) == RT_NCCL_ID_BYTES &&
                   offsetof(NcclConfig, most_blocks) ==
                       RT_NCCL_CONFIG_MOST_BLOCKS,
               "structs of the driver's and NCCL's ABI");
_Static_assert(sizeof(BlasAlgorithm) == RT_BLAS_ALGORITHM_BYTES &&
                   sizeof(BlasCandidate) == RT_BLAS_CANDIDATE_BYTES &&
                   offsetof(BlasCandidate, workspace_bytes) ==
                       RT_BLAS_CANDIDATE_WORKSPACE &&
                   offsetof(BlasCandidate, state) == RT_BLAS_CANDIDATE_STATE,
               "structs of cuBLASLt's ABI");
#endif

/* The oldest NCCL that splits a communicator. */
enum { RT_NCCL_LEAST_VERSION = 21803 };
/* The oldest driver whose calls are all that the runtime makes: CUDA 12.0. */
enum { RT_CU_LEAST_DRIVER = 12000 };

/* The calls of each library, filled in by rt_cuda_load. */
#define CALL(result, name, symbol, arguments) result(*name) arguments;
typedef struct CudaDriver {
#include "calls_driver.h"
} CudaDriver;

#define CALL(result, name, symbol, arguments) result(*name) arguments;
typedef struct CudaBlas {
#include "calls_blas.h"
} CudaBlas;

#define CALL(result, name, symbol, arguments) result(*name) arguments;
typedef struct CudaNccl {
#include "calls_nccl.h"
} CudaNccl;

#define CALL(result, name, symbol, arguments) result(*name) arguments;
typedef struct CudaNcclWindow {
#include "calls_nccl_window.h"
} CudaNcclWindow;

/* A library that is opened at run time. */
typedef struct CudaLibrary {
    const char *what; /* "the CUDA driver" */
    const char *names[4]; /* file names, in the order in which they are tried;
                             NULL ends them */
    const char *advice; /* what a user can do where it is missing */
    const char *const *symbol; /* in the order of the table's members */
    int nsymbols;
} CudaLibrary;

extern const CudaLibrary rt_cuda_driver_library, rt_cuda_blas_library,
    rt_cuda_nccl_library;

/* Opens a library and fills `table` (a CudaDriver, …) with its calls. Returns
 * the library's handle, or NULL with a message in `error`: what was looked
 * for, what was found, and what to do. */
void *rt_cuda_load(const CudaLibrary *library, void *table, char *error,
                   size_t room);

#endif
