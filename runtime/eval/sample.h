/* sample.h: declares the sampling of tokens from a model (--sample,
 * --sample-ids). */
#ifndef PARC_RT_SAMPLE_H
#define PARC_RT_SAMPLE_H

#include "rt.h"
#include "run.h"

/* Reads the prompt and checks that the model can continue it; false after a
 * message. Sets run->prompt; without --sample and --sample-ids it does
 * nothing. */
bool rt_sample_open(RtRun *run);
void rt_sample_close(RtRun *run);
/* Continues the prompt by --tokens tokens. All ranks call it; rank 0 prints the
 * prompt and each token to standard output. */
void rt_sample(ParcRt *rt, RtRun *run);

/* How to choose a token. */
typedef struct RtChoice {
    double temperature; /* 0: the token with the largest logit */
    int64_t top_k;      /* number of candidates; 0: all tokens */
    int64_t seed;
} RtChoice;

/* The token that follows: an index into logit[0 … n). `position` counts the
 * tokens of the text and selects the random number. The same on every machine
 * for equal logits. */
int64_t rt_sample_choose(const float *logit, int64_t n, const RtChoice *choice,
                         int64_t position);

#endif
