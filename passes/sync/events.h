/* events.h: declarations that the files of the pass `sync` share.
 *
 *   sync.c           the pass
 *   events.c         simulates the step and finds the waits that it needs
 *   transfer_events.c  orders the transfers of a staged loop
 *   events_insert.c  makes ops of the waits and events that are not redundant
 */
#ifndef PARC_PASSES_SYNC_EVENTS_H
#define PARC_PASSES_SYNC_EVENTS_H

#include "passes/sync/simulate.h"
#include "passes/sync/sync.h"

/* When a wait or barrier applies: WAIT_FIRST only in the first iteration of its
 * loop. */
typedef enum WaitWhen { WAIT_ALWAYS, WAIT_FIRST } WaitWhen;

/* A wait for the latest record of an event. An event with slots, one for each
 * of the iterations in flight, is waited for in slot (iteration + offset) %
 * slots if the waiting statement is in the loop that records it, else in slot
 * `offset`. */
typedef struct Wait {
    int event;         /* index into EventFinder.event */
    int offset;
    WaitWhen when;
    const char *why;   /* reason that the plan prints */
    bool needed;       /* set by EVENTS_CHECK: an instance of its statement
                        * needs it */
    bool dropped;      /* other waits imply it */
} Wait;

typedef struct Event {
    const Op *loop;    /* around the op that records it; NULL: none */
    int slots;         /* 1: every wait is for the latest record */
    int number;        /* its first slot */
} Event;

/* A statement and the synchronization that it needs. */
typedef struct Synced {
    Op *at;            /* NULL: the begin or the end of the step */
    int stream;
    int event;         /* recorded after it; -1: none */
    VEC(Wait) wait;    /* before it */
} Synced;

/* The largest number of slots of an event. */
enum { EVENTS_SLOTS = 8 };

typedef enum EventMode {
    EVENTS_DISCOVER,
    EVENTS_PLACE,
    EVENTS_CHECK,
} EventMode;

/* The last accesses of a piece of the arena (simulate.h): the write, and by
 * stream the reads since then; NULL: none. */
typedef struct EventPiece {
    const Access *written, *read[STREAMS];
} EventPiece;

typedef struct EventFinder {
    Program *p;
    Synced *synced;   /* the begin, all statements in order, the end */
    int nsynced;
    int *synced_of;   /* by op id: index of a statement */
    Event *event;
    int nevents, nslots;
    Simulations sims;
    Simulation sim;   /* the present one of them */
    EventMode mode;
    EventClock now[STREAMS];
    EventClock *done; /* by instance: the clock that a wait for it gives */
    int *place;       /* by instance: its position on its stream, from 1 */
    int *ordinal;     /* by instance: its index among those of its statement */
    int *latest;      /* by statement: the latest instance; -1: none */
    int *count;       /* by statement: the number of instances so far */
    int *recorded;    /* by slot: the instance that recorded it; -1: none */
    EventPiece *piece;
    int missing;      /* dependences that no wait covers */
} EventFinder;

/* Simulates the step, with the slots of the events that are known. */
void events_follow(EventFinder *f);

/* Visits the instances of each simulation in order of issue. EVENTS_CHECK sets f->missing, and
 * marks needed waits. */
void events_run(EventFinder *f, EventMode mode);

/* The op that a statement runs: that of a start; NULL: begin or end of step. */
const Op *events_op(const Synced *s);

/* Numbers the slots of all events consecutively. */
void events_number_slots(EventFinder *f);

/* barriers.c: inserts the ops barrier. */
void barriers_find(Program *p);

/* transfer_events.c: inserts the joins of a staged loop, and, when the plan of events
 * is done, what orders its transfers. */
void joins_insert(Program *p);
void transfer_events_insert(Program *p);

/* events_insert.c: inserts ops wait and record where they are not redundant. */
void events_insert(EventFinder *f);

#endif
