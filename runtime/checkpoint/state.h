/* state.h: declares the state of a run that is not in its tensors: state.c. */
#ifndef PARC_RT_STATE_H
#define PARC_RT_STATE_H

#include "common/json.h"
#include "data/data.h"
#include "options/settings.h"
#include "rt.h"

/* The state in the index of a checkpoint. */
typedef struct RtRunState {
    int64_t step, tokens, updates, seed;
    bool shuffle;
    RtScale scale; /* scale 0: the run did not scale its loss */
    RtSettings settings; /* those that the run has changed */
    RtDataState data; /* rt_state_free */
} RtRunState;

/* Reads the JSON object; errors are those of `j`. */
void rt_state_read(RtRunState *s, RtJson *j);
void rt_state_free(RtRunState *s);

#endif
