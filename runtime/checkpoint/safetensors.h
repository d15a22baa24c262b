/* safetensors.h: declares the readers of safetensors files (safetensors.c) and
 * of several files as one source (source.c), and their layouts. */
#ifndef PARC_CHECKPOINT_SAFETENSORS_H
#define PARC_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "parc_rt.h"

enum { RT_MAX_NDIM = 8, RT_LENGTH_BYTES = 8 };
/* The data bytes of a file of a checkpoint, and by default of an export. */
#define RT_FILE_BYTES INT64_C(5000000000)

/* One tensor of a file. Positions are bytes from the start of the file. */
typedef struct RtTensor {
    char *name;
    int64_t at; /* position of its name in the header */
    const struct RtTensorFile *file;
    int type; /* a ParcType; -1: elements of this type cannot be read */
    char dtype_name[8];
    int ndim;
    int64_t dim[RT_MAX_NDIM];
    int64_t begin, end;
    bool used;  /* for the callers */
} RtTensor;

/* A file in memory and its tensors, sorted by name. Initialize path, map and
 * size. */
typedef struct RtTensorFile {
    const char *path;
    const unsigned char *map;
    int64_t size;
    RtTensor *tensor;
    int n;
    int64_t capacity;
    char names[8]; /* the entry "names" of the metadata; "" without one */
} RtTensorFile;

/* Parses the header of f->map. Returns NULL, or an error and its position *at.
 * Each tensor's range is within the file and matches its type and shape. */
const char *rt_safetensors_header(RtTensorFile *f, int64_t *at);
/* Frees the list of tensors. */
void rt_safetensors_free(RtTensorFile *f);

/* Maps a file and parses its header; false after a message. The path must stay
 * valid. */
bool rt_tensor_file_open(RtTensorFile *f, const char *path);
void rt_tensor_file_close(RtTensorFile *f);
/* NULL: the file has no tensor of this name. */
RtTensor *rt_tensor_find(const RtTensorFile *f, const char *name);

/* ---- one argument of --init: a file, a directory or the index of a sharded
 * model (source.c) ---- */

/* Names of Hugging Face's files. */
#define RT_SINGLE_FILE "model.safetensors"
#define RT_INDEX_SUFFIX ".safetensors.index.json"
#define RT_INDEX_FILE "model" RT_INDEX_SUFFIX

/* A tensor, and the position of its name in the index or file. */
typedef struct RtEntry {
    char *name;
    int64_t at;
    int file; /* its number */
    RtTensor *tensor;
} RtEntry;

typedef struct RtSource {
    char *path;         /* the file, or the index */
    char *directory;    /* of the path; NULL: --init names a single file */
    RtTensorFile *file; /* the files with tensors … */
    char **file_path;
    int nfiles;
    RtEntry *entry;     /* … and all their tensors, sorted by name */
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

/* ---- the header of a file that is written ---- */

typedef struct RtHeader {
    FILE *f;
    char *text;
    size_t n;
} RtHeader;

/* Begins a header: the caller prints the metadata to `f` and adds the entries
 * of tensors. rt_header_end sets `text`, with the length before it, which the
 * caller frees; the data after it begins at a multiple of `align` bytes.
 * Returns 0 or an errno. */
bool rt_header_begin(RtHeader *h);
void rt_header_add(RtHeader *h, const char *name, const char *dtype, int ndim,
                   const int64_t *dim, int64_t begin, int64_t end);
int rt_header_end(RtHeader *h, int align);

/* ---- copies between a layer of a parameter and the tensor of a file that
 * holds it in another layout (file_layout.c) ---- */

/* Reads n consecutive elements of a layer (row-major), from element `global`
 * on, as f32. `view` NULL: the tensor has the layout of the layer. */
void rt_view_read(float *to, const RtTensor *t, const ParcFileTensor *view,
                  int64_t global, int64_t n);
/* Writes a whole layer of n elements to its position in `tensor`, the tensor of
 * the file in f32. */
void rt_view_write(float *tensor, const ParcFileTensor *view,
                   const float *layer, int64_t n);

#endif
