/* liveness.h: the live ranges of values, in times that count ops. */
#ifndef PARC_PASSES_SCHEDULE_LIVENESS_H
#define PARC_PASSES_SCHEDULE_LIVENESS_H

#include "ir/analysis/alias.h"

typedef struct Liveness {
    int *begin, *finish; /* by op id; they differ for loops only */
    int *last_use;       /* by value id; valid for roots: see value_root */
    int end;             /* one past the last time */
} Liveness;

void live_analyse(const Program *p, Liveness *l);

#endif
