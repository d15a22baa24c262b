/* rt_nccl.h: declares what the files that use NCCL share: communicators, the
 * arena as a window, and the progress of collectives
 * (rt_cuda_progress.c). */
#ifndef PARC_RT_NCCL_H
#define PARC_RT_NCCL_H

#include "cuda/core/rt_cuda.h"
#include "rt.h"

/* A collective of a step, and the statement in which train.c enqueued it. */
typedef struct CudaPosition {
    int32_t id, work; /* work: -1 without a parc_mark */
    int32_t peer;     /* of a transfer: the other rank, +1; else 0 */
    int64_t iteration;
} CudaPosition;

/* The progress of collectives (rt_cuda_progress.c), by stream. */
typedef struct CudaProgress {
    _Atomic uint32_t *word; /* pinned: the device writes them */
    CuAddress relay; /* device memory from which words are copied; 0: memsets
                        write the words */
    CudaPosition *position[PARC_STREAMS];
    uint32_t n[PARC_STREAMS];     /* the number of the next collective */
    uint32_t first[CUDA_PROGRAMS][PARC_STREAMS]; /* number of each program's
                                                    first collective */
    int64_t placed[CUDA_PROGRAMS]; /* the most rounds of experts for which `first` holds; 0: it
                                    is not known */
    uint32_t known[PARC_STREAMS]; /* valid entries of position[], of any step */
    int64_t capacity[PARC_STREAMS];
    bool owed[PARC_STREAMS]; /* the end of the last collective has not been
                                written */
} CudaProgress;

/* The communicator of a set of axes on a stream. Collectives of one communicator run one
 * after another, so those of two streams need two. */
typedef struct CudaComm {
    uint32_t axes;
    int stream;
    NcclComm comm;
    NcclWindow window; /* of the arena; NULL: none */
} CudaComm;

typedef struct CudaComms {
    CudaNccl call;
    CudaComm *at;
    int n;
    NcclComm world; /* parent of the others; may be one of them */
    CudaProgress progress;
    int version;
    int nwindows;
    bool owns_arena; /* ncclMemAlloc has allocated it */
} CudaComms;

/* The stream on which a collective runs. */
static inline int rt_nccl_stream(const ParcRt *rt, int id)
{
    const int8_t *streams = rt->model->collective_stream;
    return streams ? streams[id] : PARC_COMPUTE;
}
/* The communicator of the axes on a stream; NULL: the group has one rank. */
NcclComm rt_nccl_comm(const ParcRt *rt, uint32_t axes, int stream);

/* Calls NCCL; ends the run with a message on failure. */
#define NCCL(rt, id, call_) \
    rt_nccl_check((rt), (id), (rt)->device->comms->call.call_, #call_)
void rt_nccl_check(ParcRt *rt, int id, NcclResult result, const char *call);

/* Creates the communicators of all sets of axes that the model's collectives
 * use, by stream. All ranks call it; a run of one rank needs no library. */
void rt_nccl_open(ParcRt *rt);
void rt_nccl_close(ParcRt *rt);
/* Called while the host waits: ends the run if a communicator has failed. */
void rt_nccl_watch(ParcRt *rt);

/* Allocates NCCL memory on all ranks; false: NCCL provides none, on any
 * rank. */
bool rt_nccl_alloc(ParcRt *rt, CuAddress *to, size_t bytes);
/* Frees it; false: NCCL has not allocated it. */
bool rt_nccl_free(ParcRt *rt, CuAddress arena);
/* Registers the arena as a window of each communicator, if NCCL has allocated
 * it. */
void rt_nccl_register(ParcRt *rt);
void rt_nccl_unregister(ParcRt *rt);

/* ---- rt_cuda_progress.c ---- */

/* `relayed`: words pass through device memory. */
void rt_cuda_progress_open(ParcRt *rt, bool relayed);
void rt_cuda_progress_close(ParcRt *rt);
/* Called before and after a collective on its stream. */
void rt_cuda_progress_begin(ParcRt *rt, int stream, int id);
void rt_cuda_progress_end(ParcRt *rt, int stream);
/* After the begin of a transfer: the rank that it is with. */
void rt_cuda_progress_peer(ParcRt *rt, int stream, int rank);
/* The collective that a stream's word denotes; NULL: none. */
const CudaPosition *rt_cuda_progress_position(const ParcRt *rt, int stream,
                                              uint32_t word);

#endif
