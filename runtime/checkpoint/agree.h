/* agree.h: declares how the ranks agree, between steps, whether to go on, to
 * save or to stop. */
#ifndef PARC_CHECKPOINT_AGREE_H
#define PARC_CHECKPOINT_AGREE_H

#include "rt.h"

struct RtRun;

/* What all ranks do next; flags. RT_STOP includes RT_SAVE. */
enum { RT_SAVE = 1, RT_STOP = 2 };

/* The state of the agreement in one rank. */
typedef struct RtAgree {
    uint32_t point; /* number of the latest point of agreement, from 1 */
    uint32_t before, next; /* over connections: the points of the previous and
                              of the next message */
    double since;   /* rank 0: time of the previous message */
    uint32_t saves; /* rank 0: requests by SIGUSR1 that it has served */
    int pending;    /* RT_SAVE, RT_STOP: agreed, and not done yet */
} RtAgree;

/* Called by all ranks before the first step: from now on signals request a save
 * or a stop instead of ending the process. */
void rt_agree_start(struct RtRun *run);

/* All ranks call it at the same points: after each step, after a save, and
 * after each batch of an evaluation, which RT_STOP cuts short. Returns what is
 * agreed and not done yet; RT_SAVE only with --save. Only ranks other than 0
 * wait, for rank 0 to reach the same point. */
int rt_agree(ParcRt *rt, struct RtRun *run);
/* The ranks have saved: RT_SAVE is done. Their next call of rt_agree considers
 * all requests that rank 0 has received. */
void rt_agree_saved(struct RtRun *run);

/* The exit status on which the ranks of this process have agreed: 128 + the
 * signal that stopped the run; 0: no signal has. */
int rt_agree_status(const RtWorld *w);

#endif
