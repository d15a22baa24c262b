/* issue_walk.h: walks over a step in order of issue, one statement, record, wait or
 * barrier after another.
 *
 *   early{distance=1} {              iteration 0   record %w (of iteration 1)
 *     start{op=%w}                                 %y, %h
 *   }                                iteration 1   start %w (of iteration 2), …
 *   %y = einsum %x, %w      in a loop
 *
 * The walker stops at each iteration of a loop also, where the caller may leave out
 * iterations. Several walkers may be at different ops of one step.
 */
#ifndef PARC_PASSES_SYNC_ISSUE_WALK_H
#define PARC_PASSES_SYNC_ISSUE_WALK_H

#include "ir/memory.h"
#include "passes/pipeline/staged_loop.h"

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
    int pass; /* of a staged loop, for ISSUE_RANK: which stage and phase of the body */
} IssueFrame;

/* The part of a step with a pipeline that a walker is limited to. */
typedef enum IssuePart {
    ISSUE_WHOLE,
    ISSUE_RANK,     /* what a coordinate runs; of a staged loop, for each microbatch the
                     * actions of its stages one after another */
    ISSUE_SEQUENCE, /* as ISSUE_WHOLE, with the iterations that all stages run one after another */
    ISSUE_BEFORE, /* what a coordinate runs before its stages' actions … */
    ISSUE_AFTER,  /* … and after them */
    ISSUE_ACTION, /* one action of a stage: a moment of a microbatch */
} IssuePart;
typedef struct IssueScope {
    IssuePart part;
    int coordinate, stage;
    Moment moment;
    int64_t rounds; /* the most iterations of loops of rounds (parc_rounds); 0: all */
} IssueScope;

typedef struct IssueWalk {
    const Program *p;
    IssueScope scope;
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
    bool elsewhere;      /* ISSUE_RANK: of a stage that the rank does not run; it runs the
                          * waits and records of the statement, which order others too */
} Issued;

/* A walker at the begin of the step. */
IssueWalk issue_walk(const Program *p);
/* A walker at the begin of a part of the step. */
IssueWalk issue_walk_part(const Program *p, IssueScope scope);
/* Goes on to the next stop. */
IssueStop issue_next(IssueWalk *w, Issued *x);
/* At ISSUE_ITERATION: leaves out n iterations of the innermost loop, from this one on. */
void issue_skip(IssueWalk *w, int64_t n);
/* Moves the walker by n iterations of the loop of frame `depth`, around where it is. */
void issue_shift(IssueWalk *w, int depth, int64_t n);
/* The iterations at the end of a loop that differ from those before: the largest prefetch
 * distance, and the largest number of remaining iterations at which a statement of
 * another loop is issued. */
int64_t issue_ahead(const Op *loop);
int64_t issue_left(const Op *loop);

/* Whether the loop that issues the present op is in its first iteration. */
bool issue_is_first(const IssueWalk *w);
/* The slot of the event that the present op records or waits for. */
int issue_slot(const IssueWalk *w, const Op *op);
/* The same: `layer` of the loop attr_loop(op), if `inside` it. */
int event_slot(const Op *op, bool inside, int64_t layer);

/* An op that the `early` starts. */
const Op *issue_started(const Op *early);

#endif
