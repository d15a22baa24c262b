/* events.h: between the files of the pass `events`.
 *
 *   events.c       goes through the step, statement by statement: what each
 *                  needs to know, and which waits tell it
 *   events_drop.c  takes out waits and events that nothing needs
 */
#ifndef PARC_PASSES_EVENTS_H
#define PARC_PASSES_EVENTS_H

#include "passes/trace.h"

/* How many turns' records of an event are told apart, at the most. */
enum { EVENTS_SLOTS = 8 };

typedef enum EventMode {
    EVENTS_DISCOVER,
    EVENTS_PLACE,
    EVENTS_CHECK,
} EventMode;

typedef struct EventClock {
    int upto[STREAMS]; /* statements that have run, by stream */
} EventClock;

/* Who touched a piece last; acts, -1: nobody. */
typedef struct EventPiece {
    int written, read[STREAMS];
} EventPiece;

typedef struct EventFinder {
    Program *p;
    StreamPlan *s;
    Trace trace;
    EventMode mode;
    EventClock now[STREAMS];
    EventClock *done; /* by act: what who waits for it knows */
    int *place;       /* by act: on its stream, from 1 */
    int *turn;        /* by act: the how manieth of its statement */
    int *latest;      /* by statement's id: act; -1: none yet */
    int *count;       /* by statement's id: acts so far */
    int *recorded;    /* by slot: act; -1: none yet */
    EventPiece *piece;
    bool *needed;     /* by wait, in order of statements */
    int nwaits;
    int *first_wait;  /* by statement's id: its first in `needed` */
    int without;      /* wait that is left out; -1: none */
    const Issue *sharing;
    int missing;      /* needs that no wait served */
} EventFinder;

/* Every statement of the plan, in order; those of a loop behind it. */
typedef void EventVisit(EventFinder *f, Issue *issue);
void events_visit(EventFinder *f, EventVisit *visit);

/* Goes through the trace: f->missing, and in EVENTS_CHECK f->needed. */
void events_run(EventFinder *f, EventMode mode);

/* Gives each event its first slot. */
void events_number_slots(EventFinder *f);

/* events_drop.c: what nothing needs any more. */
void events_drop(EventFinder *f);

#endif
