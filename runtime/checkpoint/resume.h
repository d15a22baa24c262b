/* resume.h: declares how a run continues from a checkpoint: resume_index.c
 * reads what a checkpoint contains, resume.c selects a checkpoint and compares
 * it with the model, resume_load.c reads the tensors. */
#ifndef PARC_RT_RESUME_H
#define PARC_RT_RESUME_H

#include "checkpoint/pieces.h"
#include "common/json.h"
#include "data/data.h"
#include "options/settings.h"
#include "rt.h"

/* The state in the index of a checkpoint. */
typedef struct RtRunState {
    int64_t step, tokens, updates, seed;
    int64_t steps; /* option --steps of the run; 0: not known */
    bool shuffle;
    RtScale scale;       /* scale 0: the run did not scale its loss */
    RtSettings settings; /* those that the run has changed */
    RtDataState data;    /* rt_state_free */
} RtRunState;

/* Reads the JSON object; errors are those of `j` (state.c). */
void rt_state_read(RtRunState *s, RtJson *j);
void rt_state_free(RtRunState *s);

/* A block of a tensor in a file. */
typedef struct RtSavedPiece {
    int tensor, file;
    int64_t begin, end; /* bytes of the file */
    int64_t offset[PARC_MAX_DIMS], extent[PARC_MAX_DIMS];
    uint32_t crc;
} RtSavedPiece;

typedef struct RtSavedTensor {
    char *name;
    int64_t at; /* position of its name in index.json */
    int ndim;
    int64_t dim[PARC_MAX_DIMS];
    int64_t first, n; /* its pieces */
} RtSavedTensor;

typedef struct RtSavedFile {
    char *name;
    int64_t size; /* bytes; -1: the file cannot be read */
    int error;    /* errno then */
} RtSavedFile;

enum { RT_RESUME_WHY = 1024 };
typedef struct RtResume {
    char *path;   /* directory of the checkpoint; NULL: none */
    bool newest;  /* it was selected as the newest whole one of its directory */
    RtRunState state;
    char optimizer[32];
    RtSavedTensor *tensor; /* by name, after rt_resume_read */
    RtSavedPiece *piece;   /* those of a tensor are together */
    RtSavedFile *file;
    int64_t ntensors, npieces, nfiles;
    int64_t tensors_capacity, pieces_capacity, files_capacity;
    char why[RT_RESUME_WHY]; /* why it cannot be read */
} RtResume;

/* Reads index.json of the directory and the sizes of its files. False if the
 * checkpoint is not whole: c->why is a message with file and byte. */
bool rt_resume_read(RtResume *c, const char *directory);
void rt_resume_close(RtResume *c);
/* The tensor of a name; NULL: there is none. */
const RtSavedTensor *rt_saved_find(const RtResume *c, const char *name);

/* Verifies the checksums, and copies what each rank stores of the tensors to
 * its arena and device. All ranks call it; a failure ends the run. */
void rt_resume_load(ParcRt *rt, const RtResume *c);

#endif
