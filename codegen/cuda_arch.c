/* cuda_arch.c: lists the GPU architectures that --arch accepts and its default.
 *
 * The oldest, sm_80, is the first with bf16 and with asynchronous copies to
 * shared memory.
 */
#include "codegen/cuda_arch.h"

#include <stddef.h>

const char *const cuda_archs[] = {
    "sm_80",   "sm_86",  "sm_87",   "sm_89",  "sm_90",   "sm_90a", "sm_100",
    "sm_100a", "sm_103", "sm_103a", "sm_110", "sm_110a", "sm_120", "sm_120a",
    "sm_121",  "sm_121a", NULL,
};

const char *const cuda_default_archs[] = {"sm_80", "sm_90a", NULL};
