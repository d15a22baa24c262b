/* evaluate.h: declares the evaluation of a model on validation data (--val). */
#ifndef PARC_RT_EVALUATE_H
#define PARC_RT_EVALUATE_H

#include "rt.h"
#include "run.h"

/* Opens the validation data and checks the options; false after a message. */
bool rt_evaluate_open(RtRun *run);
/* Whether an evaluation follows training step `step`: every --val-every steps,
 * and after the last one. Equal on all ranks. */
bool rt_evaluate_is_due(const RtRun *run, int64_t step);
/* The mean loss of the validation batches, in which the loss of each batch
 * counts equally; NAN if a signal cut the evaluation short. All ranks call it
 * and get the same value. Changes neither parameters nor optimizer states, but
 * overwrites the inputs and results of the training step. */
double rt_evaluate(ParcRt *rt, RtRun *run);
/* --eval: evaluates; rank 0 prints the result as JSON. */
void rt_evaluate_only(ParcRt *rt, RtRun *run);

#endif
