/* clash.h: detects outputs that are the same file. */
#ifndef PARC_DRIVER_CLASH_H
#define PARC_DRIVER_CLASH_H

#include "driver/options.h"

/* Reports two outputs, or an output and the model, that are the same file;
 * returns whether there are none. */
bool clash_check(Diag *d, const Options *o);

#endif
