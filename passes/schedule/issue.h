/* issue.h: the order of issue of a step's statements.
 *
 * A stream runs its statements one after another; different streams run
 * concurrently, except where events order them (sync.h). The order of issue is
 * that of the ops, except for those that are marked done, which ops `start`
 * issue (issue_order.c).
 */
#ifndef PARC_PASSES_SCHEDULE_ISSUE_H
#define PARC_PASSES_SCHEDULE_ISSUE_H

#include "ir/analysis/alias.h"
#include "ir/units.h"
#include "passes/pass.h"

/* Where a gather is hoisted to. */
typedef enum IssueKind {
    ISSUE_HERE,  /* in the current iteration */
    ISSUE_FIRST, /* before its loop: for iteration `iteration` */
} IssueKind;

/* ---- issue.c ------------------------------------------------------------- */

/* A gather that is hoisted across loops: one outside of loops, or that of a
 * loop's first iterations. It is issued before another op of the region; if
 * that op is a loop, in one of its last iterations. */
typedef struct Hoist {
    const Op *gather;
    IssueKind kind;    /* ISSUE_FIRST for a loop's first iterations; else
                        * ISSUE_HERE */
    int iteration;     /* ISSUE_FIRST: the iteration that it gathers for */
    const Op *at;      /* the op before or in which it is issued; NULL: not
                        * hoisted */
    int left;          /* if `at` is a loop: remaining iterations when it is
                        * issued */
    int unit;          /* if `at` is a loop: the unit of the iteration where it
                        * is issued; -1: at the iteration's start */
} Hoist;

/* Whether an operand of the op is a result of `of`, or a view of one. */
bool issue_reads(const Op *op, const Op *of);

/* The ops that are issued earlier than in the program: within their loop, or
 * across loops. */
typedef struct Prefetches {
    const Op **gather; /* by op id: the gather that it is issued with (itself;
                        * a fetch; an op that makes the gather's operands);
                        * NULL: it is not hoisted within its loop */
    int *distance;     /* by op id: prefetch distance in iterations */
    VEC(Hoist) hoist;  /* in the order in which their results are needed */
    const Op **hoisted; /* by op id, outside of loops: the gather hoisted across
                         * loops that it is issued with, or itself; or NULL */
} Prefetches;
Prefetches issue_prefetches(const Program *p, const TargetInfo *t);
/* Moves the ops that are issued with a gather directly before it. Else one of
 * them could precede an earlier gather of the region, after which the unit
 * begins where they are issued. */
void issue_sink_producers(Program *p, const TargetInfo *t);
/* The op before or after which a gather is issued if it is not hoisted: itself,
 * or its loop. */
const Op *issue_hoist_origin(const Hoist *hoist);
/* Whether the op is issued with the hoisted gather: the gather itself, or an op
 * that makes its operands. */
bool issue_hoist_includes(const Prefetches *prefetch, const Op *op,
                          const Hoist *hoist);
/* The number of buffers of a prefetched fetch: iterations in flight from its
 * issue to that of its last reader. */
int64_t issue_fetch_slots(const Prefetches *prefetch, const Op *fetch);
/* The number of gathers of units in the region before `end`; NULL: all. */
static inline int issue_units_before(const Region *r, const Op *end)
{
    int units = 0;
    for (const Op *op = r->first; op != end; op = op->next)
        units += op_is_unit_gather(op);
    return units;
}
/* The unit at whose beginning the op is issued, in the iteration *distance
 * earlier; -1: at the beginning of the iteration. */
int issue_unit(const Op *op, int *distance);

/* The number of buffers of a gather in a loop with a prefetch distance:
 * iterations in flight. An iteration gathers `units` units. The gather is
 * issued where the unit `prefetch` units earlier begins, and its result lives
 * until `during` units after its own begins: of prefetch + during + 1
 * consecutive units, every units-th is this one. */
int64_t issue_gather_slots(const Op *gather);

/* ---- issue_hoist.c --------------------------------------------------------
 */

/* Finds the gathers to hoist across loops, by each one's prefetch distance. */
void issue_find_hoists(const Program *p, const TargetInfo *t,
                       Prefetches *prefetch);

/* ---- issue_order.c ------------------------------------------------------- */

/* Puts the statements of a step into the order of issue: adds ops early and
 * start. */
void issue_order(Program *p, const Prefetches *prefetch);

/* ---- schedule_streams.c -------------------------------------------------- */

/* Sets the stream of every op. */
void schedule_streams(Program *p);

/* ---- schedule_list.c --------------------------------------------------- */

/* Orders the ops of pieces, and of layers with experts on several ranks, so that compute
 * has work while collectives of the stream `tensor` run. Requires the streams of ops. */
void schedule_list(Program *p);

/* ---- schedule_overlap.c -------------------------------------------------- */

/* Whether the op takes time of the compute stream. */
bool schedule_computes(const Op *op);
/* The time of an op of a rank, as flops that a GPU computes meanwhile in 16 bits: 700
 * Tflop/s, 2.8 TB/s of memory and 330 GB/s of a link on an H100, and about in this
 * ratio on an A100 and a B200. 0 for ops of other streams than compute's and that of
 * tensor axes. */
double schedule_cost(const Program *p, const Op *op);
/* Orders ops so that compute has work while tensor axes communicate. Requires
 * the streams of ops. */
void schedule_overlap(Program *p);

#endif
