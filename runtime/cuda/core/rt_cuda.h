/* rt_cuda.h: declares the types and functions that the files of the CUDA
 * runtime share.
 *
 * A rank has one device with its primary context, one arena, four streams
 * (PARC_COMPUTE, PARC_TENSOR, PARC_DATA, PARC_HOST), and pinned host memory
 * for tensors that the plan keeps there. Calls of train.c are enqueued on the
 * streams; the host waits only when it reads a result.
 */
#ifndef PARC_RT_CUDA_H
#define PARC_RT_CUDA_H

#include <stdio.h>

#include "common/message.h"
#include "cuda/api/api.h"
#include "cuda/core/rt_block_memory.h"
#include "device.h"
#include "rt.h"

/* How a step is executed. */
typedef struct CudaMode {
    bool eager;     /* no graph: PARC_GRAPH=0, or one of the modes below */
    bool sync;      /* PARC_SYNC=1: wait after each call, so an error names its
                       statement */
    bool tf32;      /* PARC_TF32=1: products of f32 may round operands */
} CudaMode;

/* The precision whose peak rate the log's mfu uses: CUDA_HALF if a product has
 * 16-bit operands, else CUDA_TF32 with PARC_TF32=1, else CUDA_SINGLE. */
typedef enum CudaPrecision {
    CUDA_SINGLE, CUDA_TF32, CUDA_HALF,
} CudaPrecision;

/* The programs that the device executes. */
typedef enum CudaProgram {
    CUDA_STEP, CUDA_EVAL, CUDA_OUTPUTS, CUDA_ROUNDS, CUDA_PROGRAMS,
} CudaProgram;

/* Pinned staging memory for all copies, in two halves: the host fills one
 * while the device reads the other. */
enum { RT_STAGES = 2 };
typedef struct CudaStage {
    char *half[RT_STAGES];
    size_t capacity,
        used; /* bytes of a half; bytes in use of the current half */
    CuEvent read[RT_STAGES]; /* recorded after the device's read */
    bool busy[RT_STAGES];    /* `read` has not been waited for */
    int at;
} CudaStage;

/* The buffer for scalar results of a step. */
typedef struct CudaResults {
    float *value; /* pinned, RT_RESULTS */
    int64_t offset[RT_RESULTS];
    int n;
    CuEvent there;
} CudaResults;

/* Bytes that every step copies from the host. They must stay unchanged,
 * because a copy in a graph reads them in each replay. */
typedef struct CudaConstant {
    struct CudaConstant *next;
    const void *to;
    size_t bytes;
    void *host;
} CudaConstant;

/* A kernel of the module, by its number in the model. */
typedef struct CudaKernel {
    CuFunction function;
    int64_t own_shared;   /* bytes of static shared memory */
    int64_t shared_bytes; /* bytes of dynamic shared memory that it may use so
                             far */
} CudaKernel;

/* An event of a traced step, and the statement or mark that begins there. */
typedef struct CudaMark {
    CuEvent event;
    int32_t what; /* statement or event, as RtMark.what */
    int64_t iteration;
} CudaMark;
typedef struct CudaTrace {
    CudaMark *mark;
    int64_t n, capacity;
    int64_t begin_ns; /* time of the first event on the host's clock */
} CudaTrace;

typedef struct RtDevice {
    CudaDriver cu;
    CudaBlas blas;
    CudaMode mode;

    CuDevice device;
    int ordinal;
    char name[128]; /* "NVIDIA H200" */
    int numa_node; /* the host memory node nearest to the device; -1: any */
    int driver; /* the newest CUDA that the driver supports: 12080 is 12.8 */
    int major, minor, sms;
    int64_t shared_most; /* maximum shared memory of a block, bytes */
    CuContext context;
    size_t free_before; /* free bytes of the device before the program
                           allocated any */
    size_t nccl_bytes;  /* bytes that NCCL has allocated */

    CuAddress arena;
    CuAddress spare; /* the longest part of the arena that the rank has: before the
                      * first step it is free for measurements */
    int64_t spare_bytes;
    char *host; /* the model's host_bytes, pinned; NULL: none */
    CuStream stream[PARC_STREAMS];
    CuEvent *event; /* the model's events, by number */
    int64_t *recorded; /* for each event: the step (`queued`) that last
                          recorded it; 0: none */
    int64_t queued; /* number of enqueued steps, captured or eager */
    CuEvent fork, join[PARC_STREAMS];
    CuEvent timer[2]; /* for measurements */
    CuModule *module; /* the images that are loaded */
    int nmodules;
    CudaKernel *kernel;
    CudaStage stage;
    CudaResults results;
    CudaConstant *constants;
    CuGraphExec graph[CUDA_PROGRAMS]; /* NULL: not captured yet */
    bool ran[CUDA_PROGRAMS]; /* has been enqueued once */

    struct CudaComms *comms; /* NULL: no collective has more than one rank */
    bool refuses_pitch; /* the driver has refused a copy of rows */

    BlasHandle blas_handle; /* NULL: no product has been created */
    CudaPrecision precision; /* for the log's mfu */
    ParcMatmul *matmuls;
    bool is_warm; /* the device has been busy for long enough to measure
                     (rt_cuda_choose.c) */
    struct CudaCache *cache; /* cache of kernel choices; rank 0 only */

    struct Cudnn *cudnn; /* NULL: no call that cuDNN supports */

    CudaTrace trace;
    int32_t work; /* the latest parc_mark; -1: none in this step */
    int64_t iteration;
} RtDevice;

