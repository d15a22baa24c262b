/* exchange.h: chooses what attention exchanges over the axis of a context, where the plan does not
 * say it: heads if each attention has enough, which takes any mask; else keys and values of whole
 * sequences if those of a layer are a small part of a device's memory; else a ring. */
#ifndef PARC_PASSES_SHARDING_EXCHANGE_H
#define PARC_PASSES_SHARDING_EXCHANGE_H

#include "passes/pass.h"

/* Sets Context.exchange, if it is EXCHANGE_AUTO, and why. Requires: before placements. */
void exchange_choose(Program *p, const TargetInfo *t);

#endif
