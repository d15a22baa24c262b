/* data.h: declares the data of a run and the preparation of its batches:
 * specs.c, mixture.c, batch.c. */
#ifndef PARC_RT_DATA_H
#define PARC_RT_DATA_H

#include "common/json.h"
#include "common/type.h"
#include "options/options.h"
#include "rt.h"

typedef struct RtFeed RtFeed; /* data/samples.h */

/* A source's part in the order of samples, which is that of every input. */
typedef struct RtShare {
    const char *text; /* the source in the SPEC */
    int64_t samples;
    double weight; /* of all sources: the sum is 1 */
    uint64_t rest; /* the share of this source in the samples of this source
                      and those after it, in units of 2^-32 */
    int64_t begin; /* samples that it provided before the run's sample
                      `origin` */
} RtShare;

/* What decides the batches. */
typedef struct RtData {
    const char *path; /* the option's SPEC; NULL: synthetic */
    RtFeed *feed;
    int nfeeds;
    RtShare *share;
    int nshares; /* 0: all inputs are synthetic */
    int64_t size; /* bytes of all files */
    int64_t samples; /* until a source is used up */
    bool shuffle;
    int64_t seed; /* of synthetic data, of the shuffle and of mixtures */
    int64_t begin_step, begin_sample; /* the batch of begin_step begins with it */
    int64_t origin; /* the sample with which the shares begin */
} RtData;

/* The elements of a sample of an input. */
static inline int64_t rt_row_elements(const ParcInput *in)
{
    return rt_elements(in->dim + 1, in->ndim - 1);
}

/* A rank's part of a microbatch: rows of the global batch, and n elements of each, in
 * `pieces` equal pieces that begin at begin[0] … */
typedef struct RtInputPart {
    int64_t first, rows;
    int64_t n, begin[2];
    int pieces;
} RtInputPart;
/* The rank's part of microbatch m, from 0. */
RtInputPart rt_input_part(const ParcRt *rt, const ParcInput *in, int64_t m);

/* Whether a token file can supply the model's inputs without naming them: the
 * model has exactly one integer input apart from the labels, both have the
 * shape [batch, seq], and it has no other inputs. */
bool rt_takes_tokens(const ParcModel *model);
/* `spec` NULL: synthetic data. False after a message; rt_data_close also
 * then. */
bool rt_data_open(RtData *d, const char *spec, bool shuffle, int64_t seed,
                  const ParcModel *model);
/* The number of whole batches; 0: synthetic data, which has no end. */
int64_t rt_data_batches(const RtData *d, const ParcModel *model);
void rt_data_close(RtData *d);
/* Prints what feeds each input. */
void rt_data_describe(const RtData *d, const ParcModel *model);
/* The path of a file of the data, by its number from 0; NULL: there are fewer
 * files. */
const char *rt_data_file(const RtData *d, int number);

/* The position in every source, as a checkpoint has it (mixture.c). */
typedef struct RtDataState {
    char *spec; /* allocated; NULL: the checkpoint has none */
    int nsources;
    int64_t capacity, origin, sample;
    struct RtSourceState {
        char *text; /* allocated */
        int64_t rest, begin, used;
    } *source; /* allocated */
} RtDataState;

/* Prints the position after `step` steps as a JSON object. */
void rt_data_print(const RtData *d, const ParcModel *m, int64_t step, FILE *to);
/* Reads it. Frees nothing; an error is the reader's. */
void rt_data_read(RtDataState *s, RtJson *j);
void rt_data_state_free(RtDataState *s);
/* Whether no position overflows in a run that continues after `step` steps and
 * `tokens` tokens. */
bool rt_data_can_resume(const ParcModel *m, int64_t step, int64_t tokens);
/* Continues after `step` steps, which used `tokens` tokens. */
void rt_data_resume(RtData *d, const ParcModel *m, const RtDataState *s,
                    int64_t step, int64_t tokens);

enum { RT_WHY = 512 };

/* The most recent batch. */
typedef struct RtBatch {
    int64_t made; /* step of the batch, +1; 0: no batch yet */
    char why[RT_WHY]; /* error of the batch, or "" */
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
void rt_batch_prefetch(ParcRt *rt, const RtData *d, int64_t step, RtBatch *b);
/* The first sample of batch `step`, which has `batch` samples. */
int64_t rt_first_sample(const RtData *d, int64_t batch, int64_t step);

#endif
