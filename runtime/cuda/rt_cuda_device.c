/* rt_cuda_device.c: opens and closes a rank's GPU: its modes, arena, streams
 * and events.
 *
 * This happens in the rank's own process, because CUDA does not survive a
 * fork. All requirements are checked here, before any work starts; of several
 * ranks that fail only the first prints its message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "cuda/attention/rt_cudnn.h"
#include "cuda/conv/rt_cuda_conv.h"
#include "cuda/core/rt_nccl.h"
#include "device.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

const RtVariable rt_device_variables[] = {
    {"PARC_GRAPH=0", "run every step call by call, without a CUDA graph"},
    {"PARC_SYNC=1",
     "wait after each call, so that an error names its statement and line"},
    {"PARC_TF32=1", "matmuls of f32 may round operands to 10 bits of mantissa"},
    {"PARC_CUDNN=0",
     "attention on parc's own kernels; 1: on cuDNN where possible"},
    {"PARC_ATTENTION_MIB=N",
     "cuDNN's attention backward uses at most N MiB: more, smaller pieces"},
    {"PARC_NCCL_WINDOW=0", "NCCL copies through its own buffers"},
    {"PARC_TIMES=FILE", "append the times of candidates for each matmul"},
    {"PARC_CACHE=DIR",
     "directory that keeps the choices of kernels for the next run"},
    {NULL, NULL},
};

void rt_device_begin(char **argv, const ParcModel *model, int64_t threads)
{
    (void)argv, (void)model, (void)threads;
}

/* Each rank checks device memory when it opens its device. */
double rt_device_host_bytes(const ParcModel *model, int rank,
                            const char **what)
{
    (void)rank;
    *what = "what the plan offloads";
    return (double)model->host_bytes;
}

void rt_device_place(const RtWorld *w, int rank)
{
    (void)w, (void)rank;
}

/* ---- modes --------------------------------------------------------------- */

static CudaMode read_mode(ParcRt *rt)
{
    CudaMode m = {.sync = rt_flag(rt, "PARC_SYNC", false),
                  .tf32 = rt_flag(rt, "PARC_TF32", false)};
    m.eager = !rt_flag(rt, "PARC_GRAPH", true) || m.sync || rt->nan_check;
    return m;
}

/* ---- the driver ---------------------------------------------------------- */

static void open_driver(ParcRt *rt)
{
    RtDevice *d = rt->device;
    char why[RT_WHERE];
    rt_cuda_require(rt, &rt_cuda_driver_library, &d->cu);
    CuResult r = d->cu.cuDriverGetVersion(&d->driver);
    if (r == RT_CU_SUCCESS && d->driver < RT_CU_LEAST_DRIVER)
        rt_fail(rt,
                "the CUDA driver is of CUDA %d.%d, and this program needs %d.%d "
                "or newer: update NVIDIA's driver",
                d->driver / 1000, d->driver % 1000 / 10,
                RT_CU_LEAST_DRIVER / 1000, RT_CU_LEAST_DRIVER % 1000 / 10);
    r = d->cu.cuInit(0);
    if (r != RT_CU_SUCCESS)
        rt_fail(rt,
                "the CUDA driver cannot start: %s; nvidia-smi shows the GPUs "
                "that it sees, CUDA_VISIBLE_DEVICES can hide them",
                rt_cuda_reason(d, r, why));
}

/* ---- the device ---------------------------------------------------------- */

static int attribute(ParcRt *rt, CuAttribute which)
{
    int value = 0;
    CU(rt, cuDeviceGetAttribute(&value, which, rt->device->device));
    return value;
}

/* PARC_DEVICE: the GPU that all ranks of the node share; -1: not set. */
static int shared_device(ParcRt *rt, int count)
{
    const char *text = rt_variable("PARC_DEVICE");
    char *end = NULL;
    if (!text)
        return -1;
    long n = strtol(text, &end, 10);
    if (*end || n < 0 || n >= count)
        rt_fail(rt, "PARC_DEVICE is '%s'; it takes the number of one of the "
                    "%d GPUs that the driver shows, from 0 on", text, count);
    return (int)n;
}

/* Rank r of the node uses GPU r. If a launcher makes only one GPU visible to
 * each of its processes, the rank uses that one. */
static void choose_ordinal(ParcRt *rt)
{
    RtDevice *d = rt->device;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    bool launched = rt->world->launch != NULL;
    int count = 0;
    CU(rt, cuDeviceGetCount(&count));
    d->ordinal = shared_device(rt, count);
    if (d->ordinal >= 0)
        return;
    d->ordinal = launched && count == 1 ? 0 : rt->local;
    int needed = launched ? d->ordinal + 1 : rt->nranks;
    if (count < needed)
        rt_fail(rt,
                "this program runs on %d GPUs%s, one for each rank; the "
                "driver shows %d%s%s%s",
                needed, launched ? " or more of this machine" : "", count,
                visible ? " (CUDA_VISIBLE_DEVICES=" : "",
                visible ? visible : "", visible ? ")" : "");
}

