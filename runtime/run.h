/* run.h: declares the state of a run of a training program, which the parts
 * of the runtime share: options, ranks, data, weights and files. */
#ifndef PARC_RT_RUN_H
#define PARC_RT_RUN_H

#include "checkpoint/agree.h"
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

typedef struct RtRun {
    const ParcModel *model;
    RtOptions options;
    RtLaunch launch;
    RtWorld world;
    RtSettings settings;
    RtData data, val;
    int32_t *prompt; /* --sample: the text so far, as tokens; NULL: none */
    int64_t nprompt;
    RtWeights weights;
    RtReport report;
    RtExportTo export_to;
    char *trace_temporary; /* the name of the trace while it is written */
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

/* Executes the steps after run->done up to the option --steps, on one rank
 * (run/train.c). All ranks call it. */
void rt_train(ParcRt *rt, RtRun *run);

#endif
