/* cudnn.c: implements libcudnn.so.9 for tests: the calls of
 * runtime/cuda/api/calls_cudnn.h.
 *
 * This file has the descriptors, which store their attributes. An attribute of
 * the wrong kind or type is an error. cudnn_plan.c makes and runs plans.
 *
 *   STANDIN_CUDNN_VERSION=91900  the version that the library reports
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn_object.h"
#include "engine.h"

enum { VERSION = 91900, DESCRIPTORS = 64 /* most descriptors of a list */ };

static char last_error[256];

DnnStatus dnn_fails(DnnStatus status, const char *why)
{
    snprintf(last_error, sizeof last_error, "%s", why);
    return status;
}

bool dnn_asked_to(const char *what)
{
    const char *mode = getenv("STANDIN_CUDNN");
    return mode && strcmp(mode, what) == 0;
}

size_t cudnnGetVersion(void)
{
    const char *version = getenv("STANDIN_CUDNN_VERSION");
    return version ? strtoul(version, NULL, 10) : VERSION;
}

const char *cudnnGetErrorString(DnnStatus status)
{
    switch (status) {
    case RT_DNN_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case NOT_FINALIZED: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_UNKNOWN";
    }
}

void cudnnGetLastErrorString(char *message, size_t capacity)
{
    snprintf(message, capacity, "%s", last_error);
}

DnnStatus cudnnCreate(DnnHandle *handle)
{
    *handle = calloc(1, sizeof **handle);
    (*handle)->magic = MAGIC;
    return RT_DNN_SUCCESS;
}

DnnStatus cudnnDestroy(DnnHandle handle)
{
    handle->magic = 0;
    free(handle);
    return RT_DNN_SUCCESS;
}

DnnStatus cudnnSetStream(DnnHandle handle, DnnStream stream)
{
    handle->stream = stream;
    return RT_DNN_SUCCESS;
}

/* ---- attributes ---------------------------------------------------------- */

/* The attributes of each kind: `most` values in a list, `least` required ones.
 */
