/* issue_walk.h: walks over a step in order of issue, one statement, record, wait or
 * barrier after another.
 *
 *   early{distance=1} {              iteration 0   record %w (of iteration 1)
 *     start{op=%w}                                 %y, %h
 *   }                                iteration 1   start %w (of iteration 2), …
 *   %y = einsum %x, %w      in a loop
 *
 * The walker stops at each iteration of a loop also, where the caller may leave out
 * iterations. Several walkers may be at different places of one step.
 */
#ifndef PARC_PASSES_SYNC_ISSUE_WALK_H
#define PARC_PASSES_SYNC_ISSUE_WALK_H

#include "ir/memory.h"

/* A loop around what is issued, and its iteration. */
typedef struct IssueLoop {
    const Op *loop;
    int64_t layer; /* the index that the iteration has in its body */
    bool first;    /* the loop that issues it is in its first iteration */
} IssueLoop;

/* A region that is being walked over. */
typedef struct IssueFrame {
    const Op *loop; /* NULL: the step */
    const Op *next; /* in the region; NULL: at its end */
    int64_t iteration, trips;
} IssueFrame;

typedef struct IssueWalk {
    const Program *p;
    IssueLoop at[MAX_LOOP_DEPTH]; /* the loops around the present op, outermost first;
                                   * of an op in an `early`: around the op that the
                                   * `early` starts */
    int depth;
    IssueFrame frame[MAX_LOOP_DEPTH + 1]; /* outermost first */
    int nframes;
    const Op *early, *next; /* the `early` that is being walked over, and its next op */
} IssueWalk;

typedef enum IssueStop {
    ISSUE_END,
    ISSUE_ITERATION, /* the innermost loop begins an iteration */
    ISSUE_OP,
} IssueStop;

/* What is issued: an op with the stream that it is issued on. */
typedef struct Issued {
    const Op *op;        /* the op that runs */
    const Op *statement; /* op, or the op `start` that runs it */
} Issued;

/* A walker at the begin of the step. */
IssueWalk issue_walk(const Program *p);
/* Goes on to the next stop. */
IssueStop issue_next(IssueWalk *w, Issued *x);
/* At ISSUE_ITERATION: leaves out n iterations of the innermost loop, from this one on. */
void issue_skip(IssueWalk *w, int64_t n);
/* An op that the `early` starts. */
const Op *issue_started(const Op *early);

#endif
