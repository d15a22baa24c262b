/* streams.h: the order of issue of a step's statements, their events and their
 * barriers.
 *
 * A stream runs its statements one after another; different streams run
 * concurrently, except where events order them: a statement may record an event
 * when it completes, and others wait for it before they begin. The order of
 * issue is that of the program, except for hoisted gathers (issue.c). The pass
 * `events` adds records and waits from the addresses; hazards.c checks the
 * result independently. A target with one stream has no events.
 *
 * The header also declares the files of other passes that consider streams:
 * memory_streams.c, memory_lead.c and schedule_overlap.c.
 */
#ifndef PARC_PASSES_STREAMS_H
#define PARC_PASSES_STREAMS_H

#include "passes/memory.h"

enum { STREAM_COMPUTE, STREAM_TENSOR, STREAM_DATA, STREAM_HOST, STREAMS };
const char *stream_name(int stream);

typedef enum IssueKind {
    ISSUE_HERE,  /* in the current iteration */
    ISSUE_AHEAD, /* inside a loop: for the iteration `turns` later, if it
                  * exists */
    ISSUE_FIRST, /* before the loop: for iteration `turns` */
    ISSUE_BEGIN, /* the step begins: all earlier work is complete */
    ISSUE_END,   /* the step ends: all work is complete after it */
} IssueKind;

/* When a wait applies: WAIT_FIRST only in the first iteration of its loop. */
typedef enum WaitWhen { WAIT_ALWAYS, WAIT_FIRST } WaitWhen;

/* A wait for the latest record of an event. An event with slots, one for each
 * of the iterations in flight, is waited for in slot (iteration + offset) %
 * slots if the waiting statement is in the loop that records it, else in slot
 * `offset`. */
typedef struct Wait {
    int event;         /* index into StreamPlan.event */
    int offset;
    WaitWhen when;
    const char *why;   /* reason that the plan prints */
} Wait;

/* A barrier of the ranks of a group, on a target whose ranks share memory
 * (meetings.c). It is named after a collective. */
typedef struct Meeting {
    uint32_t axes;
    const Op *by;
    WaitWhen when;
    const char *why;   /* reason that the plan prints */
} Meeting;

/* A statement: an op in its place, or of another iteration of its loop. */
typedef struct Issue {
    int id;            /* unique in the plan */
    const Op *op;      /* NULL: begin and end */
    IssueKind kind;
    int turns;
    const Op *at;      /* where a hoisted gather is issued; NULL: not
                        * hoisted across ops */
    int left;          /* if `at` is a loop: remaining iterations when it is
                        * issued */
    int stream;
    int event;         /* recorded after it; -1: none */
    VEC(Wait) wait;    /* before it */
    VEC(Meeting) meet; /* before it, or in place of an in-place gather */
} Issue;

/* The statements that a region issues, in order: its own ops, and those that
 * loops in it need before they begin. */
typedef struct IssueList {
    Issue *at;
    int n;
} IssueList;

typedef struct Event {
    const Op *loop;    /* around the op that records it; NULL: none */
    int slots;         /* 1: every wait is for the latest record */
    int number;        /* its first slot: parc_record(…, number + …) */
} Event;

typedef struct StreamPlan {
    int streams;       /* number of streams of the target */
    int nissues;       /* ids in use */
    Issue begin, end;
    IssueList step;
    IssueList *body;   /* by op id of a loop */
    Event *event;
    int nevents;
    int nslots;        /* slots of all events together */
} StreamPlan;

/* ---- issue.c, memory_streams.c ------------------------------------------- */

/* A gather that is hoisted across loops: one outside of loops, or that of a
 * loop's first iterations. It is issued before another op of the region; if
 * that op is a loop, in one of its last iterations. */
typedef struct Lead {
    const Op *gather;
    IssueKind kind;    /* ISSUE_FIRST for a loop's first iterations; else
                        * ISSUE_HERE */
    int turns;         /* ISSUE_FIRST: the iteration that it gathers for */
    const Op *at;      /* the op before or in which it is issued; NULL: not
                        * hoisted */
    int left;          /* if `at` is a loop: remaining iterations when it is
                        * issued */
    int unit;          /* if `at` is a loop: the unit of the iteration where it
                        * is issued; -1: at the iteration's start */
} Lead;

