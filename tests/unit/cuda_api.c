/* cuda_api.c: compares parc's declarations of CUDA's libraries
 * (runtime/cuda/api/api.h, tests/gpu/calls_loopback.h) with the toolkit's headers,
 * where these are installed: the types of every call (compared by the
 * compiler), constants, and the structs that are passed. It also checks the
 * messages of rt_cuda_load about missing and incomplete libraries.
 */
#include "check.h"

#if __has_include(<cuda.h>) && __has_include(<cublasLt.h>) &&            \
    __has_include(<nccl.h>)
#define HAVE_TOOLKIT 1
#include <cublasLt.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <nccl.h>

typedef CUresult CuResult;
typedef CUdevice_attribute CuAttribute;
typedef CUfunction_attribute CuFunctionAttribute;
typedef CUjit_option CuJitOption;
typedef CUstreamCaptureMode CuCaptureMode;
typedef CUstreamCaptureStatus CuCaptureStatus;
typedef CUgraphNode CuGraphNode;
typedef CUdevice CuDevice;
typedef CUdeviceptr CuAddress;
typedef CUcontext CuContext;
typedef CUstream CuStream;
typedef CUevent CuEvent;
typedef CUmodule CuModule;
typedef CUfunction CuFunction;
typedef CUgraph CuGraph;
typedef CUgraphExec CuGraphExec;
typedef CUDA_MEMCPY2D CuCopy2D;
typedef CUmemGenericAllocationHandle CuMemoryHandle;
typedef CUmemAllocationProp CuMemoryKind;
typedef CUmemAccessDesc CuMemoryAccess;
typedef CUmemAllocationGranularity_flags CuMemoryOption;
typedef ncclResult_t NcclResult;
typedef ncclDataType_t NcclElement;
typedef ncclRedOp_t NcclReduction;
typedef ncclComm_t NcclComm;
typedef ncclConfig_t NcclConfig;
typedef ncclWindow_t NcclWindow;
typedef ncclUniqueId NcclId;
typedef cudaStream_t NcclStream;
typedef cublasStatus_t BlasStatus;
typedef cublasComputeType_t BlasCompute;
typedef cudaDataType_t BlasType;
typedef cublasLtMatmulDescAttributes_t BlasProductAttribute;
typedef cublasLtMatrixLayoutAttribute_t BlasLayoutAttribute;
typedef cublasLtMatmulPreferenceAttributes_t BlasPreferenceAttribute;
typedef cublasLtHandle_t BlasHandle;
typedef cublasLtMatmulDesc_t BlasProduct;
typedef cublasLtMatrixLayout_t BlasLayout;
typedef cublasLtMatmulPreference_t BlasPreference;
typedef cudaStream_t BlasStream;
typedef cublasLtMatmulAlgo_t BlasAlgorithm;
typedef cublasLtMatmulHeuristicResult_t BlasCandidate;
#define PARC_CUDA_TYPES
#endif

#if defined HAVE_TOOLKIT && __has_include(<cudnn.h>)
#define HAVE_CUDNN 1
#include <cudnn.h>
typedef cudnnStatus_t DnnStatus;
typedef cudnnBackendDescriptorType_t DnnKind;
typedef cudnnBackendAttributeName_t DnnAttribute;
typedef cudnnBackendAttributeType_t DnnValue;
typedef cudnnHandle_t DnnHandle;
typedef cudnnBackendDescriptor_t DnnDescriptor;
typedef cudaStream_t DnnStream;
#define PARC_CUDNN_TYPES
#endif

#include "runtime/cuda/api/api_cudnn.h"

#ifdef HAVE_TOOLKIT
#define SAME_TYPE(table, name)                                                 \
    _Static_assert(__builtin_types_compatible_p(                               \
                       __typeof__(&name), __typeof__(((table *)0)->name)),     \
                   "another signature than the toolkit's")

#define CALL(result, name, suffix, arguments) SAME_TYPE(CudaDriver, name);
#include "runtime/cuda/api/calls_driver.h"
#undef CALL
#define CALL(result, name, suffix, arguments) SAME_TYPE(CudaBlas, name);
#include "runtime/cuda/api/calls_blas.h"
#undef CALL
#define CALL(result, name, suffix, arguments) SAME_TYPE(CudaNccl, name);
#include "runtime/cuda/api/calls_nccl.h"
#ifdef HAVE_CUDNN
#undef CALL
#define CALL(result, name, suffix, arguments) SAME_TYPE(CudaDnn, name);
#include "runtime/cuda/api/calls_cudnn.h"
#endif

