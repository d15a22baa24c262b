/* rt_cudnn_library.h: declares the state of cuDNN in a run. */
#ifndef PARC_RT_CUDNN_LIBRARY_H
#define PARC_RT_CUDNN_LIBRARY_H

#include "cuda/core/rt_cuda.h"
#include "cuda/dnn/rt_cudnn_graph.h"
#include "rt.h"

typedef struct Cudnn {
    CudaDnn call;
    DnnHandle handle; /* NULL: not available */
    DnnContext context;
    size_t version;  /* 91900: 9.19.0 */
    bool always;     /* PARC_CUDNN=1: use cuDNN wherever it can run, without
                        measurement */
    char reason[512]; /* why it is not available */
    struct CudnnUse *first, **last; /* of attention */
} Cudnn;

/* The state of the library, which the first call opens. */
Cudnn *rt_cudnn_open(ParcRt *rt);
/* Frees it. Plans are freed before. */
void rt_cudnn_close(ParcRt *rt);

/* Lets all ranks do as rank 0, because values that must be equal on several ranks need equal
 * kernels: *plan is freed, and NULL, where rank 0 has none; then `reason` says so. Ends the run if
 * rank 0 has a plan that this rank cannot have; `what` is then named. All ranks call it in the
 * same order. */
void rt_cudnn_agree(ParcRt *rt, const char *what, DnnPlan **plan, char reason[DNN_REASON]);

/* Whether cuDNN can read or write all n tensors: they begin at multiples of 16 bytes. */
bool rt_cudnn_aligned(const void *const *at, int n);

/* Runs a plan; ends the run if the library fails in `what`, "attention". */
void rt_cudnn_must_run(ParcRt *rt, const char *what, DnnPlan *plan, void *const at[DNN_TENSORS],
                       void *workspace);

#endif
