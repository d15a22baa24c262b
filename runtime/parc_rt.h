/* parc_rt.h: declares the interface of emitted training programs and the runtime.
 *
 * The runtime does not depend on any model: train.c describes its model in one
 * ParcModel and calls parc_main. This header includes no file of the compiler,
 * so that -S can copy it next to train.c.
 *
 * Each rank stores its tensors in one arena, whose layout parc computes. On
 * the CPU the arenas are shared memory: every rank of a node maps all of them,
 * so a collective reads the shards of its peers in place. Tensors that are
 * gathered in every step can have one copy for several ranks (ParcShared). With
 * CUDA the arena is in the memory of the rank's device, and step() only enqueues
 * work: train.c passes device addresses on and never dereferences them.
 */
#ifndef PARC_RT_H
#define PARC_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARC_RT_VERSION 23
enum {
    PARC_MAX_AXES = 12,
    PARC_MAX_DIMS = 6,
    PARC_MAX_STACK = 4,
    PARC_MAX_LOOPS = 6,
    PARC_SHARED_ALIGN = 1 << 21, /* the size of a large page */
    PARC_DEVICE_RESERVE = 32,    /* 1 / 32 of a GPU's memory is kept free
                                  (driver/auto/fit.c) */
};

typedef struct ParcRt ParcRt;

/* Element types. bf16 and f16 are storage types: arithmetic is in f32, and a
 * result is rounded once, to nearest, ties to even, when it is stored. */
typedef enum ParcType {
    PARC_F32, PARC_BF16, PARC_F16, PARC_I32, PARC_I64,
} ParcType;
typedef uint16_t parc_bf16, parc_f16;

/* ---- the description of a model, in train.c ---- */

typedef struct ParcAxis {
    const char *name;
    int64_t size;
} ParcAxis;

/* A message between two ranks on different nodes. */
typedef struct ParcMessage {
    int peer;     /* the other rank */
    void *data;
    size_t bytes; /* fewer than 2^31 */
} ParcMessage;

typedef struct ParcTransport {
    const char *name;
    /* Joins the other processes as this rank; false: `error` has the reason. */
    bool (*open)(int rank, int nranks, char *error, size_t size);
    /* Sends and receives all messages; `tag`, from 0 to 32767, is equal at both
     * ends. Messages of two ranks arrive in the order of the calls. Calls `wait`
     * repeatedly until all have arrived. False: the library reports an
     * error. */
    bool (*exchange)(const ParcMessage *send, int nsend,
                     const ParcMessage *receive, int nreceive, int tag,
                     void (*wait)(void *context), void *context);
    void (*close)(void);
} ParcTransport;
extern const ParcTransport parc_mpi; /* mpi/rt_mpi.c */

typedef enum ParcInitKind {
    PARC_ZEROS, PARC_ONES, PARC_NORMAL, PARC_UNIFORM, PARC_ARANGE, PARC_COPY,
    PARC_TRUNCATED_NORMAL,
} ParcInitKind;

/* How a tensor of a Hugging Face file holds a layer of a parameter: the block
 * `names hf` of the model. The tensor has the shape dim[]. Element i of the
 * layer (row-major) has the indices k[0] … k[n-1] in sizes size[], the last of
 * which varies fastest; it is element first + sum of k[j] * stride[j] of the
 * tensor. */
enum { PARC_MAX_FACTORS = 12 };
typedef struct ParcFileTensor {
    const char *name; /* each '*' is the number of the layer in a stack dim of
                         the parameter, times scale plus offset */
    int64_t stack[PARC_MAX_STACK]; /* the stack dim of each '*'; -1: the number of the part */
    int64_t scale[PARC_MAX_STACK], offset[PARC_MAX_STACK];
    int ndim;
    int64_t dim[PARC_MAX_DIMS];
    int n;
    int64_t size[PARC_MAX_FACTORS], stride[PARC_MAX_FACTORS];
    int64_t first;
    int64_t parts; /* 0: the tensor holds all of the layer; else it is one of `parts`, and the
                    * layer's elements are those of one part after another: i is its index there */
} ParcFileTensor;

