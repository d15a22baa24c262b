/* export.h: declares how a run writes its weights (--export): export.c lists
 * the tensors and writes one file, export_files.c writes files and
 * directories. */
#ifndef PARC_CHECKPOINT_EXPORT_H
#define PARC_CHECKPOINT_EXPORT_H

#include "common/files.h"
#include "options/options.h"
#include "rt.h"

/* Where --export writes. Zero-initialize; rt_export_prepare sets it. */
typedef struct RtExportTo {
    const char *path; /* as the user gave it; NULL: no export */
    char *directory;     /* the directory of several files; NULL: one file */
    char *stem;       /* what their names begin with: "model" */
    bool part;        /* not all weights: --export-only */
    bool index;       /* path names an index: there is always one */
    char *temporary;  /* the temporary file or directory; "": path is written
                         directly */
} RtExportTo;

/* Checks the options and that the path can be written; false after a
 * message. */
bool rt_export_prepare(RtExportTo *to, const RtOptions *o,
                       const ParcModel *model);
void rt_export_release(RtExportTo *to);

/* Writes the weights, whole or not at all. Returns NULL or an error. One rank
 * calls it, while the others wait at a synchronization point. */
const char *rt_export(ParcRt *rt, const RtExportTo *to, const RtOptions *o);

/* ---- the tensors of an export (export.c) ---- */

/* A layer of a parameter, or a part of it, as a part of a tensor. */
typedef struct RtPiece {
    const ParcParam *param;
    int64_t layer, part;
    const ParcFileTensor *view; /* NULL: the piece is all of the tensor */
} RtPiece;

typedef struct RtExportTensor {
    char *name;
    int ndim;
    const int64_t *dim;
    int64_t elements;
    int first, n; /* its pieces */
    int file;     /* the number of its file */
} RtExportTensor;

typedef struct RtExportList {
    const ParcModel *model;
    bool foreign;  /* the names of `names hf`, else the model's own */
    ParcType type; /* element type in the files */
    double average; /* 0: the weights; else their averages, states of which this is the
                       factor */
    RtPiece *piece;
    RtExportTensor *tensor;
    int n, nfiles;
} RtExportList;

/* Lists all tensors and distributes them over files of at most `most` bytes of
 * data; 0: one file. A tensor is never split. */
void rt_export_list(RtExportList *l, const ParcModel *model,
                    const RtOptions *o, int64_t most);
void rt_export_list_free(RtExportList *l);
int64_t rt_export_bytes(const RtExportList *l, const RtExportTensor *t);
/* Writes one file of the list. */
void rt_export_file(RtOutput *w, ParcRt *rt, const RtExportList *l, int file);

#endif
