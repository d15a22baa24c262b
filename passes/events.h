/* events.h: declarations that the files of the pass `events` share.
 *
 *   events.c       simulates the step and adds the waits that it needs
 *   events_drop.c  removes waits and events that are redundant
 */
#ifndef PARC_PASSES_EVENTS_H
#define PARC_PASSES_EVENTS_H

#include "passes/trace.h"

/* The largest number of slots of an event. */
enum { EVENTS_SLOTS = 8 };

typedef enum EventMode {
    EVENTS_DISCOVER,
    EVENTS_PLACE,
    EVENTS_CHECK,
} EventMode;

typedef struct EventClock {
    int upto[STREAMS]; /* by stream: statements that have completed */
} EventClock;

/* The last accesses of a piece of the arena (trace.h): instances; -1: none. */
typedef struct EventPiece {
    int written, read[STREAMS];
} EventPiece;

typedef struct EventFinder {
    Program *p;
    StreamPlan *s;
    Trace trace;
    EventMode mode;
    EventClock now[STREAMS];
    EventClock *done; /* by instance: the clock that a wait for it gives */
    int *place;       /* by instance: its position on its stream, from 1 */
    int *turn;        /* by instance: its index among those of its statement */
    int *latest;      /* by statement id: the latest instance; -1: none */
    int *count;       /* by statement id: the number of instances so far */
    int *recorded;    /* by slot: the instance that recorded it; -1: none */
    EventPiece *piece;
    bool *needed;     /* by wait, in order of statements */
    int nwaits;
    int *first_wait;  /* by statement id: index of its first wait in `needed` */
    int without;      /* a wait that is ignored; -1: none */
    const Issue *sharing; /* the statement whose event others share */
    int missing;      /* dependences that no wait covers */
} EventFinder;

/* Visits every statement of the plan in order; those of a loop after the
 * loop. */
typedef void EventVisit(EventFinder *f, Issue *issue);
void events_visit(EventFinder *f, EventVisit *visit);

/* Simulates the trace. Sets f->missing, and f->needed in EVENTS_CHECK. */
void events_run(EventFinder *f, EventMode mode);

/* Numbers the slots of all events consecutively. */
void events_number_slots(EventFinder *f);

/* events_drop.c: removes redundant waits and events. */
void events_drop(EventFinder *f);

#endif