/* Converts a pointer of emitted code to a device address. */
static inline CuAddress rt_cuda_address(const void *p)
{
    return (CuAddress)(uintptr_t)p;
}

/* ---- errors (rt_cuda_error.c) ---- */

/* Calls a function of the driver. On failure ends the run with a message that
 * names the call, the rank and the statement of the step. */
#define CU(rt, call) rt_cuda_check((rt), (rt)->device->cu.call, #call)
#define BLAS(rt, call) rt_blas_check((rt), (rt)->device->blas.call, #call)
void rt_cuda_check(ParcRt *rt, CuResult result, const char *call);
void rt_blas_check(ParcRt *rt, BlasStatus status, const char *call);
/* rt_work_where of the latest parc_mark; "" outside a step. */
const char *rt_cuda_where(const ParcRt *rt, char text[RT_WHERE]);
/* "out of memory (CUDA_ERROR_OUT_OF_MEMORY)" */
const char *rt_cuda_reason(const RtDevice *d, CuResult result,
                           char text[RT_WHERE]);

/* rt_cuda_load; ends the run with its message on failure. */
void rt_cuda_require(ParcRt *rt, const CudaLibrary *library, void *table);

/* ---- waiting (rt_cuda_wait.c) ---- */

/* Waits until all work that was enqueued on `stream` (or before `event`) has
 * run; ends the run after the time limit. `what`: the work, for messages:
 * "step 3". */
void rt_cuda_wait_stream(ParcRt *rt, int stream, const char *what);
void rt_cuda_wait_event(ParcRt *rt, CuEvent event, const char *what);
/* Called after work was enqueued on `stream`: with PARC_SYNC, waits for it and
 * reports an error of it. `what`: "k07_norm", "ag3". */
void rt_cuda_queued(ParcRt *rt, int stream, const char *what);

/* ---- measurements (rt_cuda_measure.c) ---- */

/* Candidates that do the same work, of which the fastest is chosen. */
enum { CUDA_CANDIDATES = 8 };
typedef struct CudaTrial {
    const char *what; /* the work, for messages */
    int n;            /* number of candidates */
    int64_t bytes;    /* operands, at the start of the arena: random numbers */
    ParcType type;    /* of a float type, between -1 and 1 */
    /* Enqueues candidate i on the compute stream; false if it cannot run. */
    bool (*run)(ParcRt *rt, const void *work, int i);
    const void *work;
} CudaTrial;
/* Milliseconds of a candidate: of its first run, and the least of the mean
 * times of several runs; -1 if it cannot run. */
typedef struct CudaTime {
    float cold, least;
    int runs; /* runs in a round */
} CudaTime;
/* Measures all candidates and returns the fastest; of equal ones the first. The
 * arena holds zeros afterwards. */
int rt_cuda_fastest(ParcRt *rt, const CudaTrial *t,
                    CudaTime time[CUDA_CANDIDATES]);
/* Describes the random numbers in the keys of stored choices. */
#define CUDA_FILLING "random"
/* PARC_TIMES=FILE: the file of measurements, opened to append; NULL without the
 * variable. */
FILE *rt_cuda_times(ParcRt *rt);

/* ---- progress of the device (rt_cuda_progress.c) ---- */

