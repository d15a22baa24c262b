/* save.h: declares how a run saves checkpoints.
 *
 * DIR/step-00001000/ is one checkpoint: for each rank a file
 * rank-00003.safetensors with the pieces that the rank writes (further files
 * rank-00003-2.safetensors, … follow one of 5 GB), and index.json, which
 * describes the pieces of every tensor and the state of the run.
 */
#ifndef PARC_RT_SAVE_H
#define PARC_RT_SAVE_H

#include <pthread.h>
#include <stdio.h>

#include "checkpoint/pieces.h"
#include "checkpoint/safetensors.h"
#include "rt.h"

struct RtRun;

/* ---- the pieces that a rank writes (save_files.c) ---- */

/* A block of one layer of a parameter or optimizer state. Tensors are numbered
 * over all layers of all saved parameters, in the order of the model. */
typedef struct RtWritten {
    int64_t tensor;
    int param;
    int64_t layer;
    RtBlock block;
    int file;           /* number of the rank's file */
    int64_t begin, end; /* bytes of the file */
    uint32_t crc;       /* set when the piece is written */
} RtWritten;

typedef struct RtPieces {
    int rank;
    RtWritten *at;
    int64_t n, capacity;
    int files;
} RtPieces;

/* Whether checkpoints contain the parameter or optimizer state: a rank stores
 * it, and it is not a copy. */
bool rt_param_is_saved(const ParcParam *p);
/* The pieces that a rank writes, in files of at most `limit` bytes of data. */
enum { RT_SAVE_NAME = 64 };
void rt_pieces_list(RtPieces *p, const ParcModel *model, int rank,
                    int64_t limit);
void rt_pieces_free(RtPieces *p);
/* Writes that are made beside steps take little of the memory's bandwidth,
 * until something waits for them. */
typedef struct RtPace {
    _Atomic bool hurry;
} RtPace;

/* Writes the rank's files to `directory` and syncs them, then the list of its
 * pieces (rank-00003.pieces), for rt_index_write. `memory` is the rank's arena
 * or a copy of it. `pace` NULL: at full speed. Returns 0 or an errno. */
int rt_pieces_write(RtPieces *p, const ParcModel *model, const char *directory,
                    const char *memory, const RtPace *pace);
/* "rank-00003.safetensors", "rank-00003-2.safetensors" */
void rt_piece_file(int rank, int file, char name[RT_SAVE_NAME]);
void rt_pieces_name(int rank, char name[RT_SAVE_NAME]);

/* ---- index.json (save_index.c, state.c) ---- */

/* Writes and syncs index.json from the state of the run and the lists of pieces
 * of all ranks, which it removes. Returns 0 or an errno. */
int rt_index_write(const ParcRt *rt, const char *state, const char *directory);
/* The state of the run after `step`, as a JSON object in text that the caller
 * frees; NULL if memory is short. */
char *rt_state_text(const ParcRt *rt, const struct RtRun *run, int64_t step);

/* ---- the directory of the checkpoints (save_directory.c) ---- */

#define RT_INDEX_NAME "index.json"
#define RT_CHECKPOINT_FORMAT "parc-checkpoint"
enum { RT_CHECKPOINT_VERSION = 1 };

/* DIR of --save. */
typedef struct RtSaver {
    const char *directory; /* NULL: the run does not save */
    int lock;              /* file that is locked while the run lasts; -1 */
    int64_t every, keep;   /* as in RtOptions */
    int64_t saved;         /* step of the checkpoint that DIR certainly has;
                              -1: none */
    int failures;          /* failed saves in a row */
    uint32_t count;        /* number of saves that have begun */
} RtSaver;

/* How a save has ended, on rank 0: an errno, and what failed: a
 * file, or "rename". */
typedef struct RtSaved {
    int error;
    char what[RT_SAVE_NAME];
} RtSaved;

/* The step of a name "step-00001000"; -1 for any other name. */
int64_t rt_step_of(const char *name);
void rt_step_name(int64_t step, char name[RT_SAVE_NAME]);
/* The steps in a directory, newest first; the caller frees *steps. Returns
 * their number, or -1 and errno. */
int rt_steps_list(const char *directory, int64_t **steps);

/* Creates and locks DIR, and removes what runs that ended while they saved have
 * left there. False after a message. */
bool rt_saver_open(RtSaver *s);
/* Creates a directory step-….tmp-<random> in DIR. Returns 0 or an errno. */
int rt_save_begin(const RtSaver *s, int64_t step, char name[RT_SAVE_NAME]);
/* Gives the directory its name, then removes the oldest checkpoints. If the
 * name cannot be made durable, the checkpoint stays, but is not saved: no
 * checkpoint is removed. */
RtSaved rt_save_commit(const RtSaver *s, int64_t step, const char *temporary);
void rt_save_discard(const RtSaver *s, const char *temporary);

/* ---- a save (save.c) ---- */

/* Whether --save-every or the end of the run asks for a save after `step`. */
bool rt_save_is_due(const struct RtRun *run, int64_t step);

/* Saves the state after `step`: with --save-async it returns when the state has
 * been copied. All ranks call it after the same step and get the same result in
 * run->saver.saved. A failure is a note; the third in a row ends the run. */
void rt_checkpoint_save(ParcRt *rt, struct RtRun *run, int64_t step);

/* A save that all ranks have begun. */
typedef struct RtSave {
    int64_t step;
    int32_t error;  /* errno of rank 0, which could not begin it; else 0 */
    uint32_t count; /* its number */
    char name[RT_SAVE_NAME]; /* the temporary directory in DIR */
} RtSave;

/* The staging buffer and the writer thread of one rank, with --save-async. */
typedef struct RtAsync {
    char *memory; /* the staging buffer; NULL: saves are synchronous */
    int64_t bytes;
    ParcModel model;  /* the run's model, but the offsets of its parameters are
                         those in the staging buffer */
    ParcParam *param; /* its parameters */
    bool busy;        /* the thread has not been joined yet */
    pthread_t thread;
    _Atomic bool ready; /* the thread has done its work */
    RtPace pace;        /* of its writes */
    bool late;          /* a save was not complete when the next one began */
    /* What the thread works on. */
    const ParcRt *rt;
    RtSaver saver;
    RtSave save;
    char *state;   /* rank 0: the state of the run as text; NULL: no memory */
    RtSaved saved; /* rank 0: the result */
} RtAsync;

/* Bytes of the staging buffer of a rank, and of the rank that needs the most: `staging`
 * in the plan. */
int64_t rt_staging_bytes(const ParcModel *model, int rank);
int64_t rt_staging_most(const ParcModel *model);

/* Allocates the staging buffer. All ranks call it before the first step. */
void rt_async_open(ParcRt *rt, struct RtRun *run);
/* Rank 0 calls it after each step: reports a save that has failed. */
void rt_async_check(ParcRt *rt, struct RtRun *run);
/* Waits for the latest save and frees the staging buffer; all ranks call it.
 * run->saver.saved is -1 then if that save has failed. */
void rt_async_close(ParcRt *rt, struct RtRun *run);

#endif
