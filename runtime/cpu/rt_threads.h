/* rt_threads.h: where a rank's threads run, and how they wait. */
#ifndef PARC_RT_THREADS_H
#define PARC_RT_THREADS_H

#include "rt.h"

/* GNU's OpenMP lets idle threads spin for milliseconds, so that on a machine
 * with other work each parallel loop waits for a thread that has lost its
 * core: ten times the step. With a core for every thread they look for a short
 * while, otherwise they sleep at once. The library reads the wish from the
 * environment when it is loaded, which is before main: hence the program runs
 * again from the top. A policy that the user has set stands. */
void rt_threads_wait(char **argv, const ParcModel *model, int64_t wanted);
/* Starts the rank's threads and gives each its place. */
void rt_threads_place(const RtWorld *w, int rank);

/* Frees what matmuls made (rt_matmul.c). */
void rt_matmul_close(ParcRt *rt);

#endif
