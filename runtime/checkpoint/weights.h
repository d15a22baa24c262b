/* weights.h: declares how a run gets its initial weights from files (--init):
 * weights.c. */
#ifndef PARC_CHECKPOINT_WEIGHTS_H
#define PARC_CHECKPOINT_WEIGHTS_H

#include "checkpoint/safetensors.h"
#include "options/options.h"
#include "parc_rt.h"
#include "rt.h"

/* The tensor from which a layer of a parameter is read, or a part of the layer. */
typedef struct RtFound {
    const RtTensor *tensor;     /* NULL: no file has the layer */
    const ParcFileTensor *view; /* NULL: the tensor has the layer's layout */
} RtFound;

typedef struct RtWeights {
    const ParcModel *model;
    RtSource *source;
    int nsources;   /* 0: the run has no --init */
    RtFound *found; /* the parts of layers of all parameters, in order … */
    int64_t *first; /* … and the index of the first one of each parameter */
} RtWeights;

/* Opens the files of --init and compares them with the model; false after
 * messages. Of several files, a later one takes precedence. With --init-partial
 * layers may be missing: a note names them, and they keep their initial values.
 * `quiet`: only errors are printed. */
bool rt_weights_open(RtWeights *w, const RtOptions *o, bool quiet,
                     const ParcModel *model);
/* The path of a file of the weights, by its number from 0; NULL: there are
 * fewer files. */
const char *rt_weights_file(const RtWeights *w, int number);
void rt_weights_close(RtWeights *w);
/* Reads the rank's part of all layers that were found. */
void rt_weights_load(ParcRt *rt, const RtWeights *w);
/* One element of a layer, by its global index; false: no file has the layer. */
bool rt_weights_value(const RtWeights *w, const ParcParam *param, int64_t layer,
                      int64_t element, float *value);

/* Notes the entries of the file `path` that differ from those of the model's
 * block `names hf`. A file that does not exist or cannot be read is no error:
 * the weights do not depend on it (config.c). */
void rt_config_compare(const char *path, const ParcModel *model);

#endif
