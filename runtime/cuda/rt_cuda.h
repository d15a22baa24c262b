/* rt_cuda.h: what the files of the CUDA runtime share.
 *
 * A rank has one device, of it the primary context, one arena, a stream for
 * each of PARC_COMPUTE, PARC_TENSOR, PARC_DATA and PARC_HOST, and pinned memory
 * of the host's for what the plan keeps there. What train.c calls is queued on
 * these; the host waits only where it reads a result.
 */
#ifndef PARC_RT_CUDA_H
#define PARC_RT_CUDA_H

#include "api.h"
#include "rt.h"
#include "rt_device.h"

/* How a step runs. */
typedef struct CudaMode {
    bool eager;     /* no graph: PARC_GRAPH=0, and what follows */
    bool sync;      /* PARC_SYNC=1: waits after each call, names what failed */
    bool tf32;      /* PARC_TF32=1: products of f32 may round operands */
} CudaMode;

/* What products round their operands to, at the least. */
typedef enum CudaPrecision {
    CUDA_SINGLE, CUDA_TF32, CUDA_HALF,
} CudaPrecision;

/* Pinned memory through which all copies go, in two halves: one is filled
 * while the device reads the other. */
enum { RT_STAGES = 2 };
typedef struct CudaStage {
    char *half[RT_STAGES];
    size_t room, used; /* bytes of a half; of the half at hand */
    CuEvent read[RT_STAGES]; /* the device has read it */
    bool busy[RT_STAGES];    /* until `read` */
    int at;
} CudaStage;

/* Where scalars of a step come to. */
typedef struct CudaResults {
    float *value; /* pinned, RT_RESULTS */
    int64_t offset[RT_RESULTS];
    int n;
    CuEvent there;
} CudaResults;

/* Bytes that a step writes from the host, the same in each: a copy in a graph
 * reads them whenever it runs. */
typedef struct CudaConstant {
    struct CudaConstant *next;
    const void *to;
    size_t bytes;
    void *host;
} CudaConstant;

/* A function of the module, by the model's number. */
typedef struct CudaKernel {
    CuFunction function;
    int64_t own_shared;   /* static shared memory, bytes */
    int64_t shared_bytes; /* dynamic, that it may have so far */
} CudaKernel;

/* What begins where a traced step has this event. */
typedef struct CudaMark {
    CuEvent event;
    int32_t what; /* as in RtMark */
    int64_t turn;
} CudaMark;
typedef struct CudaTrace {
    CudaMark *mark;
    int n, room;
    int64_t begin_ns; /* of the first, by the host's clock */
} CudaTrace;

typedef struct RtDevice {
    CudaDriver cu;
    CudaBlas blas;
    void *driver_library, *blas_library;
    CudaMode mode;

    CuDevice device;
    int ordinal;
    char name[128]; /* "NVIDIA H200" */
    int numa_node; /* the host memory next to it; -1: any */
    int major, minor, sms;
    int64_t shared_most; /* shared memory of a block, bytes */
    CuContext context;
    size_t free_before; /* bytes of the device, before we took any */
    size_t nccl_bytes;  /* that NCCL took since */

    CuAddress arena;
    char *host; /* the model's host_bytes, pinned; NULL: none */
    CuStream stream[PARC_STREAMS];
    CuEvent *event; /* the model's, by number */
    int64_t *recorded; /* by event: the queued step that did so last; 0: none */
    int64_t queued; /* steps, captured or eager */
    CuEvent fork, join[PARC_STREAMS];
    CuModule module;
    CudaKernel *kernel;
    CudaStage stage;
    CudaResults results;
    CudaConstant *constants;
    CuGraphExec step; /* the graph, ready to run; NULL: not captured yet */

    struct CudaComms *comms; /* NULL: no collective needs another rank */

    BlasHandle blas_handle; /* NULL: no product yet */
    CudaPrecision precision; /* of most of the step's products */
    ParcMatmul *matmuls;
    bool is_warm; /* it has worked for long enough to measure (rt_cuda_choose.c) */
    struct CudaCache *cache; /* of matmul choices; rank 0 */

    struct Cudnn *cudnn; /* NULL: no attention that it could run */

    CudaTrace trace;
    int32_t work; /* what parc_mark said last; -1: none in this step */
    int64_t turn;
} RtDevice;

/* The device's address in emitted code's terms, and back. */
static inline CuAddress rt_cuda_address(const void *p)
{
    return (CuAddress)(uintptr_t)p;
}

/* ---- errors (rt_cuda_error.c) ---- */

