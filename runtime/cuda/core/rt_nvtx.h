/* rt_nvtx.h: declares ranges for a profiler: step, phase, statement. With them
 * a profiler's timeline shows the statements of the plan. */
#ifndef PARC_RT_NVTX_H
#define PARC_RT_NVTX_H

#include "parc_rt.h"

/* Attaches the profiler that the environment names, if there is one. */
void rt_nvtx_open(void);
void rt_nvtx_push(const char *name);
void rt_nvtx_pop(void);
/* Ends the range of work[now] and begins that of work[next]; -1: none. Phases
 * are enclosing ranges. */
void rt_nvtx_mark(const ParcModel *model, int now, int next);

#endif
