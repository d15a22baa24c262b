/* rt.h: what the files of the runtime share with each other.
 *
 * Generated programs see parc_rt.h only. A run is one RtWorld: a shared
 * mapping that holds a control block, a slot for each rank, the barriers of
 * all groups, and the arenas of all ranks. Ranks are forked from the process
 * that made it, so that all of them see it at the same address.
 */
#ifndef PARC_RT_INTERNAL_H
#define PARC_RT_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parc_rt.h"

enum { RT_GROUPS = 1 << PARC_MAX_AXES, RT_LARGE_PAGE = PARC_SHARED_ALIGN };

/* ---- options (rt_options.c) ---- */

typedef struct RtOptions {
    const char *program; /* as messages name it: the base name of argv[0] */
    int64_t steps, seed, threads; /* threads 0: as planned */
    bool shuffle, info, dry_run, help, version;
    const char *data, *init, *export_to, *log, *trace, *print_shards;
    int64_t trace_steps;
} RtOptions;

/* -1: go on; else the exit status (a message has been printed). */
int rt_options(RtOptions *o, int argc, char **argv);
void rt_usage(const RtOptions *o, const ParcModel *model);

/* The candidate nearest to `name`, NULL where none is near (rt_near.c). */
const char *rt_near_miss(const char *name, const char *const *candidate, int n);

/* ---- launchers (rt_job.h) ---- */

/* Which rank a launcher has made of this process; the connections to others
 * that it has started. */
typedef struct RtLaunch RtLaunch;
typedef struct RtStore RtStore;

/* ---- the world and its ranks (rt_world.c, rt_ranks.c, rt_barrier.c) ---- */

typedef enum RtState {
    RT_STARTING,
    RT_COMPUTING,
    RT_WAITING, /* at the first barrier of `collective`, or at the last */
    RT_MOVING,  /* its data */
    RT_DONE,
} RtState;

/* What a rank is doing, for the messages of others. */
typedef struct RtSlot {
    _Atomic int64_t step;
    _Atomic int32_t state, collective; /* the one it is in, or was last in */
    _Atomic uint32_t barrier;          /* the one it waits at, +1; else 0 */
    _Atomic uint32_t phase;            /* of that barrier, which it waits for */
    _Atomic int32_t process;           /* its id */
    _Atomic int32_t work;              /* the statement that it is in, +1; 0: in
                                          none that is known. CPU only */
    _Atomic int64_t turn;              /* of the loops around that statement */
    _Atomic uint32_t begun[PARC_STREAMS]; /* by a device in this step:
                                             rt_cuda_progress.c */
    uint64_t plan_hash;
} RtSlot;

typedef struct RtBarrier {
    _Atomic uint32_t arrived, phase;
    char pad[56];
} RtBarrier;

typedef struct RtControl {
    _Atomic int32_t failed; /* somebody has printed why the run ends */
    unsigned char board[256]; /* rank 0 to all others: rt_share.c */
    uint64_t token; /* of the job whose processes share this */
} RtControl;

/* ---- what a step does when (rt_trace.c, rt_trace_file.c) ---- */

/* A moment: work[what] begins, in a turn of the loops; or one of these. */
enum {
    RT_MARK_STEP = -1,  /* step `turn` begins, with its input */
    RT_MARK_MOVE = -2,  /* all have come: a collective moves data, any other
                           statement begins its work */
    RT_MARK_WAIT = -3,  /* its data has moved; the others' not yet */
    RT_MARK_END = -4,   /* of the step */
};
typedef struct RtMark {
    int64_t ns;
    int32_t what, turn;
} RtMark;

/* What one rank has marked; it has room for all that it will. */
typedef struct RtRing {
    int64_t n, room, lost;
    RtMark mark[];
} RtRing;

/* Steps first … last are traced; a ring for each rank in shared memory. */
typedef struct RtTrace {
    int64_t first, last;
    char *rings; /* NULL: no trace is wanted */
    size_t stride, bytes;
} RtTrace;

