/* predict.h: declares --predict: the outputs of a model for given inputs. */
#ifndef PARC_RT_PREDICT_H
#define PARC_RT_PREDICT_H

#include "rt.h"
#include "run.h"

/* Opens the inputs and checks that the model has outputs; false after a
 * message. Without --predict it does nothing. */
bool rt_predict_open(RtRun *run);
/* Writes the outputs for all samples. All ranks call it. */
void rt_predict(ParcRt *rt, RtRun *run);

#endif
