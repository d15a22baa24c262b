/* config.h: declares the comparison of a model with a config.json: config.c. */
#ifndef PARC_CHECKPOINT_CONFIG_H
#define PARC_CHECKPOINT_CONFIG_H

#include "parc_rt.h"

/* Notes the entries of the file `path` that differ from those of the model's
 * block `names hf`. A file that does not exist or cannot be read is no error:
 * the weights do not depend on it. */
void rt_config_compare(const char *path, const ParcModel *model);

#endif