/* Further calls that tests/gpu/loopback.c makes. It uses the capture state in
 * the form of CUDA 12, which newer headers declare only as a type. */
#undef cuStreamGetCaptureInfo
#define cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v2
extern __typeof__(*(PFN_cuStreamGetCaptureInfo_v11030)0)
    cuStreamGetCaptureInfo_v2;
#undef CALL
#define CALL(result, name, suffix, arguments) result(*name) arguments;
typedef struct LoopbackCalls {
#include "tests/gpu/calls_loopback.h"
} LoopbackCalls;
#undef CALL
#define CALL(result, name, suffix, arguments) SAME_TYPE(LoopbackCalls, name);
#include "tests/gpu/calls_loopback.h"

#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x

/* The symbol that the header's macros expand a call's name to. */
typedef struct Symbol {
    const char *ours, *toolkits;
} Symbol;

#undef CALL
#define CALL(result, name, suffix, arguments) {#name #suffix, TEXT(name)},
static const Symbol symbols[] = {
#include "runtime/cuda/api/calls_driver.h"
#include "runtime/cuda/api/calls_blas.h"
#include "tests/gpu/calls_loopback.h"
};

/* Calls of which parc loads the older symbol, since older drivers have it. */
static const char *const older[] = {"cuEventElapsedTime"};

static bool is_older(const char *symbol)
{
    for (size_t i = 0; i < sizeof older / sizeof *older; i++)
        if (!strcmp(symbol, older[i]))
            return true;
    return false;
}

static void check_symbols(Check *c)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!is_older(symbols[i].ours))
            CHECK_TEXT(c, symbols[i].ours, symbols[i].toolkits);
}

