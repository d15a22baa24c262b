/* rt_cudnn.h: calls of attention that cuDNN may run, from init to the end.
 *
 * rt_cudnn.c has the library and runs the plans, rt_cudnn_choose.c decides, once
 * for all ranks, what runs on them and what on our own kernels;
 * rt_attention_calls.c is where train.c comes in.
 */
#ifndef PARC_RT_CUDNN_H
#define PARC_RT_CUDNN_H

#include "rt_cuda.h"
#include "rt_cudnn_attention.h"

/* The tensors of a call, by DNN_Q …; those it does not have are NULL. */
typedef struct DnnCall {
    void *at[DNN_NAMED];
    char *scratch; /* as planned; delta first */
} DnnCall;

/* A shape of calls, and how they run. */
typedef struct CudnnUse {
    struct CudnnUse *next;
    ParcAttention shape;
    bool backward;
    int64_t scratch_bytes;
    DnnPlan *plan; /* of a piece; NULL: our own kernels */
    int64_t piece_b, piece_kv;
    char reason[DNN_REASON]; /* why no plan */
} CudnnUse;

typedef struct Cudnn {
    CudaDnn call;
    void *library;   /* NULL: there is none */
    DnnHandle handle;
    DnnContext context;
    size_t version;  /* 91900: 9.19.0 */
    bool always;     /* PARC_CUDNN=1: wherever it can, measured or not */
    char reason[512]; /* why there is none */
    CudnnUse *first, **last;
} Cudnn;

/* The use of calls that have this shape; NULL: there is none. */
CudnnUse *rt_cudnn_find(ParcRt *rt, const ParcAttention *a, bool backward);
/* A new one, with a plan or a reason why there is none; the first opens the
 * library. */
CudnnUse *rt_cudnn_use(ParcRt *rt, const ParcAttention *a, bool backward,
                       int64_t scratch_bytes);
/* Whether it has a plan, and tensors that lie as it was made for: each piece of
 * each begins at a multiple of 16 bytes. */
bool rt_cudnn_takes(const CudnnUse *u, const DnnCall *c);
/* Queues the plan, piece by piece; ends the run where the library refuses. */
void rt_cudnn_call(ParcRt *rt, const CudnnUse *u, const DnnCall *c);
/* The same call by our own kernels (rt_attention_calls.c). */
void rt_cudnn_own(ParcRt *rt, const CudnnUse *u, const DnnCall *c);
/* Keeps u->plan, or frees it: what rank 0 measures, for all ranks. */
void rt_cudnn_choose(ParcRt *rt, CudnnUse *u);

/* A line for --dry-run: what attention runs on. */
void rt_cudnn_print(const ParcRt *rt);
void rt_cudnn_close(ParcRt *rt);

#endif