/* A parameter or optimizer state. `split[d]` lists the mesh axes that split
 * dim d, major first (-1 ends the list). flat_axes is a bit mask of mesh axes;
 * an axis with a lower number is major. They cut each layer's local tensor,
 * flattened, into equal runs, of which the last is padded. The arena stores
 * the layers in order, each as one run or local tensor.
 *
 * `pipeline`: the axis of a pipeline, as a bit mask, if not all its coordinates
 * store the parameter. With nstages = 0 coordinate `at` stores it; else each
 * stores the layers of its stages: stage s has the elements cut[s] … cut[s+1]-1 of
 * the first stack dim, and is on coordinate s mod the size of the axis. */
typedef struct ParcParam {
    const char *name;    /* '*' for each stack dim, leftmost first, is replaced
                            by the layer's number, or by "3", "0-3", "0-6:2"
                            for the layers that it stacks */
    const char *state;   /* NULL: a parameter; else an optimizer state "m",
                            "v", …; `name` is then the parameter's name and
                            ".m" */
    int nstack, ndim;
    int64_t stack[PARC_MAX_STACK];
    int64_t dim[PARC_MAX_DIMS]; /* global shape */
    int64_t pad[PARC_MAX_DIMS]; /* elements of zero padding at the end of a
                                   dim */
    int8_t split[PARC_MAX_DIMS][PARC_MAX_AXES + 1];
    uint32_t flat_axes;
    uint32_t pipeline;
    int at, nstages;
    const int64_t *cut;  /* nstages + 1 */
    int64_t offset;      /* bytes into the arena; an offset beyond its end is
                            in host memory, which parc_fetch reads. -1: the
                            step does not use the parameter, and no rank stores
                            it */
    int64_t local_elements; /* of the rank that stores the most */
    bool inside;         /* each layer's buffer has the runs of all ranks of
                            the flat axes; a rank's own run is at its index
                            among them */
    ParcType type;       /* f32, except for a copy */
    int copy_of;         /* for PARC_COPY: index of the parameter whose values
                            this one holds in its own type */
    ParcInitKind init;
    double a, b, c;      /* normal: a = std; truncated_normal: from b to c, too;
                            uniform: from a to b; arange: a, a+1, … */
    double depth;        /* layer i has the values times (i + 1)^depth */
    const char *placement; /* for --print-shards: "dp=S(0) tp=S(0)" */
    const char *const *alias;
    int nalias;
    const ParcFileTensor *file; /* with `names hf`: the tensor that holds it;
                                   further ones hold the same parameter under
                                   the names of its aliases */
    int nfile;
} ParcParam;

/* A batch input: [batch, seq, …]. Dim 0 is first cut into `micro` equal
 * microbatches; each of them is split over `batch_axes`. Dim 1 is split over
 * `sequence_axes`. */
typedef struct ParcInput {
    const char *name;
    bool is_labels;         /* token file: labels are the sequence shifted by
                               one */
    int64_t below;          /* exclusive upper bound of integers; 0: none */
    bool has_ignored;       /* integers may also be `ignored` */
    int64_t ignored;
    int ndim;
    int64_t dim[PARC_MAX_DIMS];
    int64_t micro; /* number of microbatches; 0 means 1 */
    uint32_t batch_axes, sequence_axes;
    int64_t offset;         /* offset of the rank's part; -1: unused */
    ParcType type;          /* i32 or a float type */
} ParcInput;

/* The schedule of the learning rate (options/settings.c). */
typedef enum ParcScheduleKind {
    PARC_CONSTANT, PARC_LINEAR, PARC_COSINE, PARC_SQRT, PARC_PIECEWISE,
} ParcScheduleKind;
typedef struct ParcSchedule {
    ParcScheduleKind kind;
    int64_t warmup, steps;  /* steps 0: the number of steps of the run */
    double min_lr;
    bool stable;            /* constant between the warm-up and the decay */
    int64_t decay;          /* with `stable`; 0: a tenth of `steps` */
    int npieces;            /* the rate is rate[i] after step after[i] */
    const int64_t *after;
    const double *rate;
} ParcSchedule;

/* A loop around a statement, as the plan and --trace name it. */
typedef struct ParcLoop {
    const char *name; /* "layer" */
    int64_t trips;
} ParcLoop;

/* A result of a statement, for PARC_NANCHECK: `elements` contiguous elements.
 * With iteration index t of each enclosing loop i, they are stored at `offset`
 * plus the sum of t * stride[i] bytes, or of (t % modulo[i]) * stride[i] if
 * modulo[i] is not 0. If a rank computes its own run of a resident parameter,
 * add its index over the axes `cut` times `run` bytes.
 *
 * For a pipeline: `buffers` is modulo[0] by stage, `shift` are bytes to add by stage, and
 * `part` are the elements that the ranks at a coordinate have; NULL: as without a
 * pipeline. */
