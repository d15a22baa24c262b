/* streams.h: in which order the statements of a step are given to which
 * stream, and who waits for whom.
 *
 * A stream runs what it is given one after the other; different streams run
 * at the same time, but for the order that events make: a statement may
 * record an event when it is done, and others wait for it before they begin.
 * The order of issue is the program's, but for gathers that run ahead
 * (issue.c). The pass `events` decides who records and who waits, from the
 * addresses; hazards.c proves from nothing but the result that it is enough.
 * On a target with one stream there are no events.
 */
#ifndef PARC_PASSES_STREAMS_H
#define PARC_PASSES_STREAMS_H

#include "passes/memory.h"

enum { STREAM_COMPUTE, STREAM_TENSOR, STREAM_DATA, STREAM_HOST, STREAMS };
const char *stream_name(int stream);

typedef enum IssueKind {
    ISSUE_HERE,  /* in the turn that runs */
    ISSUE_AHEAD, /* inside a loop: for the turn `turns` later, if there is one */
    ISSUE_FIRST, /* in front of the loop: for turn number `turns`, from 0 */
    ISSUE_BEGIN, /* of the step: what was before it is done */
    ISSUE_END,   /* of the step: all is done behind it */
} IssueKind;

/* When a wait stands: WAIT_FIRST in the first turn of the loop around it. */
typedef enum WaitWhen { WAIT_ALWAYS, WAIT_FIRST } WaitWhen;

/* For the latest record of an event. An event that has slots, one for each of
 * so many turns of the loop that records it, is waited for in slot
 * (turn + offset) % slots, where the waiting statement runs in that loop, else
 * in slot `offset`. */
typedef struct Wait {
    int event;         /* index into StreamPlan.event */
    int offset;
    WaitWhen when;
    const char *why;   /* "w1 is there", "w1 has been read" */
} Wait;

/* All ranks of a group come here before one of them goes on: on a target whose
 * ranks share memory (meetings.c). It goes by the name of a collective. */
typedef struct Meeting {
    uint32_t axes;
    const Op *by;
    WaitWhen when;
    const char *why;   /* "all have written w1", "all have read w1" */
} Meeting;

/* A statement: an op where it stands, or of another turn of its loop. */
typedef struct Issue {
    int id;            /* unique in the plan */
    const Op *op;      /* NULL: begin and end */
    IssueKind kind;
    int turns;
    const Op *at;      /* a lead's (below); NULL: it is none */
    int left;          /* at is a loop: it stands in the turn with so many left */
    int stream;
    int event;         /* recorded behind it; -1: none */
    VEC(Wait) wait;    /* in front of it */
    VEC(Meeting) meet; /* in front of it, or where a gather in place stands */
} Issue;

/* What a region issues, in order; nothing but its own ops, and what loops in
 * it want before they begin. */
typedef struct IssueList {
    Issue *at;
    int n;
} IssueList;

typedef struct Event {
    const Op *loop;    /* around the op that records it; NULL: none */
    int slots;         /* 1: the latest record is the one that is waited for */
    int number;        /* of its first slot: parc_record(…, number + …) */
} Event;

typedef struct StreamPlan {
    int streams;       /* of the target */
    int nissues;       /* ids in use */
    Issue begin, end;
    IssueList step;
    IssueList *body;   /* by op id, of loops */
    Event *event;
    int nevents;
    int nslots;        /* of all events together */
} StreamPlan;

/* ---- issue.c, memory_streams.c ------------------------------------------- */

/* A gather that goes ahead of more than its loop: one outside of loops, or of
 * one of a loop's first turns. It is issued in front of another op of the
 * region; where that is a loop, in one of its last turns. */
typedef struct Lead {
    const Op *gather;
    IssueKind kind;    /* ISSUE_HERE, or ISSUE_FIRST … */
    int turns;         /* … for this turn of its loop */
    const Op *at;      /* NULL: it stays where it is */
    int left;          /* at is a loop: in the turn with so many left … */
    int unit;          /* … when this unit of the turn begins; -1: the turn */
} Lead;

