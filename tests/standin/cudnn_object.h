/* cudnn_object.h: declares the descriptors of the stand-in cuDNN. */
#ifndef STANDIN_CUDNN_OBJECT_H
#define STANDIN_CUDNN_OBJECT_H

#include "cuda/api/api_cudnn.h"
#include "cudnn_graph.h"

#define CALL(result, name, suffix, arguments)                                  \
    result name arguments __asm__(#name #suffix);
#include "cuda/api/calls_cudnn.h"
#undef CALL

enum {
    BAD_PARAM = 2000, NOT_FINALIZED = 2004, NOT_SUPPORTED = 3000,
    EXECUTION_FAILED = 5000,
    MAGIC = 0x43554e4e,
    VALUES = 4096, /* bytes of all values of a descriptor */
    ATTRIBUTES = 12,
};

struct DnnHandleObject {
    int magic;
    CuStream stream;
};

typedef struct Attribute {
    DnnAttribute name;
    int64_t count;
    size_t at;
} Attribute;

typedef struct Descriptor {
    int magic;
    DnnKind kind;
    bool finalized;
    Attribute attribute[ATTRIBUTES];
    int nattributes;
    size_t used;
    unsigned char value[VALUES];
    HostGraph *graph;  /* operation graph, config, plan: the graph */
    int engine;        /* engine, config, plan: the engine's number */
    int64_t workspace; /* plan: bytes of workspace */
} Descriptor;

/* Whether STANDIN_CUDNN is `what`. */
bool dnn_asked_to(const char *what);
/* Stores `why` for cudnnGetLastErrorString; returns the status. */
DnnStatus dnn_fails(DnnStatus status, const char *why);
/* Fails like dnn_fails because of an attribute, which the message names. */
DnnStatus dnn_refuse(const Descriptor *d, DnnAttribute name, const char *why);

bool dnn_is(const Descriptor *d);
/* An attribute; NULL: not set. The functions below return value i of one (a
 * number, a mode, a finalized descriptor), or 0 if it is not set. */
const Attribute *dnn_find(const Descriptor *d, DnnAttribute name);
int64_t dnn_int64(const Descriptor *d, DnnAttribute name, int64_t i);
int32_t dnn_mode(const Descriptor *d, DnnAttribute name);
bool dnn_bool(const Descriptor *d, DnnAttribute name);
Descriptor *dnn_descriptor(const Descriptor *d, DnnAttribute name, int64_t i);
/* Builds an operation graph's tensors and nodes from its descriptors
 * (cudnn_plan.c). */
DnnStatus dnn_finalize_graph(Descriptor *d);
DnnStatus dnn_finalize_plan(Descriptor *d);

#endif
