/* offload.h: queries about tensors in host memory. */
#ifndef PARC_PASSES_FSDP_OFFLOAD_H
#define PARC_PASSES_FSDP_OFFLOAD_H

#include "passes/pass.h"

/* Whether the plan's `offload` names the parameter or state, the target has
 * device memory, and the tensor's unit does not stay gathered. A low-precision
 * copy is offloaded with its parameter. */
bool offload_takes(const Program *p, const TargetInfo *t, const Param *pm);

/* Whether the update of parameter `param` accesses a tensor in host memory. */
bool offload_takes_update(const Program *p, const TargetInfo *t, int param);

#endif
