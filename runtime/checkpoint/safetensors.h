/* safetensors.h: declares a reader of safetensors files: safetensors.c. */
#ifndef PARC_CHECKPOINT_SAFETENSORS_H
#define PARC_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "parc_rt.h"

enum { RT_MAX_RANK = 8, RT_LENGTH_BYTES = 8 };
/* The data bytes of a file of a checkpoint, and by default of an export. */
#define RT_FILE_BYTES INT64_C(5000000000)

/* One tensor of a file. Positions are bytes from the start of the file. */
typedef struct RtTensor {
    const struct RtTensorFile *file;
    char *name;
    int type; /* a ParcType; -1: elements of this type cannot be read */
    char dtype_name[8];
    int ndim;
    int64_t dim[RT_MAX_RANK];
    int64_t begin, end;
    int64_t at; /* position of its name in the header */
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