/* Enqueues the start of a program on the compute stream: no collective has
 * begun. */
void rt_cuda_progress_step(ParcRt *rt, CudaProgram program);
/* Called before `stream` waits, or before another stream waits for all of
 * it. */
void rt_cuda_progress_settle(ParcRt *rt, int stream);
/* publish: copies the device's progress to the rank's status, while the host
 * waits. forget: clears the progress of the previous step. */
void rt_cuda_progress_publish(ParcRt *rt);
void rt_cuda_progress_forget(ParcRt *rt);

/* ---- choices that programs save for later runs (rt_cuda_cache.c) ---- */

/* A key is one line of text with all that a choice depends on. */
enum { CUDA_KEY = 256 };
typedef struct CudaCache CudaCache;

/* Reads the cache file, $PARC_CACHE/NAME or ~/.cache/parc/NAME; NAME contains
 * the device and the library's version. Never fails: it ignores a damaged file
 * and prints a note. */
CudaCache *rt_cuda_cache_open(const char *device, size_t version);
bool rt_cuda_cache_find(const CudaCache *cache, const char *key,
                        BlasAlgorithm *algorithm);
void rt_cuda_cache_add(CudaCache *cache, const char *key,
                       const BlasAlgorithm *algorithm);
/* Writes the file if an entry has been added. */
void rt_cuda_cache_save(CudaCache *cache);
/* Saves and frees the cache. */
void rt_cuda_cache_close(CudaCache *cache);

/* ---- modules (rt_cuda_module.c) ---- */

/* Loads the best image for the device and looks up its kernels. */
void rt_cuda_module_open(ParcRt *rt);
/* The index of the best image for a device of this compute capability; -1:
 * none can run. */
int rt_cuda_best_image(const ParcImage *image, int n, int major, int minor);

/* ---- copies (rt_cuda_copy.c) ---- */

void rt_cuda_stage_open(ParcRt *rt);
void rt_cuda_stage_close(ParcRt *rt);
/* Allocates staging memory for the next part of a copy of `left` bytes;
 * *piece: the size of that part. */
char *rt_cuda_stage_space(ParcRt *rt, int64_t left, size_t *piece);

/* ---- host memory of tensors (rt_cuda_host.c) ---- */

/* Allocates the model's host_bytes, filled with zeros, and counts them. */
void rt_cuda_host_open(ParcRt *rt);
void rt_cuda_host_close(ParcRt *rt);
/* Copies bytes of the mirror, at `offset` after the arena's end, to or from
 * that memory, after all previously enqueued work. */
void rt_cuda_host_copy(ParcRt *rt, int64_t offset, int64_t bytes, bool upload);

/* Places memory that this process touches first on the NUMA node of the device
 * while that node has free memory. No effect on a machine with one node or
 * without that information. */
void rt_cuda_numa_open(ParcRt *rt);

/* ---- steps (rt_cuda_step.c) ---- */

void rt_cuda_step_close(ParcRt *rt);

/* ---- ranges of a profiler: step, phase, statement (rt_nvtx.c) ---- */

/* Attaches the profiler that the environment names, if there is one. */
void rt_nvtx_open(void);
void rt_nvtx_push(const char *name);
void rt_nvtx_pop(void);
/* Ends the range of work[now] and begins that of work[next]; -1: none. Phases
 * are enclosing ranges. */
void rt_nvtx_mark(const ParcModel *model, int now, int next);

/* ---- products (rt_cuda_matmul.c, …) ---- */

/* All products have been created: saves the measured choices for the next
 * run. */
void rt_cuda_matmul_ready(ParcRt *rt);
void rt_cuda_matmul_close(ParcRt *rt);

/* ---- the arena (rt_cuda_arena.c) ---- */

/* Allocates it, filled with zeros; returns the driver's code if there is too little
 * memory. */
CuResult rt_cuda_arena_take(ParcRt *rt);
void rt_cuda_arena_free(ParcRt *rt);
static inline char *rt_cuda_spare(const ParcRt *rt)
{
    return (char *)(uintptr_t)rt->device->spare;
}

/* ---- rates (rt_cuda_rates.c) ---- */

/* Peak dense flops per second of one device; 0: unknown. */
double rt_cuda_peak_flops(const char *device, int major, int minor,
                          CudaPrecision precision);
/* Notes that a product has operands of the type, for d->precision. */
void rt_cuda_note_precision(RtDevice *d, ParcType type);

#endif
