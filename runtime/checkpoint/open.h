/* open.h: declares how a run begins with the options --save and --resume:
 * open.c. */
#ifndef PARC_CHECKPOINT_OPEN_H
#define PARC_CHECKPOINT_OPEN_H

#include "rt.h"
#include "run.h"

/* RtRun.resume_step: `auto` has found no checkpoint. */
enum { RT_NO_CHECKPOINT = -2 };

/* Opens --save's directory and the checkpoint of --resume, whose seed, data and
 * step become those of the run; false after a message. */
bool rt_checkpoints_open(RtRun *run);
/* Restores the state of a rank. All ranks call it. */
void rt_checkpoints_restore(ParcRt *rt, RtRun *run);
/* Whether --save is given, but the state at the end of the run is not saved. */
bool rt_checkpoints_unsaved(const RtRun *run);

#endif