static void choose_device(ParcRt *rt)
{
    RtDevice *d = rt->device;
    choose_ordinal(rt);
    CU(rt, cuDeviceGet(&d->device, d->ordinal));
    CU(rt, cuDeviceGetName(d->name, sizeof d->name, d->device));
    d->major = attribute(rt, RT_CU_MAJOR);
    d->minor = attribute(rt, RT_CU_MINOR);
    d->sms = attribute(rt, RT_CU_SM_COUNT);
    d->shared_most = attribute(rt, RT_CU_SHARED_OPTIN);
    rt_cuda_numa_open(rt);
    CU(rt, cuDevicePrimaryCtxRetain(&d->context, d->device));
    CU(rt, cuCtxSetCurrent(d->context));
}

/* ---- its memory ---------------------------------------------------------- */

/* The value for --device-memory that makes a plan fit in `bytes`: parc keeps a
 * part of it free for other memory on the device (driver/auto/fit.c). */
static double device_memory_value(size_t bytes)
{
    return (double)bytes * PARC_DEVICE_RESERVE / (PARC_DEVICE_RESERVE - 1);
}

/* The number of ranks with arenas on this rank's device: with PARC_DEVICE all
 * ranks of the node. */
static size_t sharing(const ParcRt *rt)
{
    const RtLaunch *l = rt->world->launch;
    if (!rt_variable("PARC_DEVICE"))
        return 1;
    return (size_t)(l ? l->local_size : rt->nranks);
}

/* The bytes that the rank allocates. */
static size_t arena_need(const ParcRt *rt)
{
    return (size_t)rt_arena_counted(rt->model, rt->rank);
}

_Noreturn static void does_not_fit(ParcRt *rt, size_t ranks, size_t available,
                                   size_t total)
{
    const RtDevice *d = rt->device;
    char need[32], have[32], all[32], lack[32], tell[32], text[32];
    char nccl[64] = "", which[64] = "a rank needs";
    double bytes = (double)ranks * (double)arena_need(rt);
    if (ranks > 1)
        snprintf(which, sizeof which, "%zu ranks that share a GPU need", ranks);
    if (d->nccl_bytes > 0)
        snprintf(nccl, sizeof nccl, " (and %s in use by NCCL)",
                 rt_size_text((double)d->nccl_bytes, text));
    rt_fail(rt,
            "%s %s; GPU %d (%s) has %s free of %s%s, %s too little. "
            "parc --device-memory %s says what would make it fit",
            which, rt_size_text(bytes, need), d->ordinal, d->name,
            rt_size_text((double)available, have),
            rt_size_text((double)total, all), nccl,
            rt_size_text(bytes - (double)available, lack),
            rt_size_text(device_memory_value(available / ranks), tell));
}

/* NCCL allocates device memory that the plan does not include, so NCCL is
 * opened before the arena is allocated. If the arenas would not fit even
 * without NCCL, the run ends before any allocation. */
static void open_nccl(ParcRt *rt)
{
    RtDevice *d = rt->device;
    size_t available = 0, total = 0, ranks = sharing(rt);
    CU(rt, cuMemGetInfo(&d->free_before, &total));
    if (arena_need(rt) > d->free_before / ranks)
        does_not_fit(rt, ranks, d->free_before, total);
    rt_nccl_open(rt);
    CU(rt, cuMemGetInfo(&available, &total));
    d->nccl_bytes = available < d->free_before ? d->free_before - available : 0;
}

/* Allocates exactly the planned bytes, filled with zeros. */
static void take_arena(ParcRt *rt)
{
    size_t bytes = arena_need(rt), available = 0, total = 0;
    CU(rt, cuMemGetInfo(&available, &total));
    if (bytes > available)
        does_not_fit(rt, 1, available, total);
    CuResult r = rt_cuda_arena_take(rt);
    if (r == RT_CU_OUT_OF_MEMORY) {
        CU(rt, cuMemGetInfo(&available, &total));
        does_not_fit(rt, 1, available < bytes ? available : bytes, total);
    }
    rt_cuda_check(rt, r, "the arena's memory");
}

/* ---- streams and events -------------------------------------------------- */

/* Collectives, and the short kernels on their streams, have higher priority than the stream
 * of computation: other work waits for them, and collectives need few multiprocessors. */
