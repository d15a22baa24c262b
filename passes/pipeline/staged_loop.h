/* staged_loop.h: what the stages of a pipeline do in a loop over microbatches that
 * is `staged` (Op.staged), and how long its tensors live.
 *
 *   1F1B, stage 0 of 2 (F forward, B backward, > send, < receive a gradient)
 *
 *   F0 F1 >0 <0 B0 F2 >1 <1 B1 F3 >2 <2 B2 >3 <3 B3
 *
 * An op of the loop's body belongs to one moment of each microbatch. A tensor that
 * ops of several moments access needs as many buffers as microbatches are between
 * these moments at one time; microbatch i uses buffer i mod their number. Here the
 * activations that F saves for B need two.
 */
#ifndef PARC_PASSES_PIPELINE_STAGED_LOOP_H
#define PARC_PASSES_PIPELINE_STAGED_LOOP_H

#include "ir/ir.h"
#include "passes/pipeline/timetable.h"

/* What a stage does with a microbatch, in this order. */
typedef enum Moment {
    MOMENT_RECEIVE, /* activations; not on the first stage */
    MOMENT_FORWARD,
    MOMENT_SEND, /* neither on the last stage … */
    MOMENT_RECEIVE_GRADIENT, /* … */
    MOMENT_BACKWARD,
    MOMENT_SEND_GRADIENT, /* not on the first stage */
    MOMENT_WEIGHTS,       /* zero_bubble */
    MOMENTS
} Moment;

/* The timetable of a staged loop. */
Timetable staged_timetable(const Program *p, const Op *loop);
/* The moment of an op of the loop's body, or of an op inside of it; of a move that in
 * which it sends. */
Moment staged_moment(const Op *loop, const Op *op);
/* Whether a stage does something for the op in that moment. */
bool staged_in_moment(const Op *loop, const Op *op, Moment at);
/* The moment in which a stage runs it; MOMENTS: it does not. At the ends of a loop
 * over layers its transfers are part of the forward or backward pass: they move
 * nothing between stages. */
Moment staged_moment_on(const Program *p, const Op *loop, const Op *op, int stage);
/* Whether the op, which a stage runs in that moment, gets its results from another
 * stage; whether it is a move that only sends. */
bool moment_receives(const Op *op, Moment at);
bool moment_sends(const Op *op, Moment at);
/* The first op of the loop's body after those of the phase; NULL: they are the last.
 */
Op *staged_phase_end(const Op *loop, Phase phase);
bool staged_has_phase(const Op *loop, Phase phase);
/* The moment of an action, and the stage that does it. */
Moment action_moment(const Action *x);
int action_stage(const Action *x);

/* The most microbatches that are between the begin of moment `first` on the stage
 * and the end of moment `last`, both of which it has, at one time: as many buffers
 * are needed for what lives so long. */
int64_t staged_buffers(const Timetable *t, int stage, Moment first, Moment last);

#endif
