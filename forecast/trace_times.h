/* trace_times.h: reads the times of statements from the trace of a run.
 */
#ifndef PARC_FORECAST_TRACE_TIMES_H
#define PARC_FORECAST_TRACE_TIMES_H

#include "codegen/statements/statements.h"

/* By statement: the seconds of a call; 0: the trace has none. *ranks, *threads: those of
 * the run. NULL and *error: the text is no trace, or one of another program. */
const double *trace_times(Arena *a, const Statement *statement, int n, const char *trace,
                          size_t size, int *ranks, int *threads, const char **error);

#endif
