/* streams.h: the order of issue of a step's statements, their events and their
 * barriers.
 *
 * A stream runs its statements one after another; different streams run
 * concurrently, except where events order them: an event is recorded after a
 * statement, and others wait for it before they begin. The order of issue is
 * that of the ops, except for those that are marked done, which ops `start`
 * issue (issue.c). The pass `events` adds records, waits and barriers from the
 * addresses; hazards.c checks the result independently. A target with one
 * stream has no events.
 *
 * The header also declares the files of other passes that consider streams:
 * memory_streams.c, memory_lead.c and schedule_overlap.c.
 */
#ifndef PARC_PASSES_STREAMS_H
#define PARC_PASSES_STREAMS_H

#include "passes/memory.h"

/* Where a gather is hoisted to. */
typedef enum IssueKind {
    ISSUE_HERE,  /* in the current iteration */
    ISSUE_FIRST, /* before its loop: for iteration `turns` */
} IssueKind;

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

/* The prefetch distance in units; of a fetch that no gather reads in
 * iterations. */
int64_t issue_prefetch(const Op *op);
/* The index of a gather among the gathers of its region, and their number. */
int issue_unit_number(const Op *gather, int *units);
/* The unit at whose beginning the op is issued, in the iteration *distance
 * earlier; -1: at the beginning of the iteration. */
int issue_unit(const Op *op, int *distance);
/* Ops without a statement: views, values that the runtime sets, copies of a
 * buffer to itself. */
bool issue_is_silent(const Op *op);

/* ---- issue_order.c ------------------------------------------------------- */

/* Puts the statements of a step into the order of issue: adds ops early and
 * start. */
void issue_order(Program *p, const Ahead *ahead);

/* ---- meetings.c ---------------------------------------------------------- */

/* Adds the ops barrier. */
void meetings_find(Program *p);
/* Simulates two steps and checks that no rank can read shared memory before
 * another has written it, or overwrite it before another has read it. NULL, or
 * a description of the fault. `without`: a barrier that is ignored; NULL:
 * none. */
const char *meetings_check(const Program *p, const Op *without);

/* ---- events.c ------------------------------------------------------------ */

/* Checks that a program after the last pass has all waits, records and barriers
 * that it needs. NULL, or what is wrong. */
const char *events_check(const Program *p);

/* ---- schedule_overlap.c -------------------------------------------------- */

/* Orders ops so that compute has work while tensor axes communicate. Requires
 * the streams of ops. */
void schedule_overlap(Program *p);

/* ---- hazards.c ----------------------------------------------------------- */

/* Checks that the order of any two accesses to the same bytes from different
 * streams, at least one a write, is that of issue. NULL, or a description of
 * the first hazard: both ops and tensors. `without`: a wait that is ignored;
 * NULL: none. */
const char *hazards_check(const Program *p, const Op *without);

#endif
