/* signals.h: declares the requests that signals make of a run: to stop after
 * the current step, or to save a checkpoint. */
#ifndef PARC_CHECKPOINT_SIGNALS_H
#define PARC_CHECKPOINT_SIGNALS_H

#include "rt.h"

/* Handles SIGINT, SIGTERM and SIGUSR1 from now on, except those that the
 * process ignores. Before rt_signals_attach SIGINT and SIGTERM end the process
 * as without a handler, and SIGUSR1 has no effect. */
void rt_signals_open(void);
/* Signals are requests to the run of this world until rt_signals_detach. Called
 * before ranks are forked, so that they inherit it. */
void rt_signals_attach(RtWorld *w);
void rt_signals_detach(void);

/* Counts a signal that another process of the job received. */
void rt_signals_record(RtSignals *s, int signal);
/* "SIGTERM" */
const char *rt_signal_name(int signal);

#endif