/* ORDER cuda-constants */
static const struct {
    const char *name;
    int ours, toolkits;
} constants[] = {
#define SAME(ours, toolkits) {#ours, ours, toolkits}
    SAME(RT_CU_SUCCESS, CUDA_SUCCESS),
    SAME(RT_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE),
    SAME(RT_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY),
    SAME(RT_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE),
    SAME(RT_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND),
    SAME(RT_CU_NOT_READY, CUDA_ERROR_NOT_READY),
    SAME(RT_CU_SM_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    SAME(RT_CU_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
    SAME(RT_CU_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    SAME(RT_CU_SHARED_OPTIN,
         CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    SAME(RT_CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE),
    SAME(RT_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING),
    SAME(RT_CU_EVENT_DEFAULT, CU_EVENT_DEFAULT),
    SAME(RT_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING),
    SAME(RT_CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED),
    SAME(RT_CU_FUNCTION_STATIC_SHARED, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
    SAME(RT_CU_FUNCTION_DYNAMIC_SHARED,
         CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
    SAME(RT_CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER),
    SAME(RT_CU_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES),
    SAME(RT_CU_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED),
    SAME(RT_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE),
    SAME(RT_CU_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
    SAME(RT_CU_LEAST_GRANULARITY, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
    SAME(RT_CU_MEMORY_KIND_BYTES, sizeof(CUmemAllocationProp)),
    SAME(RT_CU_MEMORY_KIND_PLACE, offsetof(CUmemAllocationProp, location)),
    SAME(RT_CU_MEMORY_ACCESS_BYTES, sizeof(CUmemAccessDesc)),
    SAME(RT_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE),
    SAME(RT_CU_COPY_2D_BYTES, sizeof(CUDA_MEMCPY2D)),
    SAME(RT_CU_COPY_2D_TO, offsetof(CUDA_MEMCPY2D, dstXInBytes)),
    SAME(RT_NCCL_SUCCESS, ncclSuccess),
    SAME(RT_NCCL_IN_PROGRESS, ncclInProgress),
    SAME(RT_NCCL_BYTES, ncclUint8),
    SAME(RT_NCCL_I32, ncclInt32),
    SAME(RT_NCCL_I64, ncclInt64),
    SAME(RT_NCCL_F16, ncclFloat16),
    SAME(RT_NCCL_F32, ncclFloat32),
    SAME(RT_NCCL_BF16, ncclBfloat16),
    SAME(RT_NCCL_SUM, ncclSum),
    SAME(RT_NCCL_MAX, ncclMax),
    SAME(RT_NCCL_ID_BYTES, sizeof(ncclUniqueId)),
#if NCCL_VERSION_CODE >= 22800
    SAME(RT_NCCL_CONFIG_MOST_BLOCKS, offsetof(ncclConfig_t, maxCTAs)),
    SAME(RT_NCCL_CONFIG_POLICY, offsetof(ncclConfig_t, CTAPolicy)),
    SAME(RT_NCCL_POLICY_ZERO, NCCL_CTA_POLICY_ZERO),
#endif
    SAME(RT_BLAS_SUCCESS, CUBLAS_STATUS_SUCCESS),
    SAME(RT_BLAS_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED),
    SAME(RT_BLAS_F32, CUDA_R_32F),
    SAME(RT_BLAS_F16, CUDA_R_16F),
    SAME(RT_BLAS_BF16, CUDA_R_16BF),
    SAME(RT_BLAS_COMPUTE_F32, CUBLAS_COMPUTE_32F),
    SAME(RT_BLAS_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32),
    SAME(RT_BLAS_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA),
    SAME(RT_BLAS_TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB),
    SAME(RT_BLAS_TRANSPOSED, CUBLAS_OP_T),
    SAME(RT_BLAS_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE),
    SAME(RT_BLAS_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER),
    SAME(RT_BLAS_AUX_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER),
    SAME(RT_BLAS_AUX_LEADING, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD),
    SAME(RT_BLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS),
    SAME(RT_BLAS_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX),
    SAME(RT_BLAS_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS),
    SAME(RT_BLAS_EPILOGUE_GELU_GRAD, CUBLASLT_EPILOGUE_DGELU),
    SAME(RT_BLAS_EPILOGUE_SUM_A, CUBLASLT_EPILOGUE_BGRADA),
    SAME(RT_BLAS_EPILOGUE_SUM_B, CUBLASLT_EPILOGUE_BGRADB),
    SAME(RT_BLAS_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT),
    SAME(RT_BLAS_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
    SAME(RT_BLAS_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
    SAME(RT_BLAS_REDUCTION_MASK, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),
    SAME(RT_BLAS_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
    SAME(RT_BLAS_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
    SAME(RT_BLAS_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
    SAME(RT_BLAS_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES),
    SAME(RT_BLAS_REDUCE_IN_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE),
/* ORDER cudnn-constants */
#ifdef HAVE_CUDNN
    SAME(RT_DNN_SUCCESS, CUDNN_STATUS_SUCCESS),
    SAME(RT_DNN_POINTWISE, CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
    SAME(RT_DNN_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR),
    SAME(RT_DNN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
    SAME(RT_DNN_HEURISTICS, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
    SAME(RT_DNN_PLAN, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR),
    SAME(RT_DNN_OPERATION_POINTWISE,
         CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR),
    SAME(RT_DNN_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
    SAME(RT_DNN_PACK, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR),
    SAME(RT_DNN_TENSOR, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
    SAME(RT_DNN_MATMUL, CUDNN_BACKEND_MATMUL_DESCRIPTOR),
    SAME(RT_DNN_OPERATION_MATMUL, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR),
    SAME(RT_DNN_REDUCTION, CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
    SAME(RT_DNN_OPERATION_REDUCTION,
         CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR),
    SAME(RT_DNN_OPERATION_RESHAPE, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR),
    SAME(RT_DNN_DEVICE, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR),
    SAME(RT_DNN_CONVOLUTION, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
    SAME(RT_DNN_OPERATION_CONV, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR),
    SAME(RT_DNN_OPERATION_CONV_FILTER,
         CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR),
    SAME(RT_DNN_OPERATION_CONV_DATA,
         CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR),
    SAME(RT_DNN_OF_FLOAT, CUDNN_TYPE_FLOAT),
    SAME(RT_DNN_OF_CONVOLUTION_MODE, CUDNN_TYPE_CONVOLUTION_MODE),
    SAME(RT_DNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION),
    SAME(RT_DNN_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_TENSOR_CORE),
    SAME(RT_DNN_CONVERTS_DOWN, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS),
    SAME(RT_DNN_REDUCED_SUMS, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION),
    SAME(RT_DNN_CONVOLUTION_TYPE, CUDNN_ATTR_CONVOLUTION_COMP_TYPE),
    SAME(RT_DNN_CONVOLUTION_MODE, CUDNN_ATTR_CONVOLUTION_CONV_MODE),
    SAME(RT_DNN_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_DILATIONS),
    SAME(RT_DNN_CONVOLUTION_STRIDES, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
    SAME(RT_DNN_CONVOLUTION_AFTER, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
    SAME(RT_DNN_CONVOLUTION_BEFORE, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
    SAME(RT_DNN_CONVOLUTION_DIMS, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS),
    SAME(RT_DNN_OPERATION_CONV_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA),
    SAME(RT_DNN_OPERATION_CONV_BETA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA),
    SAME(RT_DNN_OPERATION_CONV_DOES,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC),
    SAME(RT_DNN_OPERATION_CONV_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
    SAME(RT_DNN_OPERATION_CONV_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
    SAME(RT_DNN_OPERATION_CONV_Y,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y),
    SAME(RT_DNN_OPERATION_CONV_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA),
    SAME(RT_DNN_OPERATION_CONV_DATA_BETA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA),
    SAME(RT_DNN_OPERATION_CONV_DATA_DOES,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC),
    SAME(RT_DNN_OPERATION_CONV_DATA_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
    SAME(RT_DNN_OPERATION_CONV_DATA_DX,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX),
    SAME(RT_DNN_OPERATION_CONV_DATA_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY),
    SAME(RT_DNN_OPERATION_CONV_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA),
    SAME(RT_DNN_OPERATION_CONV_FILTER_BETA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA),
    SAME(RT_DNN_OPERATION_CONV_FILTER_DOES,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC),
    SAME(RT_DNN_OPERATION_CONV_FILTER_DW,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW),
    SAME(RT_DNN_OPERATION_CONV_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
    SAME(RT_DNN_OPERATION_CONV_FILTER_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY),
    SAME(RT_DNN_OF_HANDLE, CUDNN_TYPE_HANDLE),
    SAME(RT_DNN_OF_TYPE, CUDNN_TYPE_DATA_TYPE),
    SAME(RT_DNN_OF_BOOL, CUDNN_TYPE_BOOLEAN),
    SAME(RT_DNN_OF_INT64, CUDNN_TYPE_INT64),
    SAME(RT_DNN_OF_POINTER, CUDNN_TYPE_VOID_PTR),
    SAME(RT_DNN_OF_HEURISTICS_MODE, CUDNN_TYPE_HEUR_MODE),
    SAME(RT_DNN_OF_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE),
    SAME(RT_DNN_OF_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE),
    SAME(RT_DNN_OF_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR),
    SAME(RT_DNN_OF_REDUCTION_MODE, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE),
    SAME(RT_DNN_OF_CHAR, CUDNN_TYPE_CHAR),
    SAME(RT_DNN_F32, CUDNN_DATA_FLOAT),
    SAME(RT_DNN_F16, CUDNN_DATA_HALF),
    SAME(RT_DNN_I32, CUDNN_DATA_INT32),
    SAME(RT_DNN_BF16, CUDNN_DATA_BFLOAT16),
    SAME(RT_DNN_BOOL, CUDNN_DATA_BOOLEAN),
    SAME(RT_DNN_ADD, CUDNN_POINTWISE_ADD),
    SAME(RT_DNN_MULTIPLY, CUDNN_POINTWISE_MUL),
    SAME(RT_DNN_DIVIDE, CUDNN_POINTWISE_DIV),
    SAME(RT_DNN_SUBTRACT, CUDNN_POINTWISE_SUB),
    SAME(RT_DNN_EXP, CUDNN_POINTWISE_EXP),
    SAME(RT_DNN_LOG, CUDNN_POINTWISE_LOG),
    SAME(RT_DNN_IDENTITY, CUDNN_POINTWISE_IDENTITY),
    SAME(RT_DNN_GREATER_EQUAL, CUDNN_POINTWISE_CMP_GE),
    SAME(RT_DNN_INDEX, CUDNN_POINTWISE_GEN_INDEX),
    SAME(RT_DNN_SELECT, CUDNN_POINTWISE_BINARY_SELECT),
    SAME(RT_DNN_SUM, CUDNN_REDUCE_TENSOR_ADD),
    SAME(RT_DNN_MAX, CUDNN_REDUCE_TENSOR_MAX),
    SAME(RT_DNN_MODE_FALLBACK, CUDNN_HEUR_MODE_FALLBACK),
    SAME(RT_DNN_MODE_A, CUDNN_HEUR_MODE_A),
    SAME(RT_DNN_NOT_DETERMINISTIC, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
    SAME(RT_DNN_NOTES, CUDNN_NUMERICAL_NOTE_TYPE_COUNT),
    SAME(RT_DNN_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MODE),
    SAME(RT_DNN_POINTWISE_TYPE, CUDNN_ATTR_POINTWISE_MATH_PREC),
    SAME(RT_DNN_POINTWISE_AXIS, CUDNN_ATTR_POINTWISE_AXIS),
    SAME(RT_DNN_HEURISTICS_MODE, CUDNN_ATTR_ENGINEHEUR_MODE),
    SAME(RT_DNN_HEURISTICS_GRAPH, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH),
    SAME(RT_DNN_HEURISTICS_RESULTS, CUDNN_ATTR_ENGINEHEUR_RESULTS),
    SAME(RT_DNN_HEURISTICS_DEVICE, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP),
    SAME(RT_DNN_CONFIG_ENGINE, CUDNN_ATTR_ENGINECFG_ENGINE),
    SAME(RT_DNN_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_HANDLE),
    SAME(RT_DNN_PLAN_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
    SAME(RT_DNN_PLAN_WORKSPACE, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE),
    SAME(RT_DNN_OPERATION_POINTWISE_DOES,
         CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
    SAME(RT_DNN_OPERATION_POINTWISE_X, CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
    SAME(RT_DNN_OPERATION_POINTWISE_B, CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
    SAME(RT_DNN_OPERATION_POINTWISE_Y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
    SAME(RT_DNN_OPERATION_POINTWISE_T, CUDNN_ATTR_OPERATION_POINTWISE_TDESC),
    SAME(RT_DNN_GRAPH_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_HANDLE),
    SAME(RT_DNN_GRAPH_OPERATIONS, CUDNN_ATTR_OPERATIONGRAPH_OPS),
    SAME(RT_DNN_TENSOR_ALIGNMENT, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
    SAME(RT_DNN_TENSOR_TYPE, CUDNN_ATTR_TENSOR_DATA_TYPE),
    SAME(RT_DNN_TENSOR_SIZES, CUDNN_ATTR_TENSOR_DIMENSIONS),
    SAME(RT_DNN_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_STRIDES),
    SAME(RT_DNN_TENSOR_NAME, CUDNN_ATTR_TENSOR_UNIQUE_ID),
    SAME(RT_DNN_TENSOR_VIRTUAL, CUDNN_ATTR_TENSOR_IS_VIRTUAL),
    SAME(RT_DNN_TENSOR_BY_VALUE, CUDNN_ATTR_TENSOR_IS_BY_VALUE),
    SAME(RT_DNN_PACK_NAMES, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
    SAME(RT_DNN_PACK_POINTERS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS),
    SAME(RT_DNN_PACK_WORKSPACE, CUDNN_ATTR_VARIANT_PACK_WORKSPACE),
    SAME(RT_DNN_ENGINE_INDEX, CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
    SAME(RT_DNN_ENGINE_NOTES, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE),
    SAME(RT_DNN_MATMUL_TYPE, CUDNN_ATTR_MATMUL_COMP_TYPE),
    SAME(RT_DNN_OPERATION_MATMUL_A, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
    SAME(RT_DNN_OPERATION_MATMUL_B, CUDNN_ATTR_OPERATION_MATMUL_BDESC),
    SAME(RT_DNN_OPERATION_MATMUL_C, CUDNN_ATTR_OPERATION_MATMUL_CDESC),
    SAME(RT_DNN_OPERATION_MATMUL_DOES, CUDNN_ATTR_OPERATION_MATMUL_DESC),
    SAME(RT_DNN_REDUCTION_MODE, CUDNN_ATTR_REDUCTION_OPERATOR),
    SAME(RT_DNN_REDUCTION_TYPE, CUDNN_ATTR_REDUCTION_COMP_TYPE),
    SAME(RT_DNN_OPERATION_REDUCTION_X, CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
    SAME(RT_DNN_OPERATION_REDUCTION_Y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC),
    SAME(RT_DNN_OPERATION_REDUCTION_DOES, CUDNN_ATTR_OPERATION_REDUCTION_DESC),
    SAME(RT_DNN_OPERATION_RESHAPE_X, CUDNN_ATTR_OPERATION_RESHAPE_XDESC),
    SAME(RT_DNN_OPERATION_RESHAPE_Y, CUDNN_ATTR_OPERATION_RESHAPE_YDESC),
    SAME(RT_DNN_DEVICE_JSON, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION),
#endif
#undef SAME
};

static void check_constants(Check *c)
{
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (constants[i].ours != constants[i].toolkits)
            check_text(c, constants[i].name, "the toolkit's value", __FILE__,
                       __LINE__);
        else
            c->passed++;
}

/* Compares the struct layouts that api.h assumes with the toolkit's types. */
static void check_structs(Check *c)
{
    CHECK(c, sizeof(cublasLtMatmulAlgo_t) == RT_BLAS_ALGORITHM_BYTES);
    CHECK(c, sizeof(cublasLtMatmulHeuristicResult_t) ==
                 RT_BLAS_CANDIDATE_BYTES);
    CHECK(c, offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) ==
                 RT_BLAS_CANDIDATE_WORKSPACE);
    CHECK(c, offsetof(cublasLtMatmulHeuristicResult_t, state) ==
                 RT_BLAS_CANDIDATE_STATE);
    CHECK(c, sizeof(CuResult) == 4 && sizeof(CuAddress) == 8 &&
                 sizeof(CuDevice) == 4 && sizeof(BlasStatus) == 4);
}

static void check_toolkit(Check *c)
{
    check_symbols(c);
    check_constants(c);
    check_structs(c);
}
#else
static void check_toolkit(Check *c)
{
    (void)c;
    printf("no CUDA headers here: their declarations are not compared\n");
}
#endif

/* ---- messages of libraries that cannot be used --------------------------- */

static void check_missing(Check *c)
{
    void *table[2] = {0};
    char error[512];
    static const char *const one[] = {"strlen", "no_such_call", "nor_this"};
    CudaLibrary l = {.what = "the test's library",
                     .names = {"libnone.so.1", "libnone.so.0"},
                     .advice = "look elsewhere",
                     .symbol = one,
                     .nsymbols = 1};
    CHECK(c, !rt_cuda_load(&l, table, error, sizeof error));
    CHECK_TEXT(c, error,
               "the test's library is missing: libnone.so.1: cannot open "
               "shared object file: No such file or directory; libnone.so.0: "
               "cannot open shared object file: No such file or directory; "
               "look elsewhere");
    CHECK(c, !rt_cuda_load(&l, table, error, 20));
    CHECK_TEXT(c, error, "the test's library ");
    l.names[0] = "libc.so.6";
    CHECK(c, rt_cuda_load(&l, table, error, sizeof error));
    CHECK(c, table[0] != NULL);
}

static void check_lacking(Check *c)
{
    void *table[3] = {0};
    char error[512];
    static const char *const three[] = {"strlen", "no_such_call", "nor_this"};
    CudaLibrary l = {.what = "the test's library",
                     .names = {"libc.so.6"},
                     .advice = "look elsewhere",
                     .symbol = three,
                     .nsymbols = 2};
    CHECK(c, !rt_cuda_load(&l, table, error, sizeof error));
    CHECK(c, strstr(error, "libc.so.6) is too old or incomplete: it lacks "
                           "no_such_call; look elsewhere") != NULL);
    l.nsymbols = 3;
    CHECK(c, !rt_cuda_load(&l, table, error, sizeof error));
    CHECK(c, strstr(error, "it lacks no_such_call and others; ") != NULL);
    l.noptional = 2;
    CHECK(c, rt_cuda_load(&l, table, error, sizeof error));
    CHECK(c, table[0] && !table[1] && !table[2]);
}

int main(void)
{
    Check c = {0};
    check_toolkit(&c);
    check_missing(&c);
    check_lacking(&c);
    return check_end(&c);
}
