/* rt.h: declares the types and functions that the files of the runtime share.
 *
 * Generated programs include parc_rt.h only. A run is one RtWorld: a shared
 * mapping with a control block, the published state of each rank (RtSlot), the
 * barriers of all groups, and the arenas of all ranks. Ranks are forked from
 * the process that created the mapping, so every rank has it at the same
 * address. Under a launcher each process maps it itself (rt_world.c).
 */
#ifndef PARC_RT_INTERNAL_H
#define PARC_RT_INTERNAL_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/signals.h"
#include "parc_rt.h"

enum { RT_GROUPS = 1 << PARC_MAX_AXES, RT_LARGE_PAGE = PARC_SHARED_ALIGN };

/* ---- options (rt_options.c) ---- */

/* The values of an option that may be given several times, in order. */
typedef struct RtTexts {
    const char *at[16];
    int n;
} RtTexts;

typedef struct RtOptions {
    const char *program; /* name in messages: the base name of argv[0] */
    int64_t steps, seed, threads; /* threads 0: as planned */
    bool shuffle, info, dry_run, help, version, init_partial;
    bool seed_given, save_async, eval;
    const char *data, *export_to, *log, *trace, *print_shards, *tensorboard;
    const char *save, *resume;
    RtTexts init, settings;
    /* Of --export: the number of a word of the option, from 1 on, and bytes;
     * 0: the default. */
    int64_t export_dtype, export_names, export_shard_bytes;
    int64_t save_every, keep; /* 0: only after the last step; 0: all */
    const char *val, *sample, *sample_ids;
    int64_t val_every, val_steps; /* 0: only after the last step; all */
    int64_t trace_steps, tokens, top_k;
    double temperature;
    int64_t max_time; /* seconds; 0: no limit */
} RtOptions;

/* Returns -1 to continue; else the exit status (a message has been printed). */
int rt_options(RtOptions *o, int argc, char **argv);
void rt_usage(const RtOptions *o, const ParcModel *model);

/* The candidate most similar to `name`; NULL if none is similar (rt_near.c). */
const char *rt_near_miss(const char *name, const char *const *candidate, int n);

/* ---- launchers (rt_job.h) ---- */

/* RtLaunch: which rank of a job a launcher made this process. RtStore: the
 * connections to the other processes of the job. */
typedef struct RtLaunch RtLaunch;
typedef struct RtStore RtStore;

/* ---- the world and its ranks (rt_world.c, rt_ranks.c, rt_barrier.c) ---- */

typedef enum RtState {
    RT_STARTING,
    RT_COMPUTING,
    RT_WAITING, /* at the first or last barrier of `collective` */
    RT_MOVING,  /* transfers the data of `collective` */
    RT_DONE,
} RtState;

/* The state of a rank, for messages of other ranks. */
typedef struct RtSlot {
    _Atomic int64_t step;
    _Atomic int32_t state, collective; /* the current or latest collective */
    _Atomic uint32_t barrier;          /* the barrier that the rank waits at,
                                          +1; else 0 */
    _Atomic uint32_t phase;            /* the phase of that barrier that the
                                          rank waits to pass */
    _Atomic int32_t process;           /* process id */
    _Atomic int32_t work;              /* the statement that runs, +1; 0: not
                                          known. CPU only */
    _Atomic int64_t turn;              /* iteration of the loops around that
                                          statement */
    _Atomic uint32_t begun[PARC_STREAMS]; /* collectives that each stream of
                                             the device has begun and ended:
                                             rt_cuda_progress.c */
    _Atomic int32_t save_error;        /* errno of the rank's part of the latest
                                          save; 0: it was written */
    _Atomic uint32_t saves;            /* number of asynchronous saves whose
                                          part the rank has ended */
    uint64_t plan_hash;
} RtSlot;

typedef struct RtBarrier {
    _Atomic uint32_t arrived, phase;
    char pad[56];
} RtBarrier;

/* A decision of rank 0 for all ranks: checkpoint/agree.c. */
typedef struct RtAgreement {
    _Atomic uint32_t decided; /* the latest point that rank 0 has decided */
    _Atomic uint32_t point;   /* the latest point at which the run does not just
                                 go on, and what the ranks do there */
    _Atomic int32_t verdict;
    _Atomic int32_t status; /* exit status of a run that is stopped */
} RtAgreement;

typedef struct RtControl {
    _Atomic int32_t failed; /* some rank has printed why the run ends */
    unsigned char board[256]; /* data from rank 0 to all others: rt_share.c */
    uint64_t token; /* identifies the job that shares this memory */
    RtSignals signals;
    RtAgreement agreement;
} RtControl;

