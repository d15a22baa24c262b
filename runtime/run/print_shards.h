/* print_shards.h: declares --print-shards. */
#ifndef PARC_RT_PRINT_SHARDS_H
#define PARC_RT_PRINT_SHARDS_H

#include "options/options.h"
#include "parc_rt.h"

/* Returns 0, or 1 after a message, which suggests a similar name. */
int rt_shards_check(const ParcModel *model, const RtOptions *o);
/* Prints to standard output. */
struct RtWeights;
void rt_shards_print(const ParcModel *m, const RtOptions *o,
                     const struct RtWeights *weights);

#endif
