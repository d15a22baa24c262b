/* clash.h: rejects outputs that would overwrite the model or another output. */
#ifndef PARC_DRIVER_CLASH_H
#define PARC_DRIVER_CLASH_H

#include "driver/options.h"

/* Reports two outputs, or an output and the model, that are the same file;
 * returns whether there are none. */
bool clash_check(Diag *d, const Options *o);

#endif