typedef struct ParcResult {
    const char *name;
    ParcType type;
    int64_t offset, elements;
    int64_t stride[PARC_MAX_LOOPS], modulo[PARC_MAX_LOOPS];
    const int64_t *buffers, *part, *shift;
    uint32_t cut;
    int64_t run;
} ParcResult;

/* One statement of the step, as the plan, --trace and messages name it. */
typedef struct ParcWork {
    const char *id;     /* "k07_attention_norm", "ag3", "wq" */
    const char *kind;   /* "kernel", "matmul", "attention", "collective", … */
    const char *phase;  /* "forward", "backward", "optimizer" */
    const char *path;   /* the module's path: "layers.*.attention" */
    const char *source; /* "llama.pdl:28:5" */
    const char *detail; /* NULL, "all_gather over dp: layers.*", … */
    int64_t bytes;      /* bytes that one call reads and writes */
    double flops;       /* flops of one call; 0: memory-bound */
    int64_t count;      /* calls per step */
    int nloops;         /* number of enclosing loops, outermost first */
    ParcLoop loop[PARC_MAX_LOOPS];
    const ParcResult *result; /* floating-point tensors that a call writes */
    int nresults;
} ParcWork;

/* Compiled kernels for one architecture: "sm_90a" is machine code;
 * "compute_90" is PTX, which the driver compiles for newer architectures. */
typedef struct ParcImage {
    const char *arch;
    const void *data;
    int64_t size; /* bytes */
} ParcImage;

/* A range of the address space after arena_bytes, at a multiple of
 * PARC_SHARED_ALIGN. The ranks that differ only in `axes` map the same memory
 * there. */
typedef struct ParcShared {
    uint32_t axes;
    int64_t offset, bytes;
} ParcShared;

/* Bytes of the arena, or of a shared segment. */
typedef struct ParcRange {
    int64_t offset, bytes;
} ParcRange;

/* An output of the model, one microbatch of it, split as a ParcParam's local
 * tensor: dim 0 is the batch, `split[d]` lists the mesh axes that split dim d,
 * major first. Ranks along other axes hold the same values. */
typedef struct ParcOutput {
    const char *name;
    int ndim;
    int64_t dim[PARC_MAX_DIMS]; /* global shape, without padding */
    int64_t pad[PARC_MAX_DIMS]; /* elements of padding at the end of a dim */
    int8_t split[PARC_MAX_DIMS][PARC_MAX_AXES + 1];
    uint32_t pipeline;          /* the axis of a pipeline, as a bit mask, if */
    int at;                     /* … only this coordinate has it */
    int64_t offset;             /* offset of the rank's part */
    ParcType type;
} ParcOutput;

/* Where a program has its scalars: offsets in the arena; -1: it has none. All are f32[]
 * but `random`. */
typedef struct ParcScalars {
    int64_t loss, grad_norm; /* results */
    int64_t overflow;        /* the rows of experts that had no place in their buffers */
    int64_t dropped;         /* the choices that experts with a capacity dropped, beside … */
    int64_t dropped_256;     /* … 256 times this number */
    int64_t lr, bias1, bias2, clip, loss_scale;
    int64_t random;          /* i64[]: the key of random numbers */
} ParcScalars;

/* A program beside the training step. `rounds` is a training step too, which computes experts
 * in rounds. The others are the model's forward pass without dropout, gradients and
 * optimizer: they never write parameters and optimizer states. All have the parameters and
 * low-precision copies of the training step at their offsets, and use the
 * memory of the training step that nothing keeps between steps, with its inputs and
 * outputs. A session is begin(), then any number of run() with new inputs.
 * Collectives, statements (ParcWork), kernels and events of all programs are
 * in the tables of ParcModel and have distinct numbers. */
typedef struct ParcProgram {
    void (*init)(ParcRt *rt);  /* once at start: creates matmuls; or NULL */
    void (*begin)(ParcRt *rt); /* at the beginning of a session: computes
                                  constants; or NULL */
    void (*run)(ParcRt *rt);   /* one batch */
    ParcScalars at;
    const ParcInput *input;    /* an input with offset -1 is not read */
    int ninputs;
    const ParcOutput *output;
    int noutputs;
    double flops;              /* flops of one run, all ranks together */
} ParcProgram;