/* Calls the driver, a function of its table, and ends the run with a message
 * that names call, rank and the statement of the step where it fails. */
#define CU(rt, call) rt_cuda_check((rt), (rt)->device->cu.call, #call)
#define BLAS(rt, call) rt_blas_check((rt), (rt)->device->blas.call, #call)
void rt_cuda_check(ParcRt *rt, CuResult result, const char *call);
void rt_blas_check(ParcRt *rt, BlasStatus status, const char *call);
/* rt_work_where of what parc_mark said last; empty outside of a step. */
const char *rt_cuda_where(const ParcRt *rt, char text[RT_WHERE]);
/* "out of memory (CUDA_ERROR_OUT_OF_MEMORY)" */
const char *rt_cuda_reason(const RtDevice *d, CuResult result,
                           char text[RT_WHERE]);

/* ---- waiting (rt_cuda_wait.c) ---- */

/* Until all that was queued on `stream` has run; ends the run after the time
 * limit. `what`: for messages, "step 3". */
void rt_cuda_wait_stream(ParcRt *rt, int stream, const char *what);
void rt_cuda_wait_event(ParcRt *rt, CuEvent event, const char *what);
/* After something was queued on `stream`: under PARC_SYNC waits for it and
 * names it where it fails. `what`: "k07_norm", "ag3". */
void rt_cuda_queued(ParcRt *rt, int stream, const char *what);

/* ---- where the device is (rt_cuda_progress.c, rt_cuda_stuck.c) ---- */

/* A step begins, on the compute stream: none of its collectives is begun. */
void rt_cuda_progress_step(ParcRt *rt);
/* Before `stream` waits, or another waits for all of it. */
void rt_cuda_progress_settle(ParcRt *rt, int stream);
/* While the host waits: its slot says what the device has said. forget: what
 * that said of the step before. */
void rt_cuda_progress_publish(ParcRt *rt);
void rt_cuda_progress_forget(ParcRt *rt);
/* Ends the run: the device is in collectives, or others wait for it in one.
 * `what`: as in rt_cuda_wait_stream. */
_Noreturn void rt_cuda_stuck(ParcRt *rt, const char *what);

/* ---- modules (rt_cuda_module.c) ---- */

/* Loads the best image for the device and looks its kernels up. */
void rt_cuda_module_open(ParcRt *rt);
/* The number of a kernel by its symbol, for parc_launch. */
int rt_cuda_kernel(ParcRt *rt, const char *symbol);
/* The image that a device of this compute capability runs best; -1: none. */
int rt_cuda_best_image(const ParcImage *image, int n, int major, int minor);

/* ---- copies (rt_cuda_copy.c) ---- */

void rt_cuda_stage_open(ParcRt *rt);
void rt_cuda_stage_close(ParcRt *rt);

/* ---- memory of the host's (rt_cuda_host.c) ---- */

/* Takes the model's host_bytes, all zeros; counts them. */
void rt_cuda_host_open(ParcRt *rt);
void rt_cuda_host_close(ParcRt *rt);
/* The mirror's bytes from `offset` on, which lie behind the arena, go there or
 * come from there, when all that was queued before has run. */
void rt_cuda_host_copy(ParcRt *rt, int64_t offset, int64_t bytes, bool upload);

/* ---- the device's NUMA node (rt_cuda_numa.c) ---- */

/* Memory that this process touches first is placed on the node that the device
 * is attached to, as long as that has any; a machine with one node, or one that
 * does not tell, stays as it is. */
void rt_cuda_numa_open(ParcRt *rt);

/* ---- steps (rt_cuda_step.c) ---- */

void rt_cuda_step_close(ParcRt *rt);

/* ---- traced steps (rt_cuda_trace.c) ---- */

/* Around a step that rt->ring is there for; between them an event in front of
 * each statement, on the compute stream. */
void rt_cuda_trace_begin(ParcRt *rt);
void rt_cuda_trace_mark(ParcRt *rt, int32_t what, int64_t turn);
void rt_cuda_trace_end(ParcRt *rt);
void rt_cuda_trace_close(ParcRt *rt);

/* ---- products (rt_cuda_matmul.c, …) ---- */

/* All are made: keeps what was measured for the next run. */
void rt_cuda_matmul_ready(ParcRt *rt);
void rt_cuda_matmul_close(ParcRt *rt);

/* ---- rates (rt_cuda_rates.c) ---- */

/* Dense flops a second of one device; 0: unknown. */
double rt_cuda_peak_flops(const char *device, int major, int minor,
                          CudaPrecision precision);

#endif
