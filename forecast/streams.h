/* streams.h: the state of the streams of a rank, for the files of the timeline.
 *
 *   timeline.c   runs the streams
 *   streams.c    the state, and the periods of loops that are left out
 *   sharing.c    how fast everything that runs at one time is
 */
#ifndef PARC_FORECAST_STREAMS_H
#define PARC_FORECAST_STREAMS_H

#include "forecast/duration.h"
#include "passes/sync/issue_walk.h"

/* A run of a statement, in seconds from the start of the part of the step. */
typedef struct Span {
    int stream, statement;
    double begin, end;
} Span;

/* Iterations of a loop that the walk leaves out at a moment, and their time. A span that
 * begins before it and ends after it includes that time. */
typedef struct Skip {
    double at, seconds;
    int64_t iterations;
    const Op *loop;
} Skip;

/* The spans in the order in which they begin, and the skips. */
typedef struct TimelineLog {
    VEC(Span) span;
    VEC(Skip) skip;
} TimelineLog;

typedef struct Stream {
    int number;
    IssueWalk walk;
    Issued next;       /* what it issues next … */
    bool has_next;     /* … if it is known */
    bool ended;
    int runs;          /* the statement that runs; -1: none */
    double left;       /* its seconds that are left, at full speed */
    double speed;      /* from 0 to 1 */
    double ready;      /* nothing is issued before */
    int awaits;        /* the slot of the event that it waits for; -1: none */
    int64_t *recorded; /* by slot: the records before this place in the order of issue */
    int span;          /* of the log: the run of that statement */
    int64_t joins;     /* joins that it has reached */
    bool joining;      /* it waits at the last of them */
} Stream;

typedef struct Snapshot Snapshot;
typedef struct Clockwork {
    const Program *p;
    const Machine *machine;
    const Work *work;
    IssuePart part;      /* of the step */
    int nstatements, nstreams, nslots;
    int *statement_of;   /* by op id: its index; -1: none */
    int *records;        /* by slot: the stream that records it */
    Stream stream[STREAMS];
    double now;
    int64_t *done;       /* by slot: the records so far */
    double *when;        /* by slot: when it was last recorded */
    StatementTime *time; /* by statement, and one for none */
    bool whole;          /* nothing is left out */
    bool skips;          /* the compute stream begins an iteration */
    struct Snapshot *last[MAX_LOOP_DEPTH + 1]; /* by frame: of earlier iterations */
    TimelineLog log;
} Clockwork;

Clockwork clockwork_new(const Program *p, const Machine *m, const Work *work, int n,
                        IssueScope scope);

/* Where the compute stream begins an iteration: leaves out the periods of the loop that
 * repeat the last one, and counts their time. */
void skip_periods(Clockwork *c);

#endif