typedef struct ParcModel {
    int rt_version;         /* PARC_RT_VERSION */
    const char *name, *parc_version, *source; /* source: base name of the
                                                 file */
    const char *info;       /* the plan as --emit plan prints it */
    uint64_t plan_hash;
    int naxes;
    ParcAxis axis[PARC_MAX_AXES];
    uint32_t zigzag;        /* axes that split dims in zigzag order */
    int64_t stride[PARC_MAX_AXES]; /* ranks between two neighbors on an axis; 0:
                               the product of the sizes of the axes that
                               follow */
    int node_size;          /* ranks of a node; 0: all ranks are on one node.
                               CPU only */
    const ParcTransport *transport; /* NULL: all ranks are on one node */
    const ParcParam *param;
    int nparams;
    const ParcInput *input;
    int ninputs;
    int64_t arena_bytes;    /* the rank's own arena */
    uint32_t pipeline;      /* the axis of the pipeline; 0: none */
    const struct ParcPipeline *order; /* what its ranks do, for the trace; NULL: they
                               work one after another */
    const ParcRange *const *ranges; /* by coordinate of that axis: what its ranks
                               use of the arena and of shared segments, in order;
                               one without bytes is the last. NULL: all of it */
    int64_t host_bytes;     /* CUDA only: bytes of host memory, for
                               parc_fetch */
    const ParcShared *shared; /* CPU only */
    int nshared;
    int threads;            /* number of threads that the workspace is planned
                               for */
    int64_t batch, seq;     /* global sizes; seq is 1 if no input has it */
    double executed_flops;  /* flops of one step, all ranks together, with
                               recomputed ones */
    double flops;           /* flops of one step without recomputed ones */
    const char *optimizer;  /* "AdamW" … */
    double lr, beta1, beta2, ema; /* ema: 0: the weights have no averages */
    double power1, power2;  /* not 0: the optimizer's scalars bias1 and bias2 of step t are
                               these powers of t, and not 1 - beta1^t and 1 - beta2^t */
    ParcSchedule schedule;  /* the schedule of lr */
    const char *options;    /* names of settings that only parc -D changes, with
                               spaces between */
    double clip;            /* the largest gradient norm; 0: no clipping */
    double loss_scale;      /* initial value; 0: the loss is not scaled */
    ParcScalars at;         /* of the training step */
    const char *const *collective; /* names by id, for messages: "ag3 dp
                                      layers.* (llama.pdl:58)" */
    int ncollectives;
    const ParcWork *work;
    int nwork;
    /* CUDA only; otherwise 0 and NULL. */
    const char *const *kernel; /* symbols by kernel number: parc_launch */
    int nkernels;
    const ParcImage *image;    /* all kernels, once for each architecture */
    int nimages;
    const int8_t *collective_stream; /* by collective: PARC_TENSOR …; NULL: all
                                        on PARC_COMPUTE */
    const uint32_t *collective_axes; /* by collective: mask of mesh axes */
    const ParcRange *collective_staging; /* by collective: the buffer for packed
                                        rows (rt_staging.h), which it uses
                                        exclusively while it is in flight; NULL:
                                        no collective has one */
    int nevents;               /* number of events: parc_record, parc_wait */
    uint32_t copy_engines;     /* the axes, inside a node, over which they gather */
    bool deterministic;        /* every run computes the same bits */
    void (*init)(ParcRt *rt);  /* creates matmuls, computes constants */
    void (*step)(ParcRt *rt);
    const ParcProgram *eval;    /* the loss of one batch (microbatches as in
                                training), without outputs */
    const ParcProgram *rounds; /* repeats a step that overflows; NULL: none can */
    const ParcProgram *outputs; /* the outputs of one microbatch, without loss;
                                NULL: forward returns only the loss */
    const char *file_prefix; /* with `names hf`: names of files may lack this
                                prefix; NULL: none */
    const char *file_config; /* the text of config.json; NULL: none */
} ParcModel;

/* Runs the program: parses options, starts ranks, initializes or loads
 * weights, reads data, executes steps, writes logs. Returns the exit status. */
int parc_main(int argc, char **argv, const ParcModel *model);

/* ---- functions that step() calls ---- */

/* The rank's arena: a tensor's address is this pointer plus its offset. */
char *parc_arena(ParcRt *rt);
int parc_threads(const ParcRt *rt);
/* The rank's index among the ranks that differ only in `axes` (bit mask), axis
 * 0 major. */
