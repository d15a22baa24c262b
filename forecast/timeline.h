/* timeline.h: the time at which every statement of a step begins and ends on one rank.
 *
 * Every stream walks over the final program (issue_walk.h), runs its statements, and
 * waits for the events of others. What runs at one time shares the device: a collective
 * keeps multiprocessors from matmuls, and the bandwidth of the memory and of links is
 * divided fairly. So the speed of each statement changes whenever another begins or ends:
 *
 *   compute  |==mlp.up==|====mlp.down=====|         the gather takes 24 of 132
 *   data           .    |==ag5==|                   multiprocessors; it begins when the
 *                  issued                           persistent matmul ends
 *
 * A loop whose state at the begin of an iteration is that of an earlier iteration repeats
 * what it did since then: the walk leaves out as many of these periods as end before the
 * loop's last iterations, and counts their time.
 */
#ifndef PARC_FORECAST_TIMELINE_H
#define PARC_FORECAST_TIMELINE_H

#include "forecast/streams.h"

typedef struct Timeline {
    double seconds;      /* of the part of the step */
    double waits;        /* the compute stream waits for no statement, but for an event */
    StatementTime *time; /* by statement */
    TimelineLog log;
} Timeline;

/* The timeline of a part of the step. `whole`: walks over all iterations. */
Timeline timeline_of(const Program *p, const Machine *m, const Work *work, int n,
                     IssueScope scope, bool whole);

#endif
