/* offload.h: queries about tensors in host memory. */
#ifndef PARC_PASSES_FSDP_OFFLOAD_H
#define PARC_PASSES_FSDP_OFFLOAD_H

#include "passes/pass.h"

/* Whether the update of parameter `param` accesses a tensor in host memory. */
bool offload_takes_update(const Program *p, const TargetInfo *t, int param);

#endif
