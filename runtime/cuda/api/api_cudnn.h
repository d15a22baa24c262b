/* api_cudnn.h: declares the functions of cuDNN's graph interface that the
 * runtime calls. As in api.h, these are facts of the ABI under parc's own
 * names; tests/unit/cuda_api.c compares them with the library's header.
 */
#ifndef PARC_CUDNN_API_H
#define PARC_CUDNN_API_H

#include "cuda/api/api.h"

#ifndef PARC_CUDNN_TYPES
typedef unsigned int DnnStatus, DnnKind, DnnAttribute, DnnValue;
typedef struct DnnHandleObject *DnnHandle;
typedef void *DnnDescriptor;
typedef CuStream DnnStream; /* the runtime API's name of the same type */
#endif

/* ORDER cudnn-constants: tests/unit/cuda_api.c compares each. */
enum {
    RT_DNN_SUCCESS = 0,

    RT_DNN_POINTWISE = 0, /* descriptor kinds */
    RT_DNN_ENGINE = 2,
    RT_DNN_ENGINE_CONFIG = 3,
    RT_DNN_HEURISTICS = 4,
    RT_DNN_PLAN = 5,
    RT_DNN_OPERATION_POINTWISE = 13,
    RT_DNN_OPERATION_GRAPH = 15,
    RT_DNN_PACK = 16,
    RT_DNN_TENSOR = 17,
    RT_DNN_MATMUL = 18,
    RT_DNN_OPERATION_MATMUL = 19,
    RT_DNN_REDUCTION = 21,
    RT_DNN_OPERATION_REDUCTION = 22,
    RT_DNN_OPERATION_RESHAPE = 31,
    RT_DNN_DEVICE = 38,

    RT_DNN_OF_HANDLE = 0, /* types of attribute values */
    RT_DNN_OF_TYPE = 1,
    RT_DNN_OF_BOOL = 2,
    RT_DNN_OF_INT64 = 3,
    RT_DNN_OF_POINTER = 6,
    RT_DNN_OF_HEURISTICS_MODE = 8,
    RT_DNN_OF_NUMERICAL_NOTE = 11,
    RT_DNN_OF_POINTWISE_MODE = 14,
    RT_DNN_OF_DESCRIPTOR = 15,
    RT_DNN_OF_REDUCTION_MODE = 18,
    RT_DNN_OF_CHAR = 24,

    RT_DNN_F32 = 0, /* element types */
    RT_DNN_F16 = 2,
    RT_DNN_I32 = 4,
    RT_DNN_BF16 = 9,
    RT_DNN_BOOL = 11,

    RT_DNN_ADD = 0, /* modes of pointwise operations */
    RT_DNN_MULTIPLY = 1,
    RT_DNN_DIVIDE = 6,
    RT_DNN_SUBTRACT = 9,
    RT_DNN_EXP = 13,
    RT_DNN_LOG = 15,
    RT_DNN_IDENTITY = 21,
    RT_DNN_GREATER_EQUAL = 303,
    RT_DNN_INDEX = 501,
    RT_DNN_SELECT = 601,

    RT_DNN_SUM = 0, /* modes of reductions */
    RT_DNN_MAX = 3,

    RT_DNN_MODE_FALLBACK = 2, /* modes of heuristics */
    RT_DNN_MODE_A = 3,
    RT_DNN_NOT_DETERMINISTIC = 4, /* numerical note of an engine */
    RT_DNN_NOTES = 10,
};

/* Attributes, grouped by the kind of their descriptor. */
enum {
    RT_DNN_POINTWISE_MODE = 0,
    RT_DNN_POINTWISE_TYPE = 1,
    RT_DNN_POINTWISE_AXIS = 9,
    RT_DNN_HEURISTICS_MODE = 200,
    RT_DNN_HEURISTICS_GRAPH = 201,
    RT_DNN_HEURISTICS_RESULTS = 202,
    RT_DNN_HEURISTICS_DEVICE = 204,
    RT_DNN_CONFIG_ENGINE = 300,
    RT_DNN_PLAN_HANDLE = 400,
    RT_DNN_PLAN_CONFIG = 401,
    RT_DNN_PLAN_WORKSPACE = 402,
    RT_DNN_OPERATION_POINTWISE_DOES = 750,
    RT_DNN_OPERATION_POINTWISE_X = 751,
    RT_DNN_OPERATION_POINTWISE_B = 752,
    RT_DNN_OPERATION_POINTWISE_Y = 753,
    RT_DNN_OPERATION_POINTWISE_T = 758,
    RT_DNN_GRAPH_HANDLE = 800,
    RT_DNN_GRAPH_OPERATIONS = 801,
    RT_DNN_TENSOR_ALIGNMENT = 900,
    RT_DNN_TENSOR_TYPE = 901,
    RT_DNN_TENSOR_SIZES = 902,
    RT_DNN_TENSOR_STRIDES = 903,
    RT_DNN_TENSOR_NAME = 906,
    RT_DNN_TENSOR_VIRTUAL = 907,
    RT_DNN_TENSOR_BY_VALUE = 908,
    RT_DNN_PACK_NAMES = 1000,
    RT_DNN_PACK_POINTERS = 1001,
    RT_DNN_PACK_WORKSPACE = 1003,
    RT_DNN_ENGINE_INDEX = 1301,
    RT_DNN_ENGINE_NOTES = 1303,
    RT_DNN_MATMUL_TYPE = 1500,
    RT_DNN_OPERATION_MATMUL_A = 1520,
    RT_DNN_OPERATION_MATMUL_B = 1521,
    RT_DNN_OPERATION_MATMUL_C = 1522,
    RT_DNN_OPERATION_MATMUL_DOES = 1523,
    RT_DNN_REDUCTION_MODE = 1600,
    RT_DNN_REDUCTION_TYPE = 1601,
    RT_DNN_OPERATION_REDUCTION_X = 1610,
    RT_DNN_OPERATION_REDUCTION_Y = 1611,
    RT_DNN_OPERATION_REDUCTION_DOES = 1612,
    RT_DNN_OPERATION_RESHAPE_X = 2200,
    RT_DNN_OPERATION_RESHAPE_Y = 2201,
    RT_DNN_DEVICE_JSON = 2702,
};

/* The function table, which rt_cuda_load fills. */
#define CALL(result, name, suffix, arguments) result(*name) arguments;
typedef struct CudaDnn {
#include "cuda/api/calls_cudnn.h"
} CudaDnn;
#undef CALL

extern const CudaLibrary rt_cudnn_library;

#endif
