/* pipelined.h: the time of a step whose stages overlap in a pipeline.
 *
 * All streams join between two actions, so an action takes the same time for every
 * microbatch: that of its part of the step (issue_walk.h). The actions then follow the
 * timetable of each rank. A transfer begins when the sender has computed the tensor, the
 * receiver's buffer is free, and the transfers before it on both ranks have ended; on a
 * target with one stream it also takes the time of the rank's actions.
 *
 *   rank 0   F0 F1 . . . B0 F2 B1 …       a rank waits where a tensor is not there yet
 *   rank 1   . > F0 B0 F1 B1 …
 */
#ifndef PARC_FORECAST_PIPELINED_H
#define PARC_FORECAST_PIPELINED_H

#include "forecast/timeline.h"

typedef struct PipelineTime {
    int ranks;
    double seconds;
    double *busy;        /* by coordinate: seconds of its actions, and of what precedes
                          * and follows them */
    double *bubble;      /* by coordinate: the rest of the step */
    int slowest;         /* the coordinate that is busy for longest */
    double waits;        /* of that coordinate: between statements */
    StatementTime *time; /* of that coordinate, by statement */
} PipelineTime;

/* p: a program with a loop that is staged. */
PipelineTime pipelined_time(const Program *p, const Machine *m, const Work *work, int n,
                            bool whole);

#endif
