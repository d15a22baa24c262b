/* simulate.h: simulates a step as a sequence of statements, with the bytes that
 * they access.
 *
 * Loops are simulated iteration by iteration. Of a long loop only the first and
 * last iterations are simulated: enough that the pattern of addresses and event
 * slots repeats. The iterations between them are skipped in whole periods, the
 * numbers of slots that iterations use in rotation; the last iteration before
 * them also accesses their slices of stacked tensors. The size of a simulation
 * does not depend on the number of layers. The addresses are those of
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
    bool write;
    const Value *value; /* NULL: scratch, or the whole arena */
} Access;

/* A dynamic instance: one execution of a statement, or of a record, wait or
 * barrier. The first instance is the begin of the step, the last its end; both
 * access all memory on the compute stream. */
typedef struct Instance {
    const Op *op;        /* the op that runs; NULL: begin and end */
    const Op *at;        /* the statement: op, or the op `start` that runs it;
                          * NULL: begin and end */
    int stream;
    bool first;          /* in the first iteration of the loop that issues it */
    int64_t iteration[MAX_LOOP_DEPTH]; /* iteration indices (layers) of the
                                        * loops around its op, innermost first;
                                        * of a record or wait in an `early`:
                                        * around the ops that it starts */
    int access, naccesses;        /* range in Simulation.access */
} Instance;

typedef struct Simulation {
    Instance *instance;
    int n;
    Access *access;
    int naccesses, npieces;
} Simulation;

/* By op id of a loop: the slot counts that events in its body get later, beside
 * those of the `record` ops that exist. NULL: none. */
typedef VEC(int64_t) SlotCounts;

/* Simulates the step. `more`: additional periods of every loop. */
Simulation simulate_step(const Program *p, const SlotCounts *slots, int more);

/* The iteration of `loop` in which the instance's op runs; false: the loop does
 * not enclose the op. `loop` may be NULL. */
bool simulate_iteration(const Instance *instance, const Op *loop,
                        int64_t *iteration);
/* The iteration of the loop around the instance's op; 0: there is none. */
int64_t instance_iteration(const Instance *instance);

/* The slot that an op record or wait is for: a number as in emitted code. */
int simulated_slot(const Instance *instance);
/* The number of slots of all events. */
int simulated_slots(const Program *p);
/* Whether the instance is a statement: not a record, wait or barrier. */
static inline bool instance_is_statement(const Instance *instance)
{
    return !instance->op || !op_is_schedule(instance->op->kind);
}

#endif
