/* eval.h: declares what a rank executes beside training steps: side programs
 * (evaluate.c), the evaluation on validation data (evaluate.c), and the
 * sampling of tokens (sample.c). */
#ifndef PARC_RT_EVAL_H
#define PARC_RT_EVAL_H

#include "rt.h"
#include "run.h"

/* ---- programs beside the training step (ParcProgram), between training steps ----
 *
 *   rt_program_begin(rt, e);
 *   for each batch:
 *       do write its inputs at e->input[].offset, in the arena of the host, and
 *           rt_device_upload them;
 *       while (!rt_program_run(rt, e));
 *       rt_ask_results(rt, &e->at); rt_device_results(rt);
 *   rt_program_end(rt);
 *
 * All ranks make the same calls. A session overwrites the inputs, scalars and
 * outputs of the training step: read its results before, and write its next
 * batch and scalars after it. Parameters and states change only if e is ParcModel.rounds. */

/* Prepares all side programs, once, after ParcModel.init. */
void rt_program_init(ParcRt *rt);

void rt_program_begin(ParcRt *rt, const ParcProgram *e);
/* May still be running on return, like rt_device_step. Returns false, on all ranks, if experts
 * need more rounds: the next run has them. */
bool rt_program_run(ParcRt *rt, const ParcProgram *e);
/* The same with batch `number` of the data as its inputs; ends the run if they
 * cannot be used. */
void rt_program_batch(ParcRt *rt, const ParcProgram *e, const RtData *d,
                      int64_t number);
void rt_program_end(ParcRt *rt);
/* Requests the numbers that a program computes; they have arrived after rt_device_results. */
void rt_ask_results(ParcRt *rt, const ParcScalars *at);
/* The number at an offset of ParcScalars; 0: the program has none. */
double rt_result(ParcRt *rt, int64_t offset);
/* The choices that experts with a capacity dropped. */
int64_t rt_dropped(ParcRt *rt, const ParcScalars *at);
/* Sets the key of the random numbers of a step, unless `offset` is negative. */
void rt_set_key(ParcRt *rt, int64_t offset, int64_t seed, int64_t step);
/* The step of the key of side programs. Training steps count from 1. */
enum { RT_PROGRAM_KEY = 0 };

/* ---- evaluation (--val) ---- */

/* Opens the validation data and checks the options; false after a message. */
bool rt_evaluate_open(RtRun *run);
/* Whether an evaluation follows training step `step`: every --val-every steps,
 * and after the last one. Equal on all ranks. */
bool rt_evaluate_is_due(const RtRun *run, int64_t step);
typedef struct RtEvaluation {
    double loss;     /* the mean of the validation batches, in which the loss of each counts
                        equally; NAN if a signal cut the evaluation short */
    int64_t dropped; /* choices that experts with a capacity dropped */
} RtEvaluation;
/* All ranks call it and get the same values. Changes neither parameters nor optimizer
 * states, but overwrites the inputs and results of the training step. */
RtEvaluation rt_evaluate(ParcRt *rt, RtRun *run);
/* --eval: evaluates; rank 0 prints the result as JSON. */
void rt_evaluate_only(ParcRt *rt, RtRun *run);

/* ---- sampling (--sample, --sample-ids) ---- */

/* Reads the prompt and checks that the model can continue it; false after a
 * message. Sets run->prompt; without --sample and --sample-ids it does
 * nothing. */
bool rt_sample_open(RtRun *run);
/* Continues the prompt by --tokens tokens. All ranks call it; rank 0 prints the
 * prompt and each token to standard output. */
void rt_sample(ParcRt *rt, RtRun *run);

#endif
