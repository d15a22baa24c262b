/* nonfinite.h: declares the dynamic loss scale, the end of a run whose
 * gradients are not finite, and --print-shards. */
#ifndef PARC_RT_NONFINITE_H
#define PARC_RT_NONFINITE_H

#include "options/options.h"
#include "rt.h"

void rt_scale_start(ParcRt *rt);
/* Updates the scale after a step. Returns false if the step was skipped: the
 * norm of the gradients is not finite and no parameter has changed. Ends the
 * run after too many consecutive skips. */
bool rt_scale_step(ParcRt *rt, int64_t step, double norm);
/* Ends the run after a step with a non-finite gradient norm; the message names
 * a parameter whose gradient is not finite. All ranks call it. */
_Noreturn void rt_nonfinite(ParcRt *rt, int64_t step, double norm);

/* ---- --print-shards (print_shards.c) ---- */

/* Prints to standard output. */
struct RtWeights;
void rt_shards_print(const ParcModel *m, const RtOptions *o,
                     const struct RtWeights *weights);

#endif
