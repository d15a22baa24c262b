/* fit.h: refuses a plan that needs more memory than a device has. */
#ifndef PARC_DRIVER_FIT_H
#define PARC_DRIVER_FIT_H

#include "driver/options.h"

/* True where the plan fits --device-memory, or none is given. Otherwise an
 * error says what a rank needs, and a help line what would make it fit. */
bool fit_check(const Program *p, const Options *o);

#endif
