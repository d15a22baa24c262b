/* trace.h: simulates a step as a sequence of statements, with the bytes that
 * they access.
 *
 * Loops are simulated iteration by iteration. Of a long loop only the first and
 * last iterations are simulated, enough of them that all that repeats has
 * reached a fixed point; those between are skipped in whole periods (of slots
 * that iterations use in rotation). The last iteration before them also
 * accesses their slices of stacked tensors. So the size of a trace does not
 * depend on the number of layers. The addresses are those of Program.memory.
 */
#ifndef PARC_PASSES_TRACE_H
#define PARC_PASSES_TRACE_H

#include "passes/streams.h"

/* The arena is divided at each byte where an accessed tensor begins or ends;
 * the pieces are numbered from 0. */
typedef struct Access {
    int64_t begin, end; /* bytes in the arena */
    int first, last;    /* pieces, both included */
    bool write;
    const Value *value; /* NULL: scratch, or the whole arena */
} Access;

/* A dynamic instance: one execution of a statement. */
typedef struct Act {
    const Issue *issue;
    bool first;          /* in the first iteration of the loop that issues it */
    int64_t turn[MAX_LOOP_DEPTH]; /* iteration indices (layers) of the loops
                                   * around its op, innermost first */
    int access, naccesses; /* range in Trace.access */
} Act;

typedef struct Trace {
    Act *act;
    int n;
    Access *access;
    int naccesses, npieces;
} Trace;

/* Simulates the step. `more`: additional periods of every loop. */
Trace trace_step(const Program *p, const StreamPlan *s, int more);

/* The iteration of `loop` in which the instance's op runs; false: the loop does
 * not enclose the op. */
bool trace_turn(const Act *act, const Op *loop, int64_t *turn);

/* The slot of an event that an instance records, and the slot that its wait is
 * for: numbers as in emitted code. */
int trace_recorded(const StreamPlan *s, const Act *act);
int trace_awaited(const StreamPlan *s, const Act *act, const Wait *w);

#endif