int64_t parc_index(const ParcRt *rt, uint32_t axes);
/* The index in a dim of element i of the rank's part, which has `part` elements, for
 * ranks that split it in zigzag order: rank r of k has pieces r and 2k - 1 - r of 2k. */
int64_t parc_zigzag(const ParcRt *rt, uint32_t axes, int64_t part, int64_t i);

/* Copy and clear within the arena. `to` and `from` must not overlap. */
void parc_move(ParcRt *rt, void *to, const void *from, int64_t bytes);
void parc_zero(ParcRt *rt, void *to, int64_t bytes);
/* The offset of a rank's part of a dim, for each iteration of a loop over
 * `parts` parts of the dim: to[i] = (i * dim + index) * part. */
void parc_set_index(ParcRt *rt, int64_t *to, int64_t parts, int64_t dim,
                    int64_t index, int64_t part);
/* The same for a rank that has `held` units of `part`: the first half of them begins at
 * unit `first` of the dim, the other at `second`; to[i * held + j]. */
void parc_set_pieces(ParcRt *rt, int64_t *to, int64_t parts, int64_t dim, int64_t held,
                     int64_t first, int64_t second, int64_t part);

/* Launches kernel `kernel` of the model's list on a stream, with `grid` blocks of `block`
 * threads and `shared_bytes` of dynamic shared memory. `args` holds the
 * addresses of the kernel's arguments; the call reads them before it returns.
 * CUDA only. */
void parc_launch(ParcRt *rt, int stream, int kernel, int64_t grid, int block,
                 int64_t shared_bytes, void **args);
/* Whether a block of the rank's GPU can have `shared_bytes` of dynamic shared
 * memory in addition to the kernel's static shared memory. */
bool parc_block_has(const ParcRt *rt, int kernel, int64_t shared_bytes);

/* Streams, of which the CPU has PARC_COMPUTE, and PARC_TRANSFER for sends: work
 * that is enqueued on stream s after parc_wait(rt, s, e) runs after the work that
 * was enqueued on the recording stream before the latest parc_record of event e. A
 * wait for an event that has not been recorded in this step has no effect. */
enum {
    PARC_COMPUTE, PARC_TENSOR, PARC_DATA, PARC_HOST,
    PARC_TRANSFER, /* between the stages of a pipeline: parc_pipeline.h */
    PARC_STREAMS
};
void parc_record(ParcRt *rt, int stream, int event);
void parc_wait(ParcRt *rt, int stream, int event);
/* All streams but PARC_TRANSFER wait for each other; `transfers`: all. */
void parc_join(ParcRt *rt, bool transfers);

/* Copies between the rank's host memory and its arena, on the stream
 * PARC_HOST. `to` and `from` are offsets; those of host memory begin at
 * arena_bytes, after the arena's end. CUDA only: on the CPU all memory is host
 * memory. */
void parc_fetch(ParcRt *rt, int64_t to, int64_t from, int64_t bytes);
void parc_store(ParcRt *rt, int64_t to, int64_t from, int64_t bytes);

/* Marks the start of work[i], in iteration `iteration` of the enclosing loops
 * (one index for all of them together). It is used by --trace and messages;
 * without --trace it costs little. */
void parc_mark(ParcRt *rt, int i, int64_t iteration);

/* How many of at most `most` rounds of experts the program runs. If some rows have no place in
 * them, it changes nothing, and runs again with more. */
int64_t parc_rounds(const ParcRt *rt, int64_t most);

/* CPU, before the optimizer: returns false, on all ranks, if the loss at this offset is not
 * finite and has no scale. The step ends there; the runtime executes it a
 * second time with checks of each result. */
bool parc_goes_on(ParcRt *rt, int64_t loss);

