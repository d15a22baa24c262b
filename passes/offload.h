/* offload.h: what a plan keeps in host memory. */
#ifndef PARC_PASSES_OFFLOAD_H
#define PARC_PASSES_OFFLOAD_H

#include "passes/pass.h"

/* Whether the plan's `offload` names the parameter or state, the target has
 * memory of its own, and the tensor is no unit's that stays gathered. A 16-bit
 * copy goes with its parameter. */
bool offload_takes(const Program *p, const TargetInfo *t, const Param *pm);

/* Whether the update of a parameter, number `param`, reads or writes something
 * in host memory. */
bool offload_takes_update(const Program *p, const TargetInfo *t, int param);

/* The gather that a fetch in its region makes an operand for, as it is; NULL:
 * there is none, and its prefetch counts turns, not units. */
const Op *offload_gather(const Op *fetch);

/* The parameter or state that a fetch reads, or that a store's result is
 * assigned to. */
const Param *offload_param(const Program *p, const Op *move);

#endif
