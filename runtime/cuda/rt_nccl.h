/* rt_nccl.h: communicators, as the files that use NCCL see them. */
#ifndef PARC_RT_NCCL_H
#define PARC_RT_NCCL_H

#include "rt_cuda.h"

/* A collective of a step: what train.c was at when it was queued. */
typedef struct CudaPlace {
    int32_t id, work; /* work: -1, where there was no parc_mark */
    int64_t turn;
} CudaPlace;

/* rt_cuda_progress.c; each by stream. */
typedef struct CudaProgress {
    _Atomic uint32_t *word; /* pinned: the device writes them */
    CudaPlace *place[PARC_STREAMS];
    uint32_t n[PARC_STREAMS];     /* queued in this step so far */
    uint32_t known[PARC_STREAMS]; /* of place[], from any step */
    uint32_t room[PARC_STREAMS];
    bool owed[PARC_STREAMS]; /* that the last one has ended is yet to be said */
} CudaProgress;

typedef struct CudaComms {
    CudaNccl call;
    void *library;
    NcclComm comm[RT_GROUPS]; /* by mask of axes; NULL: not used */
    NcclComm world;           /* of which they are parts; may be one of them */
    CudaProgress progress;
    CudaNcclWindow window_call;
    NcclWindow window[RT_GROUPS]; /* of the arena; NULL: none */
    int nwindows;
    bool owns_arena; /* it comes from ncclMemAlloc */
} CudaComms;

/* Calls NCCL; ends the run with a message where it fails. */
#define NCCL(rt, id, call_) \
    rt_nccl_check((rt), (id), (rt)->device->comms->call.call_, #call_)
void rt_nccl_check(ParcRt *rt, int id, NcclResult result, const char *call);

/* The communicators of the sets of axes that the model's collectives run over.
 * All ranks call it; a run of one rank needs no library. */
void rt_nccl_open(ParcRt *rt);
void rt_nccl_close(ParcRt *rt);
/* While the host waits: ends the run where a communicator has failed. */
void rt_nccl_watch(ParcRt *rt);
/* ---- rt_nccl_window.c ---- */

/* Memory of NCCL's, on all ranks; false: it has none, on any. */
bool rt_nccl_alloc(ParcRt *rt, CuAddress *to, size_t bytes);
/* Frees it; false: it was not NCCL's. */
bool rt_nccl_free(ParcRt *rt, CuAddress arena);
/* The arena becomes a window of each communicator, if it is NCCL's. */
void rt_nccl_register(ParcRt *rt);
void rt_nccl_unregister(ParcRt *rt);

/* ---- rt_cuda_progress.c ---- */

void rt_cuda_progress_open(ParcRt *rt);
void rt_cuda_progress_close(ParcRt *rt);
/* Around a collective on its stream. */
void rt_cuda_progress_begin(ParcRt *rt, int stream, int id);
void rt_cuda_progress_end(ParcRt *rt, int stream);
/* The collective that a stream's word names; NULL: none. */
const CudaPlace *rt_cuda_progress_place(const ParcRt *rt, int stream,
                                        uint32_t word);


#endif
