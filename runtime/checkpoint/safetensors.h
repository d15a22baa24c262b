/* safetensors.h: declares a reader of safetensors files: safetensors.c. */
#ifndef PARC_CHECKPOINT_SAFETENSORS_H
#define PARC_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum RtDtype { RT_F32, RT_BF16, RT_F16, RT_OTHER } RtDtype;

enum { RT_MAX_RANK = 8 };

/* One tensor of a file. Positions are bytes from the start of the file. */
typedef struct RtTensor {
    const struct RtTensorFile *file;
    char *name;
    RtDtype dtype;
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
    int n, room;
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

/* Bytes of an element; 0 for RT_OTHER. */
int64_t rt_dtype_size(RtDtype dtype);

#endif