/* Collectives over the group of ranks that differ only in `axes`. All ranks
 * call the same collectives in the same order. `id` names the collective in
 * messages and is compared between ranks. Sums are computed in rank order, in
 * f32; sums of bf16 and f16 are rounded once, at the end. Offsets are bytes
 * into every rank's arena, the same on all ranks. A call with `n` parts
 * executes all of them between one pair of barriers.
 *
 * Each part is a strided block: `outer` rows of `inner` contiguous elements on
 * each rank. For dim d = 1 of a tensor [a, b, c] that k ranks split, outer = a
 * and inner = b/k * c.
 *   all_gather      src: [outer, inner] of each rank
 *                   dst: [outer, k, inner]
 *   reduce_scatter  src: [outer, k, inner] partial on every rank
 *                   dst: [outer, inner]
 *   all_reduce      src, dst: [outer, inner] (dst may be src)
 *   all_to_all      src: [outer, k, middle, inner] -> dst: [outer, middle, k,
 *                   inner]: rank r copies src_j[:, r] of each peer j to
 *                   dst[:, :, j]. With `minor` it is the inverse, src:
 *                   [outer, middle, k, inner] -> dst: [outer, k, middle,
 *                   inner]: src_j[:, :, r] to dst[:, j]
 *   shift           src: [outer, inner] of the previous member of the group, of
 *                   the first member that of the last -> dst: [outer, inner]
 * `valid` is the number of elements of a row [k, inner] without the padding of
 * the last runs (flat shards); the gathered tensor is then [outer, valid]. 0
 * means that there is no padding. With `zigzag` the rank's row is two pieces of inner / 2
 * elements: of the 2k pieces of a row [k, inner] member j has j and 2k - 1 - j. With `inside` (all_gather), src and dst are
 * one buffer with rows of k runs, padding included, and each rank's src is its
 * own run in it.
 */
typedef struct ParcPart {
    int64_t src, dst;  /* byte offsets */
    int64_t outer, inner;
    int64_t middle;    /* all_to_all only */
    int64_t valid;
    ParcType type;
    bool inside, zigzag;
    bool minor;        /* all_to_all only */
} ParcPart;

/* Barrier of the group. CPU only. */
void parc_synchronize(ParcRt *rt, int id, uint32_t axes);

typedef enum ParcReduce { PARC_SUM, PARC_MAX } ParcReduce;

void parc_all_gather(ParcRt *rt, int id, uint32_t axes, int n,
                     const ParcPart *part);
void parc_reduce_scatter(ParcRt *rt, int id, uint32_t axes, int n,
                         const ParcPart *part);
void parc_all_reduce(ParcRt *rt, int id, uint32_t axes, ParcReduce op, int n,
                     const ParcPart *part);
void parc_all_to_all(ParcRt *rt, int id, uint32_t axes, int n, const ParcPart *part);
void parc_shift(ParcRt *rt, int id, uint32_t axes, int n, const ParcPart *part);

/* Local slices: no data moves between ranks. local_slice: src [outer, k, inner]
 * -> dst [outer, inner], this rank's slice, with zeros from `valid` on.
 * mask_to_partial: member `keeps` of the group keeps [outer, inner], the others
 * get zeros. */
void parc_local_slice(ParcRt *rt, uint32_t axes, const ParcPart *part);
void parc_mask_to_partial(ParcRt *rt, uint32_t axes, int64_t keeps,
                          const ParcPart *part);

/* A matmul: for each of `batch` pairs c = a b, with a [m, k], b [k, n], c [m,
 * n]. Strides are in elements: sa[0] batch, sa[1] row, sa[2] column, …; one of
 * the last two is 1. init creates it once. `scratch` is the offset of its
 * workspace in the arena, of `scratch_bytes`; parc_matmul_new ends the run
 * with a message if the library needs more on this machine. On the CPU,
 * products of bf16 use the machine's instructions for the type if oneDNN
 * supports them; other 16-bit products use f32 arithmetic, block by block. */
typedef struct ParcMatmul ParcMatmul;
typedef struct ParcTypes {
    ParcType a, b, c;
} ParcTypes;
/* Work that a matmul does on its product before it writes it. CUDA only.
 * `vector` has the type of c; `tensor` has its own type, sizes and strides.
 * Additions are in f32; g is the tanh approximation of GELU. */