/* ---- timeline of a step (rt_trace.c, rt_trace_file.c) ---- */

/* What a mark records: the index of the statement that starts, in iteration
 * `turn` of its loops, or one of these events. */
enum {
    RT_MARK_STEP = -1,  /* step `turn` begins, with its input */
    RT_MARK_MOVE = -2,  /* all ranks of the group have arrived: a collective
                           starts its transfer, any other statement starts its
                           work */
    RT_MARK_WAIT = -3,  /* the rank has transferred its data and waits for the
                           other ranks */
    RT_MARK_END = -4,   /* end of the step */
};
typedef struct RtMark {
    int64_t ns;
    int32_t what, turn;
} RtMark;

/* The marks of one rank. The buffer holds all marks of the traced steps. */
typedef struct RtRing {
    int64_t n, room, lost;
    RtMark mark[];
} RtRing;

/* Steps first … last are traced. Each rank has a ring in shared memory. */
typedef struct RtTrace {
    int64_t first, last;
    char *rings; /* NULL: the run is not traced */
    size_t stride, bytes;
} RtTrace;

typedef struct RtWorld {
    const ParcModel *model;
    const char *program;
    int nranks, threads, timeout_seconds;
    int first, mapped; /* this process maps the arenas of ranks first …
                          first+mapped-1 */
    cpu_set_t cpus; /* on which the program may run */
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
    const char *temporary[2]; /* files that are removed if the run fails, or
                                 NULL */
    RtTrace trace;
} RtWorld;

/* The ranks that differ only in some axes, axis 0 major. */
typedef struct RtGroup {
    int n, index; /* index: position of the rank in member[] */
    int *member;
} RtGroup;

/* The dynamic loss scale (rt_loss_scale.c). */
typedef struct RtScale {
    double scale;  /* scale of the next step; 0: the loss is not scaled */
    double used;   /* scale of the current or latest step */
    int64_t good;  /* steps since the scale changed or a step was skipped */
    int64_t bad;   /* consecutive skipped steps */
} RtScale;

struct ParcRt {
    const ParcModel *model;
    RtWorld *world;
    int rank, nranks, threads;
    int local;                 /* the rank's number among the ranks of its
                                  node */
    char *arena;               /* the host mirror: rt_device.h */
    RtGroup group[RT_GROUPS];  /* by mask of axes */
    int64_t bytes, peak_bytes; /* bytes of the arena and of the target's
                                  tensors */
    int64_t host_bytes;        /* bytes that the target allocates in host
                                  memory */
    double lr;                 /* learning rate of the current step */
    int64_t updates;           /* number of steps that have updated
                                  parameters */
    RtScale scale;
    void *engine, *stream;     /* oneDNN's; NULL before the first matmul */
    ParcMatmul *matmuls;
    struct RtDevice *device;   /* state of the target; NULL: no device is
                                  open */
    RtRing *ring;              /* not NULL while a step is traced */
    bool nan_check;            /* PARC_NANCHECK=1 */
    int32_t nan_work;          /* the statement whose results are checked next;
                                  -1: none */
    int64_t nan_turn;
};

/* Ids of synchronization points that are not collectives of the model. */
enum {
    RT_AT_START = -1,
    RT_AT_END = -2,
    RT_AT_TRACE = -3,
    RT_AT_GRADIENTS = -4,
    RT_AT_MATMULS = -5,
    RT_AT_DECISION = -6,
    RT_AT_FORWARD = -7,
    RT_AT_SAVE = -8,
    RT_AT_RESUME = -9,
    RT_AT_SAMPLE = -10,
    RT_AT_LEAST = RT_AT_SAMPLE,
};
const char *rt_collective_name(const ParcModel *model, int id);

/* rt_nranks: the number of ranks of the mesh, INT64_MAX on overflow.
 * rt_ranks_check: whether the runtime supports this number; false after a
 * message. */
int64_t rt_nranks(const ParcModel *model);
bool rt_ranks_check(const ParcModel *model, const char *program);
enum { RT_MOST_RANKS = 1 << 20 };
/* Text of the mesh for messages: "dp=2 x tp=4". */
enum { RT_MESH = 256 };
const char *rt_mesh_text(const ParcModel *m, char text[RT_MESH]);
/* The number of ranks that differ only in `axes`. */
int64_t rt_group_size(const ParcModel *model, uint32_t axes);
int64_t rt_coord(const ParcModel *model, int rank, int axis);

