/* run.h: declares the state of a run of a training program, which the parts
 * of the runtime share: options, ranks, data, weights and files; and the
 * functions that begin a run and decide after each step whether it goes on. */
#ifndef PARC_RT_RUN_H
#define PARC_RT_RUN_H

#include "checkpoint/export.h"
#include "checkpoint/resume.h"
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "data/data.h"
#include "launch/job.h"
#include "log/report.h"
#include "options/options.h"
#include "options/settings.h"
#include "rt.h"

/* What all ranks do next; flags. RT_STOP includes RT_SAVE. */
enum { RT_SAVE = 1, RT_STOP = 2 };

/* The state of the agreement in one rank. */
typedef struct RtAgree {
    uint32_t point;        /* number of the latest point of agreement, from 1 */
    uint32_t before, next; /* over connections: the points of the previous and
                              of the next message */
    double since;          /* rank 0: time of the previous message */
    uint32_t saves;        /* rank 0: requests by SIGUSR1 that it has served */
    int pending;           /* RT_SAVE, RT_STOP: agreed, and not done yet */
} RtAgree;

/* RtRun.resume_step: `auto` has found no checkpoint. */
enum { RT_NO_CHECKPOINT = -2 };

typedef struct RtRun {
    const ParcModel *model;
    RtOptions options;
    RtLaunch launch;
    RtWorld world;
    RtSettings settings;
    RtData data, val;
    RtData inputs;   /* of --predict */
    int32_t *prompt; /* --sample: the text so far, as tokens; NULL: none */
    int64_t nprompt;
    RtWeights weights;
    RtReport report;
    RtExportTo export_to;
    RtAgree agree;
    RtSaver saver;
    RtAsync async;
    RtResume resume;
    double resume_seconds; /* in which the rank has read the checkpoint */
    int64_t resume_step; /* under a launcher: the step that rank 0 has selected
                            for --resume; see prepare_launched */
    double begin; /* time of the start of the program */
    int64_t start; /* steps of the run before it was resumed; 0 if it was not */
    int64_t done; /* steps that the run has completed, `start` at first */
} RtRun;

/* ---- how the ranks agree, between steps, whether to go on, to save or to stop
 * (checkpoint/stop_decision.c) ---- */

/* Called by all ranks before the first step: from now on signals request a save
 * or a stop instead of ending the process. */
void rt_agree_start(RtRun *run);

/* All ranks call it at the same points: after each step, after a save, and
 * after each batch of an evaluation, which RT_STOP cuts short. Returns what is
 * agreed and not done yet; RT_SAVE only with --save. Only ranks other than 0
 * wait, for rank 0 to reach the same point. */
int rt_agree(ParcRt *rt, RtRun *run);
/* The ranks have saved: RT_SAVE is done. Their next call of rt_agree considers
 * all requests that rank 0 has received. */
void rt_agree_saved(RtRun *run);

/* The exit status on which the ranks of this process have agreed: 128 + the
 * signal that stopped the run; 0: no signal has. */
int rt_agree_status(const RtWorld *w);

/* ---- how a run begins with --save and --resume (checkpoint/resume.c) ---- */

/* Opens --save's directory and the checkpoint of --resume, whose seed, data and
 * step become those of the run; false after a message. */
bool rt_checkpoints_open(RtRun *run);
/* Sets the number of steps of a run with --epochs, when data and settings are
 * open, and checks it; false after a message. */
bool rt_steps_open(RtRun *run);
/* Whether an epoch of the data ends with a step. */
bool rt_ends_epoch(const RtRun *run, int64_t step);
/* Restores the state of a rank. All ranks call it. */
void rt_checkpoints_restore(ParcRt *rt, RtRun *run);
/* Whether --save is given, but the state at the end of the run is not saved. */
bool rt_checkpoints_unsaved(const RtRun *run);

/* Executes the steps after run->done up to the option --steps, on one rank
 * (run/train.c). All ranks call it. */
void rt_train(ParcRt *rt, RtRun *run);

/* ---- run/nonfinite.c ---- */

void rt_scale_start(ParcRt *rt);
/* Updates the scale after a step. Returns false if the step was skipped: the
 * norm of the gradients is not finite and no parameter has changed. Ends the
 * run after too many consecutive skips. */
bool rt_scale_step(ParcRt *rt, int64_t step, double norm);
/* Ends the run after a step with a non-finite gradient norm; the message names
 * a parameter whose gradient is not finite. All ranks call it. */
_Noreturn void rt_nonfinite(ParcRt *rt, int64_t step, double norm);

/* ---- --print-shards (run/print_shards.c), --predict (run/predict.c) ---- */

/* Prints to standard output. */
void rt_shards_print(const ParcModel *m, const RtOptions *o,
                     const RtWeights *weights);
/* Opens the inputs and checks that the model has outputs; false after a
 * message. Without --predict it does nothing. */
bool rt_predict_open(RtRun *run);
/* Writes the outputs for all samples. All ranks call it. */
void rt_predict(ParcRt *rt, RtRun *run);

#endif
