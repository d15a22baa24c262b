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

/* The moments in which a stage computes: forward, backward, weights. */
enum { COMPUTES = 3 };
extern const Moment pipeline_computes[COMPUTES];

/* An action of a coordinate, in seconds from the start of the step. */
typedef struct ActionTime {
    int coordinate;
    Action action;
    double begin, end;
} ActionTime;

/* What a receive waits for besides the transfers before it: that the moment `after` of
 * microbatch i - back has ended on the receiving stage. */
typedef struct Freed {
    bool given;
    Moment after;
    int64_t back;
} Freed;

typedef struct StageTime {
    Timeline action[COMPUTES];
    double *end[COMPUTES]; /* by microbatch: when the action ends; INFINITY: not yet */
    double *sent[2];       /* by direction and microbatch: when the transfer to the next
                            * stage, or of a gradient to the one before, ends */
    double *offered[2];    /* with one stream: when the sender arrives there */
    double transfer[2];    /* seconds of it */
    bool between[2];       /* it goes to another node */
    Freed freed[2];        /* of receives from the stage before, and of gradients */
} StageTime;

typedef struct PipelineTime {
    int ranks, stages;
    const Actions *actions; /* by coordinate: the timetable */
    const StageTime *stage;
    const Timeline *before, *after; /* by coordinate: what it runs besides the actions */
    VEC(ActionTime) action;         /* in the order in which the replay knows them */
    bool together; /* what follows the actions begins on all coordinates at one time */
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
