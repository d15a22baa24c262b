/* trace.h: a step as the streams get it, statement by statement.
 *
 * Loops are followed turn by turn; of one with many turns the first and the
 * last ones are, enough of them that all that repeats has come round, and
 * those between are left out by whole periods (of slots that turns take in
 * turn): the last turn in front of them stands for their slices of stacks, too.
 * So a trace does not grow with the number of layers. Every statement
 * has the bytes that it touches, at their final addresses.
 */
#ifndef PARC_PASSES_TRACE_H
#define PARC_PASSES_TRACE_H

#include "passes/streams.h"

/* The arena is cut wherever a tensor begins or ends that a statement touches;
 * pieces are numbered from 0. */
typedef struct Access {
    int64_t begin, end; /* bytes in the arena */
    int first, last;    /* pieces */
    bool write;
    const Value *value; /* NULL: scratch, or the whole arena */
} Access;

typedef struct Act {
    const Issue *issue;
    bool first;          /* in the first turn of the loop that it stands in */
    int64_t turn[MAX_LOOP_DEPTH]; /* that it works on: the layer of the loops
                                     around its op, innermost first */
    int access, naccesses; /* in Trace.access */
} Act;

typedef struct Trace {
    Act *act;
    int n;
    Access *access;
    int naccesses, npieces;
} Trace;

/* `more`: so many periods more of every loop than it takes. */
Trace trace_step(const Program *p, const StreamPlan *s, int more);

/* The act's turn of a loop around its op; false: the loop is not. */
bool trace_turn(const Act *act, const Op *loop, int64_t *turn);

/* The slot of an event that an act records, and the one that an act's wait is
 * for: numbers as in emitted code. */
int trace_recorded(const StreamPlan *s, const Act *act);
int trace_awaited(const StreamPlan *s, const Act *act, const Wait *w);

#endif
