/* timetable.h: the order in which the ranks of a pipeline work and send.
 *
 *   1f1b, 2 ranks, 4 microbatches (F forward, B backward)
 *
 *   rank 0   F0 F1    B0 F2 B1 F3 B2    B3
 *   rank 1      F0 B0 F1 B1 F2 B2 F3 B3
 *
 * The order of the work on a rank is that of the schedule: gpipe; 1F1B
 * (PipeDream-Flush, arXiv 2104.04473), also with several stages on each rank; the
 * schedule ZB-H1 of Zero Bubble (arXiv 2401.10241), which computes the gradients
 * of weights where a rank would wait. On every stage each kind of work is done in
 * the order of the microbatches, so that sums over them do not depend on the
 * schedule.
 *
 * Transfers have one order for all ranks: that of the times at which their
 * tensors exist in an ideal run, in which a forward pass takes one unit, a
 * backward pass two, one of them for the weights, and a transfer none. Of the
 * first transfer in this order that is not done, both ends do nothing that comes
 * after it before, and its sender needs only earlier ones. So some transfer is
 * always possible, even if no rank buffers anything and transfers of a rank are
 * done one by one. In the order of the work on each rank alone that does not
 * hold: two ranks may send to each other and wait.
 */
#ifndef PARC_PASSES_PIPELINE_TIMETABLE_H
#define PARC_PASSES_PIPELINE_TIMETABLE_H

#include "ir/plan_spec.h"

typedef enum ActionKind {
    ACTION_FORWARD,
    ACTION_BACKWARD, /* with the gradients of weights, unless there is … */
    ACTION_WEIGHTS,  /* … an action for them (zero_bubble) */
    ACTION_SEND,     /* to the next stage; of `gradient`: to the one before */
    ACTION_RECEIVE,
} ActionKind;

/* What a rank does. A send and its receive have the same stage, the one that
 * sends. */
typedef struct Action {
    ActionKind kind;
    bool gradient; /* of a transfer: from a backward pass */
    int stage;
    int64_t micro;
    int64_t begin, end; /* units of time in the ideal run */
} Action;

typedef VEC(Action) Actions;

typedef struct Timetable {
    int nranks, nstages; /* stage s is on rank s mod nranks */
    int64_t micro;       /* microbatches of a step */
    bool weights_apart;  /* there are ACTION_WEIGHTS */
    Actions *rank;       /* by rank: in order */
    int64_t *slots;      /* by stage: the most microbatches whose forward pass
                          * has begun and whose last action has not ended */
    int64_t units;       /* the length of the ideal run; a rank works 3 micro
                          * units for each of its stages */
} Timetable;

/* The timetable of a schedule for 2 ranks or more. zero_bubble has one stage on
 * each rank. */
Timetable timetable_new(Arena *a, PipelineSchedule schedule, int nranks,
                        int stages_per_rank, int64_t micro);

/* The part of the ideal run in which a rank waits. */
double timetable_bubble(const Timetable *t);

/* NULL if all work of all stages is done once when each rank follows the order of
 * its actions, where a send and its receive happen at one time; else what waits:
 * "rank 1 waits to receive …", or what is left out. It trusts nothing but that
 * order. */
const char *timetable_fault(Arena *a, const Timetable *t);

#endif
