/* trace_times.h: reads the times of statements from the trace of a run.
 */
#ifndef PARC_FORECAST_TRACE_TIMES_H
#define PARC_FORECAST_TRACE_TIMES_H

#include "codegen/statements/statements.h"

/* Of a call of a statement on average, in seconds. */
typedef struct TraceTime {
    double seconds; /* 0: the trace has none */
    double waited;  /* more than that: a rank waits for slower ones in a collective, and
                       otherwise for a processor */
} TraceTime;

/* By statement. *ranks, *threads: those of the run. NULL and *error: the text is no trace,
 * or one of another program. */
const TraceTime *trace_times(Arena *a, const Statement *statement, int n,
                             const char *trace, size_t size, int *ranks, int *threads,
                             const char **error);

#endif
