/* parc_pipeline.h: what the ranks of a pipeline do, and the transfers between them.
 */
#ifndef PARC_PIPELINE_H
#define PARC_PIPELINE_H

#include "parc_rt.h"

/* What a rank of a pipeline does, in order. A run is a list of actions that is
 * repeated: in repetition k each is for microbatch micro + k * shift. */
typedef enum ParcActionKind {
    PARC_FORWARD,
    PARC_BACKWARD,
    PARC_WEIGHTS,          /* gradients of weights, if BACKWARD has left them out */
    PARC_SEND,             /* what the forward pass ends with, to the next stage */
    PARC_RECEIVE,
    PARC_SEND_GRADIENT,    /* what the backward pass ends with, to the stage
                            * before */
    PARC_RECEIVE_GRADIENT,
} ParcActionKind;
typedef struct ParcAction {
    ParcActionKind kind;
    int64_t micro;
    int64_t stage; /* if the rank has several; else 0 */
} ParcAction;
typedef struct ParcRun {
    int n;
    const ParcAction *action;
    int64_t repeats, shift;
} ParcRun;
/* By coordinate of the pipeline's axis; a run without actions ends the list. */
typedef struct ParcPipeline {
    uint32_t axis; /* bit mask */
    const ParcRun *const *run;
    int64_t stages; /* of all ranks */
} ParcPipeline;
/* Begins action number i of the rank; false: there are no more. */
bool parc_action(ParcRt *rt, const ParcPipeline *p, int64_t i,
                 ParcAction *action);

/* Transfers from one rank of the group over `axes` to another, which are its
 * members number `to` and `from`: `bytes` at an offset of the sender's arena, to
 * an offset of the receiver's. Between two ranks transfers have one order. With
 * CUDA a transfer is on the stream of its id. On the CPU a receive is on
 * PARC_COMPUTE, and a send on PARC_TRANSFER: the sender goes on before the receiver
 * has the bytes. */
void parc_send(ParcRt *rt, int id, uint32_t axes, int64_t to, int64_t offset,
               int64_t bytes);
void parc_receive(ParcRt *rt, int id, uint32_t axes, int64_t from,
                  int64_t offset, int64_t bytes);

#endif