typedef struct RtWorld {
    const ParcModel *model;
    const char *program;
    int nranks, threads, timeout_seconds;
    int first, mapped; /* ranks first … first+mapped-1 have an arena here */
    bool crowded; /* more threads than cores */
    const RtLaunch *launch; /* NULL: the ranks are forked from this process */
    RtStore *store;         /* NULL without launch */
    RtControl *control;
    RtSlot *slot;
    RtBarrier *barrier; /* [mask of axes][least rank of the group] */
    char *arenas;
    size_t arena_stride;
    void *map;
    size_t map_bytes;
    const char *temporary[2]; /* files to remove if the run fails, or NULL */
    RtTrace trace;
} RtWorld;

/* Ranks that differ only in some axes, axis 0 major. */
typedef struct RtGroup {
    int n, index; /* the rank's own place in member[] */
    int *member;
} RtGroup;

/* The scale of the loss (rt_loss_scale.c). */
typedef struct RtScale {
    double scale;  /* 0: none */
    double used;   /* the scale of the step at hand, or of the last one */
    int64_t good;  /* steps since it changed, or since one was skipped */
    int64_t bad;   /* steps skipped one after the other */
} RtScale;

struct ParcRt {
    const ParcModel *model;
    RtWorld *world;
    int rank, nranks, threads;
    int local;                 /* its number among the ranks of its box */
    char *arena;               /* the host's: rt_device.h */
    RtGroup group[RT_GROUPS];  /* by mask of axes */
    int64_t bytes, peak_bytes; /* counted where arenas are handed out */
    int64_t host_bytes;        /* that the target holds in host memory */
    double lr;                 /* of the step at hand */
    int64_t updates;           /* steps so far that changed parameters */
    RtScale scale;
    void *engine, *stream;     /* oneDNN's, once a matmul needs them */
    ParcMatmul *matmuls;
    struct RtDevice *device;   /* what the target keeps; NULL: not open */
    RtRing *ring;              /* while this step is traced */
    bool nan_check;            /* PARC_NANCHECK=1 */
    int32_t nan_work;          /* the statement to look at; -1: none yet */
    int64_t nan_turn;
};

/* Names for what is no collective of the model, where an id is wanted. */
enum {
    RT_AT_START = -1,
    RT_AT_END = -2,
    RT_AT_TRACE = -3,
    RT_AT_GRADIENTS = -4,
    RT_AT_MATMULS = -5,
};
const char *rt_collective_name(const ParcModel *model, int id);

/* Saturates at INT64_MAX. rt_ranks_check: whether the runtime takes so many;
 * false after a message. */
int64_t rt_nranks(const ParcModel *model);
bool rt_ranks_check(const ParcModel *model, const char *program);
enum { RT_MOST_RANKS = 1 << 20 };
/* The mesh, as messages name it: "dp=2 x tp=4". */
enum { RT_MESH = 256 };
const char *rt_mesh_text(const ParcModel *m, char text[RT_MESH]);
/* How many ranks differ only in some axes. */
int64_t rt_group_size(const ParcModel *model, uint32_t axes);
int64_t rt_coord(const ParcModel *model, int rank, int axis);

/* Checks that memory is available and maps the world: for all ranks that this
 * process will fork, or with `launch` for its own rank of a job, whose processes
 * connect here. `runs`: steps will be run. False after a message. */
bool rt_world_open(RtWorld *w, const ParcModel *model, const char *program,
                   int threads, const RtLaunch *launch, bool runs);
void rt_world_close(RtWorld *w);
/* The rank of this process, before ranks are forked 0. */
int rt_world_rank(const RtWorld *w);
/* Whether collectives read peers' arenas in place, so that all ranks have to
 * be in one box: a target's answer. */
bool rt_collectives_share(void);

/* Runs `body` on every rank, each a process (one rank alone runs here), and
 * returns the exit status of the whole. */
