/* rt_cudnn.h: declares the state of attention calls that cuDNN may run.
 *
 * rt_cudnn.c opens the library and runs the plans. rt_cudnn_choose.c decides
 * for all ranks whether cuDNN or parc's own kernels run a call.
 * rt_attention.c implements the calls of train.c.
 */
#ifndef PARC_RT_CUDNN_H
#define PARC_RT_CUDNN_H

#include "cuda/attention/rt_cudnn_attention.h"
#include "cuda/core/rt_cuda.h"
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

typedef struct Cudnn {
    CudaDnn call;
    void *library;   /* NULL: not available */
    DnnHandle handle;
    DnnContext context;
    size_t version;  /* 91900: 9.19.0 */
    bool always;     /* PARC_CUDNN=1: use cuDNN wherever it can run, without
                        measurement */
    char reason[512]; /* why it is not available */
    CudnnUse *first, **last;
} Cudnn;

/* The use for calls of this shape; NULL: none. */
CudnnUse *rt_cudnn_find(ParcRt *rt, const ParcAttention *a, bool backward);
/* Adds a use, with a plan or a reason why there is none. The first call opens
 * the library. */
CudnnUse *rt_cudnn_use(ParcRt *rt, const ParcAttention *a, bool backward,
                       int64_t scratch_bytes);
/* Whether the use has a plan and the tensors fit it: each piece of each tensor
 * begins at a multiple of 16 bytes. */
bool rt_cudnn_takes(const CudnnUse *u, const DnnCall *c);
/* Enqueues the plan for each piece; ends the run if the library fails. */
void rt_cudnn_call(ParcRt *rt, const CudnnUse *u, const DnnCall *c);
/* Runs a call of this shape with parc's own kernels (rt_attention_own.c). */
void rt_attention_own(ParcRt *rt, const ParcAttention *a, bool backward,
                      const DnnCall *c);
/* Keeps or frees u->plan, according to rank 0's measurement, on all ranks. */
void rt_cudnn_choose(ParcRt *rt, CudnnUse *u);

/* "forward of [4, 2048, 32, 64]: cuDNN 91900, engine 2", cut off at the end. */
enum { CUDNN_TEXT = DNN_REASON + 128 };
void rt_cudnn_text(const Cudnn *x, const CudnnUse *u, char text[CUDNN_TEXT]);
/* Prints a line per use for --dry-run. */
void rt_cudnn_print(const ParcRt *rt);
void rt_cudnn_close(ParcRt *rt);

#endif
