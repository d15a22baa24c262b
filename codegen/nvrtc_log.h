/* nvrtc_log.h: what the CUDA compiler says. */
#ifndef PARC_CODEGEN_NVRTC_LOG_H
#define PARC_CODEGEN_NVRTC_LOG_H

#include "codegen/nvrtc.h"

/* Takes ptxas' reports out of a log and adds them to `kernels`. NULL, or what else it says, each message behind the name of
 * the kernel that its line lies in. */
const char *nvrtc_read_log(Arena *a, const NvrtcText *source, const char *log,
                           const char *arch, NvrtcKernels *kernels);

#endif
