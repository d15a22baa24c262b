/* signals.h: declares the requests that signals make of a run: to stop after
 * the current step, or to save a checkpoint. */
#ifndef PARC_CHECKPOINT_SIGNALS_H
#define PARC_CHECKPOINT_SIGNALS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The requests of a run, in memory that its ranks and their parent share. Zeros
 * before the first request. Times are ns of CLOCK_MONOTONIC. */
typedef struct RtSignals {
    _Atomic int64_t stop_ns, save_ns; /* the latest request that counts; 0:
                                         none */
    _Atomic int32_t stop;   /* SIGINT or SIGTERM has requested the end of the
                               run; 0: no signal has */
    _Atomic uint32_t saves; /* number of requests by SIGUSR1 */
    _Atomic int32_t runs;   /* 1 from the first step on: a stop waits for the
                               end of a step */
} RtSignals;

struct RtWorld;

/* Handles SIGINT, SIGTERM and SIGUSR1 from now on, except those that the
 * process ignores. Before rt_signals_attach SIGINT and SIGTERM end the process
 * as without a handler, and SIGUSR1 has no effect. */
void rt_signals_open(void);
/* Signals are requests to the run of this world until rt_signals_detach. Called
 * before ranks are forked, so that they inherit it. */
void rt_signals_attach(struct RtWorld *w);
void rt_signals_detach(void);

/* Counts a signal that another process of the job received. */
void rt_signals_record(RtSignals *s, int signal);
/* "SIGTERM" */
const char *rt_signal_name(int signal);

#endif