/* Checks that enough memory is available and maps the world: for all ranks
 * that this process will fork, or with `launch` for its own rank of a job,
 * whose processes connect here. `runs`: the run executes steps. `staging`: bytes
 * of host memory that a rank needs for --save-async. False after a message. */
bool rt_world_open(RtWorld *w, const ParcModel *model, const char *program,
                   int threads, const RtLaunch *launch, bool runs,
                   int64_t staging);
void rt_world_close(RtWorld *w);
/* The rank of this process; 0 before ranks are forked. */
int rt_world_rank(const RtWorld *w);
/* Whether collectives of this target read the arenas of peers in place. All
 * ranks must then be on one node. */
bool rt_collectives_share(void);

/* Runs `body` on every rank, each in its own process (a single rank runs in
 * this process). Returns the exit status of the run. */
typedef int RtBody(ParcRt *rt, void *context);
int rt_ranks_run(RtWorld *w, RtBody *body, void *context);

int rt_cores(void); /* number of CPUs that this process may use */

/* rt_arena_take: sets the rank's arena and counts its bytes (rt_arena.c).
 * rt_count: counts further bytes that a target allocates for tensors. */
void rt_arena_take(ParcRt *rt);
void rt_count(ParcRt *rt, int64_t bytes);
/* The size of the mirror, including shared segments or host memory; and the
 * bytes that one rank counts of it: shared segments count in equal parts. */
int64_t rt_arena_end(const ParcModel *model);
int64_t rt_arena_counted(const ParcModel *model);

/* Allocates the rings for the traced steps: `steps` of the steps done+1 …
 * `total` (rt_trace.c). False after a message. */
bool rt_trace_open(RtWorld *w, int64_t steps, int64_t done, int64_t total);
void rt_trace_close(RtWorld *w);
/* The begin and end of a step: marks are recorded only in traced steps. */
void rt_trace_begin(ParcRt *rt, int64_t step);
void rt_trace_end(ParcRt *rt);
void rt_trace_add(RtRing *ring, int32_t what, int64_t turn);
/* Adds a mark at time `ns` of CLOCK_MONOTONIC instead of now. */
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
/* Copies the marks of ranks that share no memory with rank 0 to it. Rank 0
 * calls it while the others wait at a synchronization point. */
void rt_trace_gather(ParcRt *rt);
/* Adds `ns` to the times of all marks of a ring. */
void rt_trace_shift(RtRing *ring, int64_t ns);
/* Writes the marks of all ranks to a JSON file in Chrome's trace format. One
 * rank calls it after all have finished the traced steps (rt_trace_file.c).
 * Returns NULL or an error. */
const char *rt_trace_write(const RtWorld *w, const char *path,
                           const char *temporary);

/* rt_barrier: barrier of a group whose ranks share memory. rt_meet:
 * synchronization point of all ranks, on any nodes. */
void rt_barrier(ParcRt *rt, uint32_t axes);
void rt_meet(ParcRt *rt, int id);
/* rt_wait_change: waits while the word in shared memory has this value; ends
 * the run after the time limit, `late`: the rank that is late, or -1 to search
 * for it. rt_wake: the word has changed. */
void rt_wait_change(ParcRt *rt, _Atomic uint32_t *word, uint32_t value,
                    int late);
void rt_wake(_Atomic uint32_t *word);
/* Copies rank 0's `bytes` at `data` to all ranks (rt_share.c). */
void rt_share(ParcRt *rt, int id, void *data, size_t bytes);

/* Why the wait of `rank` timed out: names the rank that the others wait for,
 * and its state (rt_late.c). `first`: a rank that is known to be late, or
 * -1. */
enum { RT_LATE = 1536 };
const char *rt_late_text(const RtWorld *w, int rank, int first,
                         char text[RT_LATE]);

/* Requests the state of the ranks that share no memory with this one, and
 * stores it in their slots, for messages. Slots without an answer keep
 * RT_STARTING (rt_places.c). */
void rt_places_gather(ParcRt *rt);

/* The arena of a rank that is mapped in this process. */
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

/* Splits the joint iteration index `turn` of a statement into the indices of
 * its loops. */
void rt_work_turns(const ParcWork *w, int64_t turn,
                   int64_t at[PARC_MAX_LOOPS]);
/* " in 'k07_norm' (llama.pdl:28:5, layer 3)" */
enum { RT_WHERE = 512 };
const char *rt_work_where(const ParcWork *w, int64_t turn,
                          char text[RT_WHERE]);

