/* loss.h: where a step loses time against the machine's peak, and what would help.
 *
 *   collectives over tp     118 ms   fewer ranks on 'tp', …
 *
 * A loss is the time that a step takes for one reason, or by which it is slower than at
 * the sustained rate of large matmuls. Losses may overlap: a recomputed matmul can also
 * be one with partly filled waves.
 */
#ifndef PARC_FORECAST_LOSS_H
#define PARC_FORECAST_LOSS_H

#include "forecast/forecast.h"

typedef struct Loss {
    double seconds;
    const char *what;   /* "waiting for collectives over tp, most for ag3" */
    const char *remedy; /* what would reduce it */
} Loss;

/* The losses of a step, the largest first; *n of them. */
const Loss *losses_of(const Program *p, const Forecast *f, int *n);

#endif
