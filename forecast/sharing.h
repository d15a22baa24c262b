/* sharing.h: how fast statements are that run at one time.
 *
 * A matmul is as fast as the multiprocessors allow that collectives leave. Then all
 * speeds rise together until a resource is used up; what uses it stays at that speed, and
 * the others rise on (max-min fairness).
 */
#ifndef PARC_FORECAST_SHARING_H
#define PARC_FORECAST_SHARING_H

#include "forecast/streams.h"

/* Sets the speeds of all streams that run something. */
void share_device(Clockwork *c);

#endif