/* The ops that are issued earlier than in the program: within their loop, or
 * across loops. */
typedef struct Ahead {
    const Op **gather; /* by op id: the gather that it is issued with (itself;
                        * a fetch; an op that makes the gather's operands);
                        * NULL: it is not hoisted within its loop */
    int *turns;        /* by op id: prefetch distance in iterations */
    VEC(Lead) lead;    /* in the order in which their results are needed */
    const Op **leads;  /* by op id, outside of loops: the gather hoisted across
                        * loops that it is issued with (or itself); NULL: none */
} Ahead;
Ahead issue_ahead(const Program *p, const TargetInfo *t);
/* The op before or after which a gather is issued if it is not hoisted: itself,
 * or its loop. */
const Op *issue_lead_stays(const Lead *lead);
/* Whether the op is issued with the hoisted gather: the gather itself, or an op
 * that makes its operands. */
bool issue_lead_has(const Ahead *ahead, const Op *op, const Lead *lead);
/* The number of buffers of a prefetched fetch: iterations in flight from its
 * issue to that of its last reader. */
int64_t issue_fetch_slots(const Ahead *ahead, const Op *fetch);

/* The time from which compute has waited for what x accesses on its stream. */
typedef struct Awaited {
    int time;
    const Op *turns; /* the outermost loop whose next iterations begin before
                      * that time; NULL: none */
} Awaited;
Awaited memory_awaited(const Program *p, const Liveness *live,
                       const Ahead *ahead, const Op *x);

/* ---- issue_lead.c -------------------------------------------------------- */

/* Finds the gathers to hoist across loops, by each one's prefetch distance. */
void issue_find_leads(const Program *p, const TargetInfo *t, Ahead *ahead);

/* ---- memory_lead.c ------------------------------------------------------- */

/* Extends the live ranges of hoisted gathers to their issue points, and issues
 * those later for which the plan's lower bound would rise. `block` has the
 * blocks, `plan` the assignment of values to them. */
void memory_hold_leads(const Program *p, const Liveness *live, Ahead *ahead,
                       const MemoryPlan *plan, Block *block, int nblocks);

/* ---- issue.c ------------------------------------------------------------- */

/* The order of issue without events: on a target with streams from the memory
 * plan, else that of the program. Ids of ops must not change afterwards. */
StreamPlan *issue_plan(const Program *p, const TargetInfo *t);
/* The list of a region: the step's, or that of a loop's body. */
IssueList *issue_list(StreamPlan *s, const Region *r);
/* The loop whose body issues the statement; NULL: none. */
const Op *issue_loop(const Issue *i);
/* Whether two values have the same address in every iteration. */
bool issue_same_place(const Value *x, const Value *y);
/* Ops without a statement: views, values that the runtime sets, copies of a
 * buffer to itself. */
bool issue_is_silent(const Op *op);

/* ---- meetings.c ---------------------------------------------------------- */

/* Adds barriers: Issue.meet. */
void meetings_find(const Program *p, StreamPlan *s);
/* Simulates two steps and checks that no rank can read shared memory before
 * another has written it, or overwrite it before another has read it. NULL, or
 * a description of the fault. `without`: a barrier that is ignored; NULL:
 * none. */
const char *meetings_check(const Program *p, const StreamPlan *s,
                           const Meeting *without);

/* ---- schedule_overlap.c -------------------------------------------------- */

/* Orders ops so that compute has work while tensor axes communicate. Requires
 * the streams of ops. */
void schedule_overlap(Program *p);

/* ---- hazards.c ----------------------------------------------------------- */

/* Checks that the order of any two accesses to the same bytes from different
 * streams, at least one a write, is that of issue. NULL, or a description of
 * the first hazard: both ops and tensors. `without`: a wait that is ignored;
 * NULL: none. */
const char *hazards_check(const Program *p, const StreamPlan *s,
                          const Wait *without);

#endif