static const struct Known {
    DnnKind kind;
    DnnAttribute name;
    DnnValue type;
    int64_t least, most;
} known[] = {
    {RT_DNN_TENSOR, RT_DNN_TENSOR_TYPE, RT_DNN_OF_TYPE, 1, 1},
    {RT_DNN_TENSOR, RT_DNN_TENSOR_SIZES, RT_DNN_OF_INT64, 4, 4},
    {RT_DNN_TENSOR, RT_DNN_TENSOR_STRIDES, RT_DNN_OF_INT64, 4, 4},
    {RT_DNN_TENSOR, RT_DNN_TENSOR_NAME, RT_DNN_OF_INT64, 1, 1},
    {RT_DNN_TENSOR, RT_DNN_TENSOR_ALIGNMENT, RT_DNN_OF_INT64, 1, 1},
    {RT_DNN_TENSOR, RT_DNN_TENSOR_VIRTUAL, RT_DNN_OF_BOOL, 0, 1},
    {RT_DNN_TENSOR, RT_DNN_TENSOR_BY_VALUE, RT_DNN_OF_BOOL, 0, 1},
    {RT_DNN_POINTWISE, RT_DNN_POINTWISE_MODE, RT_DNN_OF_POINTWISE_MODE, 1, 1},
    {RT_DNN_POINTWISE, RT_DNN_POINTWISE_TYPE, RT_DNN_OF_TYPE, 1, 1},
    {RT_DNN_POINTWISE, RT_DNN_POINTWISE_AXIS, RT_DNN_OF_INT64, 0, 1},
    {RT_DNN_OPERATION_POINTWISE, RT_DNN_OPERATION_POINTWISE_DOES,
     RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_POINTWISE, RT_DNN_OPERATION_POINTWISE_X,
     RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_POINTWISE, RT_DNN_OPERATION_POINTWISE_B,
     RT_DNN_OF_DESCRIPTOR, 0, 1},
    {RT_DNN_OPERATION_POINTWISE, RT_DNN_OPERATION_POINTWISE_T,
     RT_DNN_OF_DESCRIPTOR, 0, 1},
    {RT_DNN_OPERATION_POINTWISE, RT_DNN_OPERATION_POINTWISE_Y,
     RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_MATMUL, RT_DNN_MATMUL_TYPE, RT_DNN_OF_TYPE, 1, 1},
    {RT_DNN_OPERATION_MATMUL, RT_DNN_OPERATION_MATMUL_DOES,
     RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_MATMUL, RT_DNN_OPERATION_MATMUL_A, RT_DNN_OF_DESCRIPTOR,
     1, 1},
    {RT_DNN_OPERATION_MATMUL, RT_DNN_OPERATION_MATMUL_B, RT_DNN_OF_DESCRIPTOR,
     1, 1},
    {RT_DNN_OPERATION_MATMUL, RT_DNN_OPERATION_MATMUL_C, RT_DNN_OF_DESCRIPTOR,
     1, 1},
    {RT_DNN_REDUCTION, RT_DNN_REDUCTION_MODE, RT_DNN_OF_REDUCTION_MODE, 1, 1},
    {RT_DNN_REDUCTION, RT_DNN_REDUCTION_TYPE, RT_DNN_OF_TYPE, 1, 1},
    {RT_DNN_OPERATION_REDUCTION, RT_DNN_OPERATION_REDUCTION_DOES,
     RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_REDUCTION, RT_DNN_OPERATION_REDUCTION_X,
     RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_REDUCTION, RT_DNN_OPERATION_REDUCTION_Y,
     RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_RESHAPE, RT_DNN_OPERATION_RESHAPE_X, RT_DNN_OF_DESCRIPTOR,
     1, 1},
    {RT_DNN_OPERATION_RESHAPE, RT_DNN_OPERATION_RESHAPE_Y, RT_DNN_OF_DESCRIPTOR,
     1, 1},
    {RT_DNN_CONVOLUTION, RT_DNN_CONVOLUTION_TYPE, RT_DNN_OF_TYPE, 1, 1},
    {RT_DNN_CONVOLUTION, RT_DNN_CONVOLUTION_MODE, RT_DNN_OF_CONVOLUTION_MODE, 1, 1},
    {RT_DNN_CONVOLUTION, RT_DNN_CONVOLUTION_DIMS, RT_DNN_OF_INT64, 1, 1},
    {RT_DNN_CONVOLUTION, RT_DNN_CONVOLUTION_STRIDES, RT_DNN_OF_INT64, 2, 2},
    {RT_DNN_CONVOLUTION, RT_DNN_CONVOLUTION_BEFORE, RT_DNN_OF_INT64, 2, 2},
    {RT_DNN_CONVOLUTION, RT_DNN_CONVOLUTION_AFTER, RT_DNN_OF_INT64, 2, 2},
    {RT_DNN_CONVOLUTION, RT_DNN_CONVOLUTION_DILATIONS, RT_DNN_OF_INT64, 2, 2},
    {RT_DNN_OPERATION_CONV, RT_DNN_OPERATION_CONV_DOES, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV, RT_DNN_OPERATION_CONV_X, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV, RT_DNN_OPERATION_CONV_W, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV, RT_DNN_OPERATION_CONV_Y, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV, RT_DNN_OPERATION_CONV_ALPHA, RT_DNN_OF_FLOAT, 1, 1},
    {RT_DNN_OPERATION_CONV, RT_DNN_OPERATION_CONV_BETA, RT_DNN_OF_FLOAT, 1, 1},
    {RT_DNN_OPERATION_CONV_DATA, RT_DNN_OPERATION_CONV_DATA_DOES, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV_DATA, RT_DNN_OPERATION_CONV_DATA_DX, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV_DATA, RT_DNN_OPERATION_CONV_DATA_W, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV_DATA, RT_DNN_OPERATION_CONV_DATA_DY, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV_DATA, RT_DNN_OPERATION_CONV_DATA_ALPHA, RT_DNN_OF_FLOAT, 1, 1},
    {RT_DNN_OPERATION_CONV_DATA, RT_DNN_OPERATION_CONV_DATA_BETA, RT_DNN_OF_FLOAT, 1, 1},
    {RT_DNN_OPERATION_CONV_FILTER, RT_DNN_OPERATION_CONV_FILTER_DOES, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV_FILTER, RT_DNN_OPERATION_CONV_FILTER_X, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV_FILTER, RT_DNN_OPERATION_CONV_FILTER_DW, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV_FILTER, RT_DNN_OPERATION_CONV_FILTER_DY, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_OPERATION_CONV_FILTER, RT_DNN_OPERATION_CONV_FILTER_ALPHA, RT_DNN_OF_FLOAT, 1, 1},
    {RT_DNN_OPERATION_CONV_FILTER, RT_DNN_OPERATION_CONV_FILTER_BETA, RT_DNN_OF_FLOAT, 1, 1},
    {RT_DNN_OPERATION_GRAPH, RT_DNN_GRAPH_HANDLE, RT_DNN_OF_HANDLE, 1, 1},
    {RT_DNN_OPERATION_GRAPH, RT_DNN_GRAPH_OPERATIONS, RT_DNN_OF_DESCRIPTOR, 1,
     DESCRIPTORS},
    {RT_DNN_HEURISTICS, RT_DNN_HEURISTICS_GRAPH, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_HEURISTICS, RT_DNN_HEURISTICS_MODE, RT_DNN_OF_HEURISTICS_MODE, 1,
     1},
    {RT_DNN_PLAN, RT_DNN_PLAN_HANDLE, RT_DNN_OF_HANDLE, 1, 1},
    {RT_DNN_PLAN, RT_DNN_PLAN_CONFIG, RT_DNN_OF_DESCRIPTOR, 1, 1},
    {RT_DNN_PACK, RT_DNN_PACK_NAMES, RT_DNN_OF_INT64, 1, GRAPH_NAMED},
    {RT_DNN_PACK, RT_DNN_PACK_POINTERS, RT_DNN_OF_POINTER, 1, GRAPH_NAMED},
    {RT_DNN_PACK, RT_DNN_PACK_WORKSPACE, RT_DNN_OF_POINTER, 1, 1},
};
enum { KNOWN = sizeof known / sizeof *known };

