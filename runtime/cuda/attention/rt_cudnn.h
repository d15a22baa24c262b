/* rt_cudnn.h: declares the state of attention calls that cuDNN may run. */
#ifndef PARC_RT_CUDNN_H
#define PARC_RT_CUDNN_H

#include "cuda/attention/rt_cudnn_attention.h"
#include "cuda/core/rt_cuda.h"
#include "cuda/dnn/rt_cudnn_library.h"
#include "rt.h"

/* The tensors of a call, by DNN_Q …; NULL: the call has no such tensor. */
typedef struct DnnCall {
    void *at[DNN_NAMED];
    char *scratch; /* planned workspace; delta is first */
} DnnCall;

/* A shape of calls and its implementation. */
typedef struct CudnnUse {
    struct CudnnUse *next;
    ParcAttention shape;
    bool backward;
    int64_t scratch_bytes;
    DnnPlan *plan; /* cuDNN's plan of a piece; NULL: parc's kernels */
    int64_t piece_b, piece_kv;
    char reason[DNN_REASON]; /* why there is no plan */
} CudnnUse;

/* The use for calls of this shape; NULL: none. */
CudnnUse *rt_cudnn_find(ParcRt *rt, const ParcAttention *a, bool backward);
/* Adds a use, with a plan or a reason why there is none. The first call opens
 * the library. */
CudnnUse *rt_cudnn_use(ParcRt *rt, const ParcAttention *a, bool backward,
                       int64_t scratch_bytes);
/* Offset in bytes of a piece in a tensor; b and kv: the sequences and KV heads
 * before it. */
int64_t rt_cudnn_offset(const ParcAttention *a, int tensor, int64_t b,
                        int64_t kv);
/* Whether the use has a plan and the tensors fit it: each piece of each tensor
 * begins at a multiple of 16 bytes. */
bool rt_cudnn_takes(const CudnnUse *u, const DnnCall *c);
/* Enqueues the plan for each piece; ends the run if the library fails. */
void rt_cudnn_call(ParcRt *rt, const CudnnUse *u, const DnnCall *c);
/* Runs a call of this shape with parc's own kernels (rt_attention_own.c). */
void rt_attention_own(ParcRt *rt, const ParcAttention *a, bool backward,
                      const DnnCall *c);
/* A step of a ring; before, lse_before: o_before and lse_before, or dq_before. */
void rt_attention_own_step(ParcRt *rt, const ParcAttention *a, bool backward,
                           const DnnCall *c, const float *before, const float *lse_before);
/* The gradient of the bias, which has the dims s and t. */
void rt_attention_own_bias(ParcRt *rt, const ParcAttention *a, float *dbias,
                           const DnnCall *c);

/* "forward of [4, 2048, 32, 64]: cuDNN 91900, engine 2", cut off at the end. */
enum { CUDNN_TEXT = DNN_REASON + 128 };
void rt_cudnn_text(const Cudnn *x, const CudnnUse *u, char text[CUDNN_TEXT]);
/* Prints a line per use for --dry-run. */
void rt_cudnn_print(const ParcRt *rt);
void rt_cudnn_attention_close(ParcRt *rt);

#endif
