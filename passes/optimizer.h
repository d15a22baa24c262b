/* optimizer.h: the parts of the pass optimizer. */
#ifndef PARC_PASSES_OPTIMIZER_H
#define PARC_PASSES_OPTIMIZER_H

#include "ir/ir.h"

/* optimizer_layers.c: of the ops first … end (not included; NULL: the region's
 * last), those that make stacks run in loops over the layers. */
void optimizer_by_layers(Program *p, Op *first, Op *end);

#endif