static size_t size_of(DnnValue type)
{
    switch (type) {
    case RT_DNN_OF_BOOL: return sizeof(bool);
    case RT_DNN_OF_INT64:
    case RT_DNN_OF_POINTER:
    case RT_DNN_OF_HANDLE:
    case RT_DNN_OF_DESCRIPTOR: return 8;
    default: return 4;
    }
}

const Attribute *dnn_find(const Descriptor *d, DnnAttribute name)
{
    for (int i = 0; i < d->nattributes; i++)
        if (d->attribute[i].name == name)
            return &d->attribute[i];
    return NULL;
}

bool dnn_is(const Descriptor *d)
{
    return d && d->magic == MAGIC;
}

DnnStatus cudnnBackendCreateDescriptor(DnnKind kind, DnnDescriptor *descriptor)
{
    Descriptor *d = calloc(1, sizeof *d);
    d->magic = MAGIC;
    d->kind = kind;
    *descriptor = d;
    return RT_DNN_SUCCESS;
}

DnnStatus cudnnBackendDestroyDescriptor(DnnDescriptor descriptor)
{
    Descriptor *d = descriptor;
    if (!dnn_is(d))
        return dnn_fails(BAD_PARAM, "no descriptor");
    d->magic = 0;
    if (d->kind == RT_DNN_OPERATION_GRAPH)
        free(d->graph);
    free(d);
    return RT_DNN_SUCCESS;
}

DnnStatus dnn_refuse(const Descriptor *d, DnnAttribute name,
                                  const char *why)
{
    standin_error("cuDNN: attribute %u of a descriptor of kind %u %s", name,
                  d->kind, why);
    return dnn_fails(BAD_PARAM, why);
}