typedef int RtBody(ParcRt *rt, void *context);
int rt_ranks_run(RtWorld *w, RtBody *body, void *context);

int rt_cores(void); /* CPUs that this process may use */

/* Hands the rank its arena and counts it (rt_arena.c); what a target takes
 * for tensors besides is counted by rt_count. */
void rt_arena_take(ParcRt *rt);
void rt_count(ParcRt *rt, int64_t bytes);
/* Where the mirror ends, with what ranks share or lies in host memory; how much of it a rank counts:
 * of that an equal share. */
int64_t rt_arena_end(const ParcModel *model);
int64_t rt_arena_counted(const ParcModel *model);

/* Maps the rings for `steps` steps of the `total` (rt_trace.c); false after a
 * message. */
bool rt_trace_open(RtWorld *w, int64_t steps, int64_t total);
void rt_trace_close(RtWorld *w);
/* Around a step: marks are taken in the steps that are traced. */
void rt_trace_begin(ParcRt *rt, int64_t step);
void rt_trace_end(ParcRt *rt);
void rt_trace_add(RtRing *ring, int32_t what, int64_t turn);
/* The same for another moment than now, by CLOCK_MONOTONIC. */
void rt_trace_add_at(RtRing *ring, int64_t ns, int32_t what, int64_t turn);
static inline void rt_mark(ParcRt *rt, int32_t what)
{
    if (rt->ring) {
        rt_trace_add(rt->ring, what, 0);
    }
}
static inline RtRing *rt_trace_ring(const RtWorld *w, int rank)
{
    return (RtRing *)(void *)(w->trace.rings +
                              (size_t)rank * w->trace.stride);
}
/* Brings the marks of ranks in other boxes to rank 0, which calls it while the
 * others are in a meeting. */
void rt_trace_gather(ParcRt *rt);
/* Sets the marks of a ring to another clock. */
void rt_trace_shift(RtRing *ring, int64_t ns);
/* All ranks' marks as one JSON file in Chrome's trace format, by one rank
 * when all have finished the traced steps (rt_trace_file.c); NULL, or what
 * went wrong. */
const char *rt_trace_write(const RtWorld *w, const char *path,
                           const char *temporary);

/* All ranks of the group meet, in one box. rt_meet is for the whole world,
 * wherever its ranks are. */
void rt_barrier(ParcRt *rt, uint32_t axes);
void rt_meet(ParcRt *rt, int id);
/* Rank 0's `bytes` at `data` are everybody's on return (rt_share.c). */
void rt_share(ParcRt *rt, int id, void *data, size_t bytes);

/* Why `rank` waited in vain: names the rank that keeps the others waiting, and
 * what it does (rt_late.c). `first`: a rank that is known to be late, or -1. */
enum { RT_LATE = 1536 };
const char *rt_late_text(const RtWorld *w, int rank, int first,
                         char text[RT_LATE]);

/* Fills the slots of ranks that share no memory with this one with what they
 * say of themselves; RT_STARTING: nothing. For messages (rt_places.c). */
void rt_places_gather(ParcRt *rt);

/* The arena of a rank that is mapped here. */
static inline char *rt_world_arena(const RtWorld *w, int rank)
{
    return w->arenas + (size_t)(rank - w->first) * w->arena_stride;
}

static inline char *rt_peer(const ParcRt *rt, int rank)
{
    return rt_world_arena(rt->world, rank);
}

static inline float *rt_floats(ParcRt *rt, int64_t offset)
{
    return (float *)(void *)(rt->arena + offset);
}

/* ---- statements of a step (rt_work.c, rt_nancheck.c) ---- */

/* The turn of each loop around a statement, of their count through all. */
void rt_work_turns(const ParcWork *w, int64_t turn,
                   int64_t at[PARC_MAX_LOOPS]);
/* " in 'k07_norm' (llama.pdl:28:5, layer 3)" */
enum { RT_WHERE = 512 };
const char *rt_work_where(const ParcWork *w, int64_t turn,
                          char text[RT_WHERE]);