static void make_streams(ParcRt *rt)
{
    RtDevice *d = rt->device;
    const ParcModel *m = rt->model;
    int least = 0, greatest = 0;
    CU(rt, cuCtxGetStreamPriorityRange(&least, &greatest));
    for (int i = 0; i < PARC_STREAMS; i++) {
        CU(rt, cuStreamCreateWithPriority(
                   &d->stream[i], RT_CU_STREAM_NON_BLOCKING,
                   i == PARC_COMPUTE ? least : greatest));
        CU(rt, cuEventCreate(&d->join[i], RT_CU_EVENT_DISABLE_TIMING));
    }
    CU(rt, cuEventCreate(&d->fork, RT_CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++)
        CU(rt, cuEventCreate(&d->timer[i], RT_CU_EVENT_DEFAULT));
    d->event = rt_allocate((size_t)(m->nevents + 1) * sizeof *d->event);
    d->recorded =
        rt_allocate((size_t)(m->nevents + 1) * sizeof *d->recorded);
    for (int i = 0; i < m->nevents; i++)
        CU(rt, cuEventCreate(&d->event[i], RT_CU_EVENT_DISABLE_TIMING));
}

static void destroy_streams(ParcRt *rt)
{
    RtDevice *d = rt->device;
    for (int i = 0; i < rt->model->nevents; i++)
        CU(rt, cuEventDestroy(d->event[i]));
    free(d->event);
    free(d->recorded);
    CU(rt, cuEventDestroy(d->fork));
    for (int i = 0; i < 2; i++)
        CU(rt, cuEventDestroy(d->timer[i]));
    for (int i = 0; i < PARC_STREAMS; i++) {
        CU(rt, cuEventDestroy(d->join[i]));
        CU(rt, cuStreamDestroy(d->stream[i]));
    }
}

/* ---- open and close ------------------------------------------------------ */

void rt_device_open(ParcRt *rt)
{
    RtDevice *d = rt->device = rt_allocate(sizeof *d);
    d->work = -1;
    d->mode = read_mode(rt);
    open_driver(rt);
    choose_device(rt);
    make_streams(rt);
    open_nccl(rt);
    take_arena(rt);
    rt_cuda_host_open(rt);
    rt_cuda_stage_open(rt);
    rt_cuda_module_open(rt);
    rt_nvtx_open();
}

void rt_device_close(ParcRt *rt)
{
    RtDevice *d = rt->device;
    if (!d)
        return;
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "the run");
    rt_cuda_step_close(rt);
    rt_cuda_arena_free(rt);
    rt_nccl_close(rt);
    rt_cudnn_attention_close(rt);
    rt_cuda_conv_close(rt);
    rt_cudnn_close(rt);
    rt_cuda_matmul_close(rt);
    rt_cuda_stage_close(rt);
    rt_cuda_host_close(rt);
    for (int i = 0; i < d->nmodules; i++)
        CU(rt, cuModuleUnload(d->module[i]));
    free(d->module);
    free(d->kernel);
    destroy_streams(rt);
    CU(rt, cuDevicePrimaryCtxRelease(d->device));
    free(d);
    rt->device = NULL;
}

double rt_device_peak_flops(const ParcRt *rt)
{
    const RtDevice *d = rt->device;
    if (!d)
        return 0; /* no step is executed */
    return rt->nranks *
           rt_cuda_peak_flops(d->name, d->major, d->minor, d->precision);
}

void rt_device_print(const ParcRt *rt)
{
    const RtDevice *d = rt->device;
    size_t available = 0, total = 0;
    char size[32];
    printf("device    GPU %d: %s (sm_%d%d), %d multiprocessors\n", d->ordinal,
           d->name, d->major, d->minor, d->sms);
    if (d->numa_node >= 0)
        printf("          host memory of NUMA node %d\n", d->numa_node);
    if (d->cu.cuMemGetInfo(&available, &total) == RT_CU_SUCCESS) {
        double arena = (double)arena_need(rt);
        double other = (double)d->free_before - (double)available - arena -
                       (double)d->nccl_bytes;
        printf("other     %s on the GPU: kernels, graphs, libraries\n",
               rt_size_text(other > 0 ? other : 0, size));
    }
    if (d->comms)
        printf("nccl      %s on the GPU beside the plan\n",
               rt_size_text((double)d->nccl_bytes, size));
    if (d->comms && d->comms->nwindows > 0)
        printf("          the arena is a symmetric window of %d "
               "communicator%s\n",
               d->comms->nwindows, d->comms->nwindows > 1 ? "s" : "");
    rt_cudnn_print(rt);
    rt_cuda_conv_print(rt);
}