static DnnStatus keep(Descriptor *d, DnnAttribute name, size_t size,
                      int64_t count, const void *value)
{
    size_t bytes = size * (size_t)count;
    size_t at = (d->used + 7) / 8 * 8;
    if (d->nattributes == ATTRIBUTES || at + bytes > VALUES)
        return dnn_refuse(d, name, "is one too many");
    d->attribute[d->nattributes++] = (Attribute){name, count, at};
    memcpy(d->value + at, value, bytes);
    d->used = at + bytes;
    return RT_DNN_SUCCESS;
}

DnnStatus cudnnBackendSetAttribute(DnnDescriptor descriptor,
                                   DnnAttribute attribute, DnnValue type,
                                   int64_t count, const void *value)
{
    Descriptor *d = descriptor;
    if (!dnn_is(d) || d->finalized)
        return dnn_fails(BAD_PARAM, "no descriptor that can still be changed");
    for (int i = 0; i < KNOWN; i++) {
        const struct Known *k = &known[i];
        if (k->kind != d->kind || k->name != attribute)
            continue;
        if (k->type != type || count < 1 || count > k->most)
            return dnn_refuse(d, attribute, "has another type or count");
        if (dnn_find(d, attribute))
            return dnn_refuse(d, attribute, "is set twice");
        return keep(d, attribute, size_of(type), count, value);
    }
    return dnn_refuse(d, attribute, "is not known here");
}

/* Value i of an attribute, which must be set. */
static const void *value_of(const Descriptor *d, DnnAttribute name, size_t size,
                            int64_t i)
{
    const Attribute *a = dnn_find(d, name);
    return a && i < a->count ? d->value + a->at + (size_t)i * size : NULL;
}

int64_t dnn_int64(const Descriptor *d, DnnAttribute name, int64_t i)
{
    int64_t x = 0;
    const void *v = value_of(d, name, sizeof x, i);
    if (v)
        memcpy(&x, v, sizeof x);
    return x;
}

int32_t dnn_mode(const Descriptor *d, DnnAttribute name)
{
    int32_t x = 0;
    const void *v = value_of(d, name, sizeof x, 0);
    if (v)
        memcpy(&x, v, sizeof x);
    return x;
}

bool dnn_bool(const Descriptor *d, DnnAttribute name)
{
    const bool *v = value_of(d, name, sizeof *v, 0);
    return v && *v;
}

Descriptor *dnn_descriptor(const Descriptor *d, DnnAttribute name,
                                 int64_t i)
{
    Descriptor *x = NULL;
    const void *v = value_of(d, name, sizeof(void *), i);
    if (v)
        memcpy(&x, v, sizeof x);
    return dnn_is(x) && x->finalized ? x : NULL;
}

DnnStatus cudnnBackendFinalize(DnnDescriptor descriptor)
{
    Descriptor *d = descriptor;
    if (!dnn_is(d) || d->finalized)
        return dnn_fails(BAD_PARAM, "no descriptor to finalize");
    for (int i = 0; i < KNOWN; i++) {
        const Attribute *a = dnn_find(d, known[i].name);
        if (known[i].kind == d->kind && (a ? a->count : 0) < known[i].least)
            return dnn_refuse(d, known[i].name, "is missing");
    }
    DnnStatus s = d->kind == RT_DNN_OPERATION_GRAPH ? dnn_finalize_graph(d)
                  : d->kind == RT_DNN_PLAN          ? dnn_finalize_plan(d)
                                                    : RT_DNN_SUCCESS;
    d->finalized = s == RT_DNN_SUCCESS;
    return s;
}

/* A missing call is an error of the linker. */
#define CALL(result, name, suffix, arguments) (void (*)(void)) name,
extern void (*const standin_cudnn_calls[])(void);
void (*const standin_cudnn_calls[])(void) = {
#include "cuda/api/calls_cudnn.h"
};
