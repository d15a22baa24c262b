/* optimizer.h: declares what the pass optimizer (optimizer.c) calls in
 * optimizer_layers.c. */
#ifndef PARC_PASSES_AUTODIFF_OPTIMIZER_H
#define PARC_PASSES_AUTODIFF_OPTIMIZER_H

#include "ir/ir.h"

/* optimizer_layers.c: moves the ops from `first` up to `end` (excluded; NULL:
 * all that follow) whose results are stacks into loops over the layers. */
void optimizer_by_layers(Program *p, Op *first, Op *end);

#endif
