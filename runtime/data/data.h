/* data.h: declares the data of a run and the preparation of its batches:
 * specs.c, batch.c. */
#ifndef PARC_RT_DATA_H
#define PARC_RT_DATA_H

#include "rt.h"

typedef struct RtTokens RtTokens; /* data/tokens.h */

/* What decides the batches. Synthetic data has no sources. */
typedef struct RtData {
    const char *path; /* the option's SPEC; NULL: synthetic */
    RtTokens *source;
    int nsources;
    int64_t seq;       /* tokens of a sequence */
    int64_t size;      /* bytes of all files */
    int64_t tokens;    /* of all files */
    int64_t sequences; /* until a source is used up */
    bool shuffle;
    int64_t seed; /* of synthetic data, of the shuffle and of mixtures */
    int64_t begin_step, begin_sample; /* the batch of begin_step begins with it */
} RtData;

/* Whether a token file can supply the model's inputs: the model has exactly
 * one integer input apart from the labels. */
bool rt_takes_tokens(const ParcModel *model);
/* `spec` NULL: synthetic data. False after a message. */
bool rt_data_open(RtData *d, const char *spec, bool shuffle, int64_t seed,
                  const ParcModel *model, const char *program);
/* The number of whole batches; 0: synthetic data, which has no end. */
int64_t rt_data_batches(const RtData *d, const ParcModel *model);
void rt_data_close(RtData *d);
/* The path of a file of the data, by its number from 0; NULL: there are fewer
 * files. */
const char *rt_data_file(const RtData *d, int number);
/* Continues after `step` steps, which used `tokens` tokens. */
void rt_data_resume(RtData *d, const ParcModel *m, int64_t step, int64_t tokens);
/* Checks that the run does not write a file that it also reads or writes for
 * another option; false after a message (rt_input.c). */
bool rt_files_apart(const RtOptions *o, const RtData *d);

/* The most recent batch. */
typedef struct RtBatch {
    int64_t made; /* step of the batch, +1; 0: no batch yet */
    char why[512]; /* error of the batch, or "" */
} RtBatch;

/* Writes the rank's part of batch `step` (0, 1, …) to each of a program's
 * inputs. False, with the error in b->why, if the data cannot be used. */
bool rt_batch_inputs(ParcRt *rt, const RtData *d, const ParcInput *input,
                     int ninputs, int64_t step, RtBatch *b);
/* Ensures that the inputs of the training step hold batch `step`. Ends the run
 * if the data cannot be used. */
void rt_batch(ParcRt *rt, const RtData *d, int64_t step, RtBatch *b);
/* Prepares a batch of the training step while the previous step runs, if the
 * target can overlap them. */
void rt_batch_ahead(ParcRt *rt, const RtData *d, int64_t step, RtBatch *b);

#endif
