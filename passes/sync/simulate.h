/* simulate.h: simulates a step as a sequence of statements, with the bytes that
 * they access.
 *
 * The pass that inserts waits and barriers and the checker that verifies them
 * use this list of accesses (events.c, barriers.c, hazards.c).
 *
 * Loops are simulated iteration by iteration. Of a long loop only the first and
 * last iterations are simulated. The number of skipped iterations is a multiple
 * of the loop's period, after which addresses and event slots repeat: the least
 * common multiple of its slot counts and of its prefetch distances + 1. The
 * last iteration before the skipped ones also accesses their slices of stacked
 * tensors. Hence the size of a simulation does not depend on the number of
 * layers, unless a period is long (LONGEST_PERIOD). The addresses are those of
 * Program.memory.
 */
#ifndef PARC_PASSES_SYNC_SIMULATE_H
#define PARC_PASSES_SYNC_SIMULATE_H

#include "passes/schedule/issue.h"

/* The arena is divided at each byte where an accessed tensor begins or ends;
 * the pieces are numbered from 0. */
typedef struct Access {
    int64_t begin, end; /* bytes in the arena */
    int first, last;    /* pieces, both included */
    int instance;       /* index into Simulation.instance */
    bool write;
    const Value *value; /* NULL: scratch, or the whole arena */
} Access;

/* A dynamic instance: one execution of a statement, or of a record, wait or
 * barrier. The first and last instances are the start and the end of the step.
 * They count as accesses of all memory on the compute stream: other streams
 * start after the first, and join before the last. */
typedef struct Instance {
    const Op *op;        /* the op that runs; NULL: start and end */
    const Op *statement; /* op, or the op `start` that runs it; NULL: start and
                          * end */
    int stream;
    bool elsewhere;      /* ranks of another stage run it; it accesses nothing */
    bool first;          /* in the first iteration of the loop that issues it */
    /* Iteration indices (layers) of the loops around `op`, innermost first. For
     * a record or wait in an op `early`: of the loops around the op that the
     * `early` starts. */
    int64_t iteration[MAX_LOOP_DEPTH];
    int first_access, naccesses; /* range in Simulation.access */
} Instance;

typedef struct Simulation {
    Instance *instance;
    int n;
    Access *access;
    int naccesses, npieces;
    bool *on; /* by coordinate of the pipeline, else [0]: its ranks run it */
} Simulation;

/* One simulation for all coordinates of a pipeline that run the same statements in the
 * same iterations: a rank skips the statements of other stages, and a loop of which its
 * stages have no layer. Loops of rounds have 1, 2, 4, … iterations, at most all, in
 * simulations of their own. Without either: one simulation. */
typedef struct Simulations {
    Simulation *at;
    int n;
} Simulations;

/* A vector clock: by stream, the number of statements that have certainly
 * completed. */
typedef struct EventClock {
    int upto[STREAMS];
} EventClock;
static inline void clock_join(EventClock *c, const EventClock *more)
{
    for (int s = 0; s < STREAMS; s++)
        if (c->upto[s] < more->upto[s])
            c->upto[s] = more->upto[s];
}

/* Every stream has completed what any has: `now` by stream. */
static inline void clock_join_all(EventClock now[STREAMS])
{
    EventClock all = {0};
    for (int s = 0; s < STREAMS; s++)
        clock_join(&all, &now[s]);
    for (int s = 0; s < STREAMS; s++)
        now[s] = all;
}

/* By op id of a loop: the slot counts of events in its body that have no
 * `record` op yet. NULL: all events have one. */
typedef VEC(int64_t) SlotCounts;

/* Simulates the step, with `extra_periods` more periods of every loop than are
 * needed. */
Simulations simulate_step(const Program *p, const SlotCounts *slots,
                         int extra_periods);

/* The iteration of `loop` in which the instance's op runs; false: the loop does
 * not enclose the op. `loop` may be NULL. */
bool instance_iteration_in(const Instance *instance, const Op *loop,
                           int64_t *iteration);
/* The iteration of the loop around the instance's op; 0: there is none. */
int64_t instance_iteration(const Instance *instance);

/* The number, in emitted code, of the event slot that a record or wait uses. */
int instance_event_slot(const Instance *instance);
/* The number of slots of all events. */
int program_event_slots(const Program *p);
/* Whether the instance is a statement: not a record, wait or barrier. */
static inline bool instance_is_statement(const Instance *instance)
{
    return !instance->op || !op_is_schedule(instance->op->kind);
}

#endif