/* The value of an environment variable that is 0 or 1; `otherwise` if it is
 * not set. Any other value ends the run. */
bool rt_flag(ParcRt *rt, const char *name, bool otherwise);
/* Reads PARC_NANCHECK. */
void rt_nan_open(ParcRt *rt);
/* Checks the results of the previous statement for finite values. `work` is
 * the next statement, -1 at the end of a step. */
void rt_nan_mark(ParcRt *rt, int work, int64_t turn);

/* ---- messages (rt_message.c) ---- */

/* "train: error: …", "train: note: …" on standard error. */
void rt_error(const char *program, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void rt_note(const char *program, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints the text without a prefix, for "FILE: byte N: error: …". */
void rt_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Ends the run from within a rank. Only the first rank that fails prints its
 * message, because the others usually fail for the same reason. rt_fail
 * prefixes the message with "train: error: ", rt_fail_at does not. */
_Noreturn void rt_fail(ParcRt *rt, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void rt_fail_at(ParcRt *rt, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints `text` as it is; it ends with a newline. */
void rt_put(const char *text);
/* "12.5 GiB" */
const char *rt_size_text(double bytes, char text[32]);
void *rt_allocate(size_t bytes); /* zeroed; ends the process if it fails */
/* The array of `n` elements of `size` bytes, moved if it has no space for one
 * more; *capacity is the number of elements that it has space for. */
void *rt_grow(void *array, int64_t n, int64_t *capacity, size_t size);
double rt_now(void);             /* seconds */

/* ---- random numbers (rt_random.c) ---- */

/* Streams of random numbers. A shuffle uses one stream for each of its
 * rounds. */
enum {
    RT_STREAM_INIT,
    RT_STREAM_DATA,
    RT_STREAM_SHUFFLE, /* and those up to RT_STREAM_SAMPLE */
    RT_STREAM_SAMPLE = 15,
    RT_STREAM_STEP = 16,
};

void rt_philox(uint32_t out[4], const uint32_t counter[4],
               const uint32_t key[2]);
uint32_t rt_hash(const char *name);
/* The four words of a block of a named stream. */
void rt_random_block(uint32_t out[4], int64_t seed, int stream, uint32_t key,
                     uint64_t block);
/* The key of the random numbers of a step; steps count from 1. */
int64_t rt_step_key(int64_t seed, int64_t step);
/* Draws elements first … first+n-1 of a tensor. The value of an element does
 * not depend on the range that it is drawn in. */
void rt_random_normal(float *to, int64_t seed, int stream, uint32_t key,
                      int64_t first, int64_t n, double std);
void rt_random_uniform(float *to, int64_t seed, int stream, uint32_t key,
                       int64_t first, int64_t n, double low, double high);
void rt_random_below(int32_t *to, int64_t seed, int stream, uint32_t key,
                     int64_t first, int64_t n, int64_t below);
/* A permutation of 0 … n-1 for each key: returns the image of `i`. */
int64_t rt_permute(int64_t seed, uint32_t key, int64_t n, int64_t i);

/* ---- parameters (rt_shard.c, rt_params.c, rt_print_shards.c) ---- */

/* The part of a parameter that one rank stores, for each layer of its stack:
 * the local block [begin, begin+part) of the global tensor. Under flat axes
 * the rank stores only elements first … first+run-1 of the flattened block. */
typedef struct RtShard {
    const ParcParam *param;
    int64_t layers, global; /* global: elements of a whole layer */
    int64_t part[PARC_MAX_DIMS], begin[PARC_MAX_DIMS];
    int64_t held[PARC_MAX_DIMS]; /* part without padding */
    int64_t box;        /* elements of the local block */
    int64_t first, run; /* run: stored elements, padding included */
    int64_t row;        /* distance in elements between two layers */
    int64_t inside;     /* offset of the run in a layer's buffer, in elements */
    bool owner;         /* no rank with a lower number stores the same
                           elements */
} RtShard;

void rt_shard(RtShard *s, const ParcModel *model, int rank,
              const ParcParam *param);
/* The address of a layer's part that a rank stores; the rank must be mapped
 * here. */
float *rt_shard_layer(const ParcRt *rt, int rank, const RtShard *s, int64_t layer);
/* A layer's part of any rank, to read. If the rank is not mapped here, its
 * bytes are copied to `room`, which the caller frees. Rank 0 calls it while the
 * others wait at a synchronization point. */
typedef struct RtRoom {
    void *at;
    size_t bytes;
} RtRoom;
const float *rt_shard_read(ParcRt *rt, int rank, const RtShard *s,
                           int64_t layer, RtRoom *room);
/* The next contiguous run of elements without padding at or after stored
 * element *i of a layer. Sets *i to its first element and *global to the index
 * of that element in the global layer. Returns its length; 0 if only padding
 * is left. */
int64_t rt_shard_run(const RtShard *s, int64_t *i, int64_t *global);
/* The number of stored elements of a layer without padding. */
int64_t rt_shard_elements(const RtShard *s);
/* Checks the layouts of train.c against the mesh and arena; false after a
 * message. */
bool rt_params_check(const ParcModel *model, const char *program);

/* "layers.3.attention.wq.weight"; `layer` is one index over all stack dims. */
enum { RT_NAME = 512 };
void rt_param_name(const char *name, const ParcParam *param, int64_t layer,
                   char text[RT_NAME]);
/* The numbers in that name, one for each stack dim. */
void rt_param_numbers(const ParcParam *param, int64_t layer,
                      int64_t number[PARC_MAX_STACK]);
/* Whether --export, --init and --print-shards include the parameter: it is not
 * an optimizer state, and the rank stores it. */
bool rt_param_is_weight(const ParcParam *param);
int64_t rt_param_layers(const ParcParam *param);
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

/* Returns 0, or 1 after a message, which suggests a similar name. */
int rt_shards_check(const ParcModel *model, const RtOptions *o);
/* Prints to standard output. */
struct RtWeights;
void rt_shards_print(const ParcModel *m, const RtOptions *o,
                     const struct RtWeights *weights);

/* ---- files that are written whole or not at all (rt_output.c) ---- */

/* Prepares the standard streams and signals. A closed stream is opened such
 * that its use fails; otherwise a file that is opened later would get its
 * number, and messages would be written into it. A write beyond the limit of
 * file sizes fails instead of raising SIGXFSZ. */
void rt_streams_prepare(void);

/* Whether `path` is "-", standard output; the name of `path` in messages. */
bool rt_output_is_stdout(const char *path);
const char *rt_output_name(const char *path);
/* The name of the temporary file for `path`; "" if `path` is a device, a pipe
 * or "-"; NULL, after a message, if `path` cannot be written. */
char *rt_output_probe(const char *path, const char *program);

/* Removes the temporary files and directories STEM.PID.tmp of processes that
 * were killed. One that another process locks, or whose process runs, stays. */
void rt_output_remove_stale(const char *stem);

/* Removes a temporary file, or a temporary directory with its files. NULL and
 * "" have no effect. */
void rt_output_discard(const char *temporary);

/* A file that is being written, to its temporary name unless that is empty.
 * `error` is the first errno; later writes are skipped. */
typedef struct RtOutput {
    const char *path, *temporary;
    int file, error;
} RtOutput;

void rt_output_open(RtOutput *o, const char *path, const char *temporary);
void rt_output_put(RtOutput *o, const void *data, size_t n);
/* Syncs the file to disk and renames it to `path`. Returns NULL or an error. */
const char *rt_output_close(RtOutput *o);

/* ---- files that are read (rt_input.c) ---- */

/* Maps a regular file and sets *size. NULL after a message; an empty file is
 * an error. */
const unsigned char *rt_input_map(const char *path, int64_t *size,
                                  const char *program);
void rt_input_unmap(const unsigned char *map, int64_t size);
bool rt_is_regular(const char *path);
/* Whether two paths name one regular file, or one that does not exist yet. */
bool rt_is_same_file(const char *a, const char *b);

/* ---- learning rates (rt_schedule.c) ---- */

/* The learning rate of a step (counted from 1) in a run of `steps`
 * (rt_settings.h). */
typedef struct RtSettings RtSettings;
double rt_schedule_lr(const RtSettings *settings, int64_t step, int64_t steps);

/* ---- non-finite gradients (rt_loss_scale.c, rt_nonfinite.c) ---- */

void rt_scale_start(ParcRt *rt);
/* Updates the scale after a step. Returns false if the step was skipped: the
 * norm of the gradients is not finite and no parameter has changed. Ends the
 * run after too many consecutive skips. */
bool rt_scale_step(ParcRt *rt, int64_t step, double norm);
/* Ends the run after a step with a non-finite gradient norm; the message names
 * a parameter whose gradient is not finite. All ranks call it. */
_Noreturn void rt_nonfinite(ParcRt *rt, int64_t step, double norm);

#endif
