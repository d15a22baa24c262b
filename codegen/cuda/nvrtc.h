/* nvrtc.h: compiles CUDA C++ to machine code and PTX, with NVIDIA's library.
 *
 * NVRTC, NVIDIA's compiler as a library, needs no GPU, no driver and no nvcc.
 * It is opened only when a CUDA program is written. Sources are compiled in child
 * processes.
 */
#ifndef PARC_CODEGEN_CUDA_NVRTC_H
#define PARC_CODEGEN_CUDA_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

/* A source, or a header that it includes by name; both are in memory. */
typedef struct NvrtcText {
    const char *name, *text;
} NvrtcText;

typedef struct NvrtcImage {
    const char *source; /* "kernels.cu" */
    const char *arch;   /* "sm_90a": machine code; "compute_80": PTX */
    const char *data;
    size_t size;
} NvrtcImage;

/* The resources that ptxas reports for one kernel and architecture. */
typedef struct NvrtcKernel {
    const char *name, *arch;
    int registers; /* registers of a thread */
    int shared;    /* static shared memory of a block, bytes */
    int stack, spill_stores, spill_loads; /* bytes of a thread */
} NvrtcKernel;

typedef VEC(NvrtcKernel) NvrtcKernels;

typedef struct NvrtcTime {
    const char *source, *arch;
    double seconds;
} NvrtcTime;

typedef struct NvrtcResult {
    VEC(NvrtcImage) image; /* for each source, in the order of the
                              architectures; its PTX last */
    NvrtcKernels kernel;
    VEC(NvrtcTime) time;
} NvrtcResult;

/* Compilations that run in the background. */
typedef struct NvrtcJobs NvrtcJobs;

/* Starts to compile each source for each architecture of a NULL-terminated list (names
 * of cuda_archs), all in parallel, and to PTX of the oldest one, for newer devices. The
 * texts must outlive the jobs. NULL and *failure, a message for the user: NVRTC is
 * missing or too old, or a process cannot be started. */
NvrtcJobs *nvrtc_start(Arena *a, const NvrtcText *source, int nsources,
                       const NvrtcText *header, int nheaders,
                       const char *const *arch, const char **failure);
/* The images that will follow, still without data, in the order of
 * NvrtcResult.image; an image without an arch ends the list. */
const NvrtcImage *nvrtc_images(const NvrtcJobs *jobs);
/* Waits until the jobs have ended. Returns NULL, or a message for the user. A
 * diagnostic about the source, even a warning, is a bug of parc; the report names the
 * kernel. */
const char *nvrtc_finish(NvrtcJobs *jobs, NvrtcResult *result);
/* Ends the jobs without a result. */
void nvrtc_cancel(NvrtcJobs *jobs);

/* nvrtc_log.c: removes ptxas' reports from a log and adds them to `kernels`.
 * Returns NULL, or the other messages, each preceded by the name of the kernel
 * that contains its line. */
const char *nvrtc_read_log(Arena *a, const NvrtcText *source, const char *log,
                           const char *arch, NvrtcKernels *kernels);

#endif
