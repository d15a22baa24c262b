/* clash.h: detects outputs that are the same file. */
#ifndef PARC_DRIVER_CLASH_H
#define PARC_DRIVER_CLASH_H

#include "driver/options.h"

/* False, after errors, where two outputs, or an output and the model, are the
 * same file. */
bool clash_check(Diag *d, const Options *o);

#endif
