/* names.h: declares the names that parameters have in files: names.c. */
#ifndef PARC_CHECKPOINT_NAMES_H
#define PARC_CHECKPOINT_NAMES_H

#include "params/params.h"


/* Whether the model has a block `names hf`. */
bool rt_has_file_names(const ParcModel *m);
/* The name of the tensor that holds a layer: "model.layers.3.mlp.up.weight". */
void rt_file_name(const ParcFileTensor *f, const ParcParam *p, int64_t layer,
                  char text[RT_NAME]);
/* The name without the optional prefix of the model's files; NULL if it does
 * not begin with one. */
const char *rt_without_prefix(const ParcModel *m, const char *name);

#endif
