/* params.h: declares what a rank stores of each parameter, its names and initial
 * values. */
#ifndef PARC_RT_PARAMS_H
#define PARC_RT_PARAMS_H

#include "rt.h"

/* The part of a parameter that one rank stores, for each layer of its stack:
 * the local block [begin, begin+part) of the global tensor. Under flat axes
 * the rank stores only elements first … first+run-1 of the flattened block. */
typedef struct RtShard {
    const ParcParam *param;
    int64_t stored; /* layers of the stack that the rank stores */
    int64_t global; /* elements of a whole layer */
    int coordinate, coordinates; /* on the axis of a pipeline, and its size */
    int64_t part[PARC_MAX_DIMS], begin[PARC_MAX_DIMS];
    int64_t held[PARC_MAX_DIMS]; /* part without padding */
    int64_t half[PARC_MAX_DIMS]; /* 0, or in zigzag order the elements of each of two
                                    pieces, of which the other begins at `second` */
    int64_t second[PARC_MAX_DIMS];
    int64_t block;               /* elements of the local block */
    int64_t first, run; /* run: stored elements, padding included */
    int64_t row;        /* distance in elements between two layers */
    int64_t inside;     /* offset of the run in a layer's buffer, in elements */
    bool owner;         /* no rank with a lower number stores the same
                           elements */
} RtShard;

void rt_shard(RtShard *s, const ParcModel *model, int rank,
              const ParcParam *param);
/* The rank's index in dim d of an element of the global tensor; -1: it has none. */
int64_t rt_shard_local(const RtShard *s, int d, int64_t index);
/* The layers that the rank stores, in order: the first after `layer`; -1: there
 * are no more, and before the first. */
int64_t rt_shard_next(const RtShard *s, int64_t layer);
/* The index of a layer among those that the rank stores; -1: it lacks it. */
int64_t rt_shard_index(const RtShard *s, int64_t layer);
/* The address of a layer's part that a rank stores; the rank must be mapped
 * here. */
float *rt_shard_layer(const ParcRt *rt, int rank, const RtShard *s, int64_t layer);
/* A buffer that grows; the caller frees `at`. */
typedef struct RtBuffer {
    void *at;
    size_t bytes;
} RtBuffer;
void *rt_buffer_grow(RtBuffer *buffer, int64_t bytes);
/* Bytes of the arena of any rank, and a layer's part, to read. If the rank is
 * not mapped here, they are copied to `buffer`. Rank 0 calls it while the
 * others wait at a synchronization point. */
const void *rt_arena_read(ParcRt *rt, int rank, int64_t offset, int64_t bytes,
                          RtBuffer *buffer);
const void *rt_shard_read(ParcRt *rt, int rank, const RtShard *s, int64_t layer,
                          RtBuffer *buffer);
/* Assembles a layer in `to` from the arenas of all ranks: floats as f32,
 * integers in their type. Rank 0 calls it like rt_arena_read. */
void rt_param_assemble(ParcRt *rt, const ParcParam *p, int64_t layer, void *to,
                       RtBuffer *buffer);
/* An output, as a parameter of one layer: for the functions above. */
ParcParam rt_output_param(const ParcOutput *o);
/* The next contiguous run of elements without padding at or after stored
 * element *i of a layer. Sets *i to its first element and *global to the index
 * of that element in the global layer. Returns its length; 0 if only padding
 * is left. */
int64_t rt_shard_run(const RtShard *s, int64_t *i, int64_t *global);
/* The number of stored elements of a layer without padding. */
int64_t rt_shard_elements(const RtShard *s);
/* Checks the layouts of train.c against the mesh and arena; false after a
 * message. */
bool rt_params_check(const ParcModel *model);

/* "layers.3.attention.wq.weight"; `layer` is one index over all stack dims. */
enum { RT_NAME = 512 };
void rt_param_name(const char *name, const ParcParam *param, int64_t layer,
                   char text[RT_NAME]);
/* Whether --export, --init and --print-shards include the parameter: it is not
 * an optimizer state, and the rank stores it. */
bool rt_param_is_weight(const ParcParam *param);
int64_t rt_param_layers(const ParcParam *param);

/* ---- parameters that a user selects (names.c) ---- */

/* Whether the pattern is the name, or a module that contains it. '*' in a part
 * of the pattern is any text without a dot; "" matches all names. */
bool rt_name_matches(const char *pattern, const char *name);
/* The same for all names of a layer of a parameter. */
bool rt_param_matches(const char *pattern, const ParcParam *p, int64_t layer);
/* The pattern that the text of an option names: "" for "model". */
const char *rt_pattern(const ParcModel *model, const char *text);
/* Whether some weight matches; false after a message, which suggests a similar
 * name. */
bool rt_pattern_check(const ParcModel *model, const char *option,
                      const char *text);

int64_t rt_param_layer_elements(const ParcParam *param);
void rt_params_init(ParcRt *rt, int64_t seed);
/* The initial value of one element of a layer, by its global index. */
float rt_param_value(const ParcParam *param, int64_t seed, int64_t layer,
                     int64_t element);
/* Copies between the mirror and the device. rt_param_upload: all that the rank
 * stores of a parameter, and its low-precision copy, which it converts first.
 * rt_params_download: all parameters; `states`: also the optimizer states. */
void rt_param_upload(ParcRt *rt, const RtShard *s);
void rt_params_download(ParcRt *rt, bool states);

/* Whether the model has a block `names hf`. */
bool rt_has_file_names(const ParcModel *m);
/* The number of tensors of files that hold a layer. */
int64_t rt_file_parts(const ParcParam *p);
/* The name of the tensor that holds a layer, or a part of it: "model.layers.3.mlp.up.weight". */
void rt_file_name(const ParcFileTensor *f, const ParcParam *p, int64_t layer, int64_t part,
                  char text[RT_NAME]);
/* One of the two names of a layer; in_files: of a part. */
void rt_layer_name(const ParcParam *p, int64_t layer, int64_t part, bool in_files,
                   char text[RT_NAME]);
/* The name without the optional prefix of the model's files; NULL if it does
 * not begin with one. */
const char *rt_without_prefix(const ParcModel *m, const char *name);

#endif
