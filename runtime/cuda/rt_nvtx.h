/* rt_nvtx.h: ranges for a profiler that watches: step, phase, statement. */
#ifndef PARC_RT_NVTX_H
#define PARC_RT_NVTX_H

#include "parc_rt.h"

/* Attaches the profiler that the environment names, if there is one. */
void rt_nvtx_open(void);
void rt_nvtx_push(const char *name);
void rt_nvtx_pop(void);
/* work[next] begins behind work[now]; -1: none. Phases are ranges around. */
void rt_nvtx_mark(const ParcModel *model, int now, int next);

#endif
