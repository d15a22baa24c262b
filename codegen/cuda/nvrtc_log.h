/* nvrtc_log.h: parses the log of the CUDA compiler: the resources that each
 * kernel uses, and diagnostics. */
#ifndef PARC_CODEGEN_CUDA_NVRTC_LOG_H
#define PARC_CODEGEN_CUDA_NVRTC_LOG_H

#include "codegen/cuda/nvrtc.h"

/* Removes ptxas' reports from a log and adds them to `kernels`. Returns NULL,
 * or the other messages, each preceded by the name of the kernel that contains
 * its line. */
const char *nvrtc_read_log(Arena *a, const NvrtcText *source, const char *log,
                           const char *arch, NvrtcKernels *kernels);

#endif
