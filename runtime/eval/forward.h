/* eval/forward.h: declares how a rank executes the forward programs of a model
 * (ParcEval) between training steps.
 *
 *   rt_forward_begin(rt, e);
 *   for each batch: write its inputs at e->input[].offset, in the arena of the
 *       host, and rt_device_upload them;
 *       rt_forward_run(rt, e);
 *       rt_device_ask(rt, e->loss_offset); rt_device_results(rt);
 *   rt_forward_end(rt, e);
 *
 * All ranks make the same calls. A session overwrites the inputs, scalars and
 * outputs of the training step: read its results before, and write its next
 * batch and scalars after it. Parameters and states do not change.
 */
#ifndef PARC_RT_FORWARD_H
#define PARC_RT_FORWARD_H

#include "rt.h"

/* Prepares all forward programs, once, after ParcModel.init. */
void rt_forward_init(ParcRt *rt);

void rt_forward_begin(ParcRt *rt, const ParcEval *e);
/* May still be running on return, like rt_device_step. */
void rt_forward_run(ParcRt *rt, const ParcEval *e);
void rt_forward_end(ParcRt *rt, const ParcEval *e);

#endif