/* Ops in loops that are issued ahead of where they stand, and leads. */
typedef struct Ahead {
    const Op **gather; /* by op id: itself, a fetch too, or the gather that it
                          makes operands for and goes with; NULL: it stays
                          where it stands */
    int *turns;        /* by op id: so many turns before its readers' */
    VEC(Lead) lead;    /* in the order in which they are wanted */
    const Op **leads;  /* by op id, outside of loops: the gather with a lead that
                          it goes with, itself too; NULL: none */
} Ahead;
Ahead issue_ahead(const Program *p, const TargetInfo *t);
/* The op around or behind which a lead stands when it stays: its gather, or the
 * loop that this is in. */
const Op *issue_lead_stays(const Lead *lead);
/* Whether the op is issued with the lead's gather: that, or what makes its
 * operands. */
bool issue_lead_has(const Ahead *ahead, const Op *op, const Lead *lead);
/* Of a fetch that runs ahead: how many turns' results exist at a time, from its
 * issue to that of its last reader. */
int64_t issue_fetch_slots(const Ahead *ahead, const Op *fetch);

/* When compute has waited for what x does on its own stream. */
typedef struct Awaited {
    int time;
    const Op *turns; /* the outermost loop whose next turns begin before;
                        NULL: none */
} Awaited;
Awaited memory_awaited(const Program *p, const Liveness *live,
                       const Ahead *ahead, const Op *x);

/* ---- issue_lead.c -------------------------------------------------------- */

/* Finds the leads: as many units ahead as each one's prefetch says. */
void issue_find_leads(const Program *p, const TargetInfo *t, Ahead *ahead);

/* ---- memory_lead.c ------------------------------------------------------- */

/* Holds the memory of leads from where they are issued, and lets those begin
 * later for which the plan's lower bound would rise. Blocks are `block`, places
 * in `plan`. */
void memory_hold_leads(const Program *p, const Liveness *live, Ahead *ahead,
                       const MemoryPlan *plan, Block *block, int nblocks);

/* ---- issue.c ------------------------------------------------------------- */

/* The order of issue, without events: on a target with streams as the memory
 * plan has it, else that of the program. Ids of ops must not change after. */
StreamPlan *issue_plan(const Program *p, const TargetInfo *t);
/* The list that a region issues: the step's, or that of a loop's body. */
IssueList *issue_list(StreamPlan *s, const Region *r);
/* The loop in whose body the statement stands; NULL: none. */
const Op *issue_loop(const Issue *i);
/* Whether two values begin at one address, in every turn. */
bool issue_same_place(const Program *p, const Value *x, const Value *y);
/* Ops without a statement: views, what the runtime sets, copies within one
 * place. */
bool issue_is_silent(const Program *p, const Op *op);

/* ---- meetings.c ---------------------------------------------------------- */

/* Says where ranks meet: Issue.meet. */
void meetings_find(const Program *p, StreamPlan *s);
/* Goes through two steps and looks whether a rank could read of shared memory
 * what another has not written yet, or write what another still has to read.
 * NULL, or who. `without`: a meeting that is left out; NULL: none. */
const char *meetings_check(const Program *p, const StreamPlan *s,
                           const Meeting *without);

/* ---- schedule_overlap.c -------------------------------------------------- */

/* Orders ops so that compute has work while tensor axes communicate; streams
 * of ops are set. */
void schedule_overlap(Program *p);

/* ---- hazards.c ----------------------------------------------------------- */

/* Goes through the step and looks whether any two statements on different
 * streams that touch the same bytes, one of them writing, could run in any
 * order but that of issue. NULL, or what is not ordered: both ops, their
 * tensors, and what is missing. `without`: a wait that is left out; NULL:
 * none. */
const char *hazards_check(const Program *p, const StreamPlan *s,
                          const Wait *without);

#endif
