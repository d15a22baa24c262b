/* save_async.h: declares saves that a thread of each rank writes while the run
 * continues (--save-async): save_async.c. */
#ifndef PARC_RT_SAVE_ASYNC_H
#define PARC_RT_SAVE_ASYNC_H

#include <pthread.h>

#include "checkpoint/save.h"
#include "rt.h"

/* The staging buffer and the writer thread of one rank. */
typedef struct RtAsync {
    char *memory;     /* the staging buffer; NULL: saves are synchronous */
    int64_t bytes;
    ParcModel model;  /* the run's model, but the offsets of its parameters are
                         those in the staging buffer */
    ParcParam *param; /* its parameters */
    uint32_t count;   /* number of saves that have begun */
    bool busy;        /* the thread has not been joined yet */
    pthread_t thread;
    _Atomic bool ready; /* the thread has done its work */
    RtPace pace;        /* of its writes */
    bool late; /* a save was not complete when the next one began */
    /* What the thread works on. */
    const ParcRt *rt;
    RtSaver saver;
    RtSave save;
    char *state;   /* rank 0: the state of the run as text; NULL: no memory */
    RtSaved saved; /* rank 0: the result */
} RtAsync;

/* Bytes of the staging buffer of a rank: `staging` in the plan. */
int64_t rt_staging_bytes(const ParcModel *model);

/* Allocates the staging buffer. All ranks call it before the first step. */
void rt_async_open(ParcRt *rt, struct RtRun *run);
/* Begins to save the state after `step`, and returns when it has been copied.
 * Waits for the previous save first. All ranks call it after the same step. */
void rt_async_save(ParcRt *rt, struct RtRun *run, int64_t step);
/* Rank 0 calls it after each step: reports a save that has failed. */
void rt_async_check(ParcRt *rt, struct RtRun *run);
/* Waits for the latest save and frees the staging buffer; all ranks call it.
 * run->saver.saved is -1 then if that save has failed. */
void rt_async_close(ParcRt *rt, struct RtRun *run);

#endif
