/* rt_threads.h: declares the placement of a rank's threads, their wait policy,
 * and the end of oneDNN's objects, which rt_device.c calls. */
#ifndef PARC_RT_THREADS_H
#define PARC_RT_THREADS_H

#include "rt.h"

/* Sets the wait policy. GNU's OpenMP lets idle threads poll for milliseconds.
 * On a machine with other work, each parallel loop then waits for a thread
 * that has lost its core, and a step takes ten times as long. With a core for
 * every thread the threads poll for a short time, otherwise they sleep
 * immediately. The library reads the policy from the environment when it is
 * loaded, before main, so the program executes itself a second time. A policy
 * that the user has set takes precedence. */
void rt_threads_wait(char **argv, const ParcModel *model, int64_t wanted);
/* Starts the rank's threads and pins each to its CPU. */
void rt_threads_place(const RtWorld *w, int rank);

/* Frees all matmuls (rt_matmul.c). */
void rt_matmul_close(ParcRt *rt);

#endif