typedef enum ParcEpilogue {
    PARC_NO_EPILOGUE,
    PARC_BIAS,      /* c = a b + vector [n], for each row */
    PARC_ADD,       /* c = a b + tensor; c may be the tensor */
    PARC_SUM_A,     /* c = a b; vector [m] = sum of a's columns */
    PARC_SUM_B,     /* c = a b; vector [n] = sum of b's rows */
    PARC_BIAS_ADD,  /* c = a b + tensor + vector [n] */
    PARC_SUM_A_ADD, /* c = a b + tensor; vector as for PARC_SUM_A */
    PARC_SUM_B_ADD, /* c = a b + tensor; vector as for PARC_SUM_B */
    PARC_GELU,      /* tensor = a b; c = g(a b) */
    PARC_GELU_BIAS, /* tensor = a b + vector [n]; c = g(a b + vector) */
    PARC_GELU_GRAD, /* c = a b g'(tensor) */
} ParcEpilogue;
typedef struct ParcMatmulSpec {
    const char *name;
    int64_t batch, m, n, k;
    int64_t sa[3], sb[3], sc[3];
    int64_t scratch, scratch_bytes;
    ParcTypes type;
    ParcEpilogue epilogue;
    bool concurrent; /* CUDA: leaves multiprocessors to a collective */
} ParcMatmulSpec;
ParcMatmul *parc_matmul_new(ParcRt *rt, const ParcMatmulSpec *spec);
void parc_matmul(ParcRt *rt, ParcMatmul *mm, const void *a, const void *b,
                 void *c);
/* A matmul with an epilogue; `vector` or `tensor` is NULL if the epilogue has
 * none. */
void parc_matmul_with(ParcRt *rt, ParcMatmul *mm, const void *a, const void *b,
                      void *c, void *vector, void *tensor);
/* Instruction sets that a CPU program can be compiled for. */
typedef enum ParcCpuLevel {
    PARC_CPU_NATIVE, /* the instruction set of the machine that compiles */
    PARC_CPU_X86_64_V3,
    PARC_CPU_X86_64_V4,
    PARC_CPU_AMX,
    PARC_CPU_AARCH64,
} ParcCpuLevel;
/* The scratch bytes that are planned for a matmul (used by parc). For
 * PARC_CPU_NATIVE: the number that this machine's implementations need. For any
 * other level: a bound that is a function of the arguments alone, and is large
 * enough for one implementation on every machine. */
int64_t parc_matmul_scratch(const ParcMatmulSpec *spec, int threads,
                            ParcCpuLevel level);

/* Embedding: copies rows of table [rows, width] for n ids to out [n, width];
 * an id outside *base … *base+rows-1 gives zeros (base NULL means 0).
 * parc_embedding_grad overwrites all of the gradient, in f32, and sums each
 * row in order of position; parc_embedding_add (CPU only) adds to it. */
void parc_embedding(ParcRt *rt, ParcType type, void *out, const void *table,
                    const int32_t *ids, int64_t n, int64_t rows, int64_t width,
                    const int64_t *base);
void parc_embedding_grad(ParcRt *rt, ParcType type, float *grad, const void *dy,
                         const int32_t *ids, int64_t n, int64_t rows,
                         int64_t width, const int64_t *base);
void parc_embedding_add(ParcRt *rt, ParcType type, float *grad, const void *dy,
                        const int32_t *ids, int64_t n, int64_t rows,
                        int64_t width, const int64_t *base);

/* The n largest (or smallest) elements of each row of x [rows, width], in order: values
 * [rows, n] and their indices in the row. Equal elements come by index; NaN is above all
 * numbers (parc_order.h). parc_topk_scratch is the CPU's scratch, in bytes.
 * parc_topk_grad: each row of dx [rows, width] is 0, but dy[j] at ids[j]. */
int64_t parc_topk_scratch(int64_t width, int64_t n, int threads);
void parc_topk(ParcRt *rt, ParcType type, void *values, int32_t *ids, const void *x,
               int64_t rows, int64_t width, int64_t n, bool largest, void *scratch);
void parc_topk_grad(ParcRt *rt, ParcType type, void *dx, const void *dy, const int32_t *ids,
                    int64_t rows, int64_t width, int64_t n);

/* The keys of layers first, first + step, … of `n` layers, computed from one
 * key (parc_random.h). */
void parc_split_key(ParcRt *rt, int64_t *to, const int64_t *from, int64_t first,
                    int64_t step, int64_t n);

/* Strided copy: writes dst in row-major order of dim[], and reads src with the
 * given strides in elements (transpose, slice, parts). */
void parc_copy(ParcRt *rt, ParcType type, void *dst, const void *src, int ndim,
               const int64_t *dim, const int64_t *src_stride);

/* Copies `rows` rows of `width` elements, from rows of src_row elements to
 * rows of dst_row elements. */
void parc_copy_rows(ParcRt *rt, ParcType type, void *dst, int64_t dst_row,
                    const void *src, int64_t src_row, int64_t rows,
                    int64_t width);

#endif
