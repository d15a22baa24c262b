/* source.h: declares a reader of one argument of --init: a file, a directory
 * or the index of a sharded model: source.c. */
#ifndef PARC_CHECKPOINT_SOURCE_H
#define PARC_CHECKPOINT_SOURCE_H

#include "checkpoint/safetensors.h"

/* Names of Hugging Face's files. */
#define RT_SINGLE_FILE "model.safetensors"
#define RT_INDEX_SUFFIX ".safetensors.index.json"
#define RT_INDEX_FILE "model" RT_INDEX_SUFFIX

typedef struct RtSource {
    char *path;         /* the file, or the index */
    char *directory;    /* of the path; NULL: --init names a single file */
    RtTensorFile *file; /* the files with tensors … */
    char **file_path;
    int nfiles;
    RtTensor **tensor;  /* … and all their tensors, sorted by name */
    int n;
    bool foreign; /* tensors have the names of `names hf` (weights.c) */
} RtSource;

/* Opens the files of `path`; false after a message. In a directory it takes
 * model.safetensors, else model.safetensors.index.json. Of a sharded model
 * it takes the tensors that the index lists, each from its file. */
bool rt_source_open(RtSource *s, const char *path);
void rt_source_close(RtSource *s);
/* NULL: the source has no tensor of this name. */
RtTensor *rt_source_find(const RtSource *s, const char *name);

/* Whether a path names an index by its suffix ".index.json". */
bool rt_is_index(const char *path);
/* Whether `name` is the name of a file within a directory: no '/', neither "."
 * nor "..", not empty. */
bool rt_is_file_name(const char *name);

#endif