/* A variable of the environment that is 0 or 1; ends the run where it is
 * something else. */
bool rt_flag(ParcRt *rt, const char *name, bool otherwise);
/* Reads PARC_NANCHECK. */
void rt_nan_open(ParcRt *rt);
/* Looks at what the statement before has written; `work` comes next, -1 at
 * the end of a step. */
void rt_nan_mark(ParcRt *rt, int work, int64_t turn);

/* ---- messages (rt_message.c) ---- */

/* "train: error: …", "train: note: …" on standard error. */
void rt_error(const char *program, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void rt_note(const char *program, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The text as it is: for "FILE: byte N: error: …". */
void rt_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Ends the run from within a rank. Only the first rank that fails speaks:
 * the others fail of the same cause. rt_fail begins with "train: error: ",
 * rt_fail_at does not. */
_Noreturn void rt_fail(ParcRt *rt, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void rt_fail_at(ParcRt *rt, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A text as it is, which ends a line. */
void rt_put(const char *text);
/* "12.5 GiB" */
const char *rt_size_text(double bytes, char text[32]);
void *rt_allocate(size_t bytes); /* zeroed; ends the process if it fails */
double rt_now(void);             /* seconds */

/* ---- random numbers (rt_random.c) ---- */

/* A shuffle takes a stream for each of its rounds. */
enum {
    RT_STREAM_INIT,
    RT_STREAM_DATA,
    RT_STREAM_SHUFFLE,
    RT_STREAM_STEP = 16,
};

void rt_philox(uint32_t out[4], const uint32_t counter[4],
               const uint32_t key[2]);
uint32_t rt_hash(const char *name);
/* The four words of a block of a named stream. */
void rt_random_block(uint32_t out[4], int64_t seed, int stream, uint32_t key,
                     uint64_t block);
/* The key of what a step draws; steps count from 1. */
int64_t rt_step_key(int64_t seed, int64_t step);
/* Elements first … first+n-1 of a tensor; element i is the same however the
 * range that holds it is cut. */
void rt_random_normal(float *to, int64_t seed, int stream, uint32_t key,
                      int64_t first, int64_t n, double std);
void rt_random_uniform(float *to, int64_t seed, int stream, uint32_t key,
                       int64_t first, int64_t n, double low, double high);
void rt_random_below(int32_t *to, int64_t seed, int stream, uint32_t key,
                     int64_t first, int64_t n, int64_t below);
/* A permutation of 0 … n-1 for each key: where `i` goes. */
int64_t rt_permute(int64_t seed, uint32_t key, int64_t n, int64_t i);

/* ---- parameters (rt_shard.c, rt_params.c, rt_print_shards.c) ---- */

/* What one rank stores of a parameter, for each layer of its stack: a box
 * [begin, begin+part) of the global tensor, of which, under flat axes, only
 * the run first … first+run-1 of its flattened elements. */
typedef struct RtShard {
    const ParcParam *param;
    int64_t layers, global; /* elements of a layer */
    int64_t part[PARC_MAX_DIMS], begin[PARC_MAX_DIMS];
    int64_t held[PARC_MAX_DIMS]; /* of part: what is no padding */
    int64_t box;        /* elements of the box */
    int64_t first, run; /* run: elements stored, padding included */
    int64_t row;        /* elements from one layer to the next */
    int64_t inside;     /* elements from where a layer lies to the run */
    bool owner;         /* no rank before this one stores the same */
} RtShard;

void rt_shard(RtShard *s, const ParcModel *model, int rank,
              const ParcParam *param);
/* What a rank stores of a layer, in its memory. */
float *rt_shard_layer(const ParcRt *rt, int rank, const RtShard *s, int64_t layer);
/* The same of any rank, to read: in its memory, or brought here into `room`,
 * which the caller frees. By rank 0, while the others are in a meeting. */
typedef struct RtRoom {
    void *at;
    size_t bytes;
} RtRoom;
const float *rt_shard_read(ParcRt *rt, int rank, const RtShard *s,
                           int64_t layer, RtRoom *room);
/* The next elements, from stored element *i of a layer on, that are no
 * padding: moves *i to the first and says how many lie one after the other in
 * the global layer too, and where there; 0 where only padding is left. */
int64_t rt_shard_run(const RtShard *s, int64_t *i, int64_t *global);
/* How many stored elements of a layer are no padding. */
int64_t rt_shard_elements(const RtShard *s);
/* False, after a message, where train.c and the runtime disagree. */
bool rt_params_check(const ParcModel *model, const char *program);

/* "layers.3.attention.wq.weight"; layer counts through all stack dims. */
enum { RT_NAME = 512 };
void rt_param_name(const char *name, const ParcParam *param, int64_t layer,
                   char text[RT_NAME]);
/* A parameter that --export, --init and --print-shards know of: no state of
 * the optimizer, and stored. */
bool rt_param_is_weight(const ParcParam *param);
int64_t rt_param_layers(const ParcParam *param);
int64_t rt_param_layer_elements(const ParcParam *param);
void rt_params_init(ParcRt *rt, int64_t seed);
/* The initial value of one element of a layer, by its global index. */
float rt_param_value(const ParcParam *param, int64_t seed, int64_t layer,
                     int64_t element);
/* Between the mirror and the device: all that the rank stores of a parameter,
 * and its copy in another type, which is made then; of all of them (`states`:
 * with those of the optimizer). */
void rt_param_upload(ParcRt *rt, const RtShard *s);
void rt_params_download(ParcRt *rt, bool states);

/* 0, or 1 after a message, with the near miss. */
int rt_shards_check(const ParcModel *model, const RtOptions *o);
/* To standard output. weights->map NULL: without --init. */
struct RtWeights;
void rt_shards_print(const ParcModel *m, const RtOptions *o,
                     const struct RtWeights *weights);

/* ---- weights in files (rt_safetensors.c, rt_weights.c, rt_export.c) ---- */

typedef enum RtDtype { RT_F32, RT_BF16, RT_F16, RT_OTHER } RtDtype;

enum { RT_MAX_RANK = 8 };

/* One tensor of a file. Positions are bytes from the file's begin. */
typedef struct RtTensor {
    char *name;
    RtDtype dtype;
    char dtype_name[8];
    int ndim;
    int64_t dim[RT_MAX_RANK];
    int64_t begin, end;
    int64_t at; /* of its name in the header */
    bool used;
} RtTensor;

typedef struct RtWeights {
    const char *path;
    const unsigned char *map;
    int64_t size;
    RtTensor *tensor;
    int n, room;
} RtWeights;

/* Reads the header of w->map: NULL, or what is wrong at byte *at. Every
 * tensor's range lies within the file and fits its type and shape. */
const char *rt_safetensors_header(RtWeights *w, int64_t *at);
void rt_safetensors_free(RtWeights *w);

/* Opens, reads and compares with the model; false after messages. */
bool rt_weights_open(RtWeights *w, const char *path, const ParcModel *model,
                     const char *program);
void rt_weights_close(RtWeights *w);
void rt_weights_load(ParcRt *rt, const RtWeights *w);
/* One element of a layer, by its global index. */
float rt_weights_value(const RtWeights *w, const ParcParam *param,
                       int64_t layer, int64_t element);

/* NULL or a message. By one rank, while the others wait. */
const char *rt_export(ParcRt *rt, const char *path, const char *temporary);

/* ---- files that appear whole (rt_output.c) ---- */

/* Whether `path` is "-", standard output; the path as messages name it. */
bool rt_output_is_stdout(const char *path);
const char *rt_output_name(const char *path);
/* The name of the temporary file beside `path`, empty where `path` is a device,
 * a pipe or "-"; NULL, after a message, where nothing can be written there. */
char *rt_output_probe(const char *path, const char *program);

/* A file being written, under its temporary name if that is not empty. The
 * first error stays in `error` (an errno); what follows is not tried. */
typedef struct RtOutput {
    const char *path, *temporary;
    int file, error;
} RtOutput;

void rt_output_open(RtOutput *o, const char *path, const char *temporary);
void rt_output_put(RtOutput *o, const void *data, size_t n);
/* Brings it to the disk and gives it its name: NULL, or what went wrong. */
const char *rt_output_close(RtOutput *o);

/* ---- files that are read (rt_input.c) ---- */

/* A regular file's bytes, and how many; NULL after a message, also where there
 * are none. */
const unsigned char *rt_input_map(const char *path, int64_t *size,
                                  const char *program);
void rt_input_unmap(const unsigned char *map, int64_t size);

/* ---- data (rt_data.c, rt_batch.c) ---- */

typedef struct RtData {
    const char *path; /* NULL: synthetic */
    const unsigned char *map;
    int64_t size;
    int64_t first; /* byte where the tokens begin */
    int width;     /* bytes of a token */
    int64_t tokens, sequences;
} RtData;

/* Whether a token file can feed the model: it has one integer input beside the
 * labels. */
bool rt_takes_tokens(const ParcModel *model);
/* `spec` NULL: synthetic. */
bool rt_data_open(RtData *d, const char *spec, const ParcModel *model,
                  const char *program);
void rt_data_close(RtData *d);
/* Whether no file of a run is written that is also read, or written twice;
 * false after a message (rt_input.c). */
bool rt_files_apart(const RtOptions *o, const RtData *d);

/* The batch that was made last. */
typedef struct RtBatch {
    int64_t made; /* its step, +1; 0: none */
    char why[512]; /* not empty: what is wrong with it */
} RtBatch;

/* Sees that the rank's part of every input is there for a step (0, 1, …); ends
 * the run where the data cannot be used. */
void rt_batch(ParcRt *rt, const RtData *d, const RtOptions *o, int64_t step,
              RtBatch *b);
/* While the step before runs, where the target allows that. */
void rt_batch_ahead(ParcRt *rt, const RtData *d, const RtOptions *o,
                    int64_t step, RtBatch *b);

/* ---- learning rates (rt_schedule.c) ---- */

/* The learning rate of a step, counted from 1, in a run of `steps`. */
double rt_schedule_lr(const ParcModel *model, int64_t step, int64_t steps);

/* ---- gradients that are not finite (rt_loss_scale.c, rt_nonfinite.c) ---- */

void rt_scale_start(ParcRt *rt);
/* After a step: whether it counts. A step whose gradients' norm is not finite
 * has changed nothing; the scale is lowered, and the run ends where that has
 * not helped for long. */
bool rt_scale_step(ParcRt *rt, int64_t step, double norm);
/* Ends the run after a step whose gradients' norm is not finite, naming a
 * parameter whose gradient is not. All ranks call it. */
_Noreturn void rt_nonfinite(ParcRt *rt, int64_t step, double norm);

/* ---- logs (rt_log.c) ---- */

typedef struct RtLog {
    int file; /* -1: none */
    bool terminal;
    const char *path;
    int64_t steps, tokens_a_step;
    double begin, last_step, last_line, peak_flops;
    float first_loss;
} RtLog;

/* Opens, locks and empties the file; false after a message. */
bool rt_log_open(RtLog *l, const RtOptions *o, const ParcModel *model);
void rt_log_start(RtLog *l, const ParcRt *rt);
/* After step 1, 2, …; by rank 0. */
void rt_log_step(RtLog *l, ParcRt *rt, int64_t step);
/* A step was skipped and the loss scale lowered; by rank 0. */
void rt_log_skip(RtLog *l, int64_t step, double from, double to);
void rt_log_end(RtLog *l, ParcRt *rt);

#endif
