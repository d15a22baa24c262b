/* parc_rt.h: what an emitted training program needs at run time.
 *
 * The runtime knows nothing of a particular model; train.c describes itself
 * in one ParcModel and calls parc_main. It stands alone: it includes nothing
 * of the compiler, and -S copies it beside train.c.
 *
 * A rank's memory is one arena, laid out by parc. On the CPU it lies in shared
 * memory; all ranks of a box map all arenas, so that a collective reads its
 * peers' shards where they lie, and what is gathered every step may lie there
 * once for all (ParcShared). With CUDA it lies on the rank's device, and
 * what step() calls is queued: train.c handles addresses there, and never
 * reads or writes what they point at.
 */
#ifndef PARC_RT_H
#define PARC_RT_H

#include <stdbool.h>
#include <stdint.h>

#define PARC_RT_VERSION 8
enum {
    PARC_MAX_AXES = 6,
    PARC_MAX_DIMS = 6,
    PARC_MAX_STACK = 4,
    PARC_MAX_LOOPS = 6,
    PARC_SHARED_ALIGN = 1 << 21, /* a large page */
};

typedef struct ParcRt ParcRt;

/* Element types. bf16 and f16 are 16 bits in memory only: arithmetic is in
 * f32, and a result is rounded to the nearest, to even where two are, once,
 * where it is stored. */
typedef enum ParcType {
    PARC_F32, PARC_BF16, PARC_F16, PARC_I32, PARC_I64,
} ParcType;
typedef uint16_t parc_bf16, parc_f16;

/* ---- what train.c says of itself ---- */

typedef struct ParcAxis {
    const char *name;
    int64_t size;
} ParcAxis;

typedef enum ParcInitKind {
    PARC_ZEROS, PARC_ONES, PARC_NORMAL, PARC_UNIFORM, PARC_ARANGE, PARC_COPY,
} ParcInitKind;

/* A parameter or optimizer state. `split[d]` lists the axes that split dim d,
 * major first (-1 ends the list); flat_axes (bit mask, majors have lower axis
 * numbers) cut the flattened rest of each layer into equal runs, the last
 * padded. In the arena: layer-major, each layer one run or local tensor. */
typedef struct ParcParam {
    const char *name;    /* for each stack dim, leftmost first, '*' stands
                            for the layer's number, or "3", "0-3", "0-6:2"
                            for the layers that lie there */
    const char *state;   /* NULL: a parameter; else "m", "v", … of `name` */
    int nstack, ndim;
    int64_t stack[PARC_MAX_STACK];
    int64_t dim[PARC_MAX_DIMS]; /* global */
    int64_t pad[PARC_MAX_DIMS]; /* elements of padding behind a dim, zeros */
    int8_t split[PARC_MAX_DIMS][PARC_MAX_AXES + 1];
    uint32_t flat_axes;
    int64_t offset;      /* bytes into the arena; from its end on: into host
                            memory, which parc_fetch reads. -1: the step does not use it,
                            and nobody stores it */
    int64_t local_elements;
    bool inside;         /* a layer has room for all runs of the flat axes, a
                            rank's own lies at its place among them */
    ParcType type;       /* f32, but for a copy */
    int copy_of;         /* copy: the row of the parameter whose values it has,
                            in its own type */
    ParcInitKind init;
    double a, b;         /* normal: a = std; uniform: from a to b; arange: a,
                            a+1, … */
    const char *placement; /* for --print-shards: "dp=S(0) tp=S(0)" */
    const char *const *alias;
    int nalias;
} ParcParam;

/* A batch input: [batch, seq, …]. The batch comes in `micro` equal parts, one
 * after another, and dim 0 of each is split over `batch_axes`. */
typedef struct ParcInput {
    const char *name;
    bool is_labels;         /* labels: the sequence shifted by one */
    int64_t below;          /* ints are less; 0: any */
    int ndim;
    int64_t dim[PARC_MAX_DIMS];
    int64_t micro; /* 0: 1 */
    uint32_t batch_axes;
    int64_t offset;         /* of the rank's part; -1: unused */
    ParcType type;          /* i32, or a float's */
} ParcInput;

/* The learning rate over the steps: rt_schedule.c says how. */
typedef enum ParcScheduleKind {
    PARC_CONSTANT, PARC_LINEAR, PARC_COSINE,
} ParcScheduleKind;
typedef struct ParcSchedule {
    ParcScheduleKind kind;
    int64_t warmup, steps;  /* steps 0: as many as the run has */
    double min_lr;
} ParcSchedule;

/* One statement of the step, as the plan names it: what --trace shows. */
typedef struct ParcLoop {
    const char *name; /* "layer" */
    int64_t trips;
} ParcLoop;

/* What a statement writes: `elements`, one after the other, that lie in turn t
 * of loop i around it (t % modulo[i], where that is not 0) * stride[i] bytes
 * behind `offset`; a rank's own run of a kept parameter `run` bytes further for
 * each rank before it over the axes `cut`. For PARC_NANCHECK. */
typedef struct ParcResult {
    const char *name;
    ParcType type;
    int64_t offset, elements;
    int64_t stride[PARC_MAX_LOOPS], modulo[PARC_MAX_LOOPS];
    uint32_t cut;
    int64_t run;
} ParcResult;

typedef struct ParcWork {
    const char *id;     /* "k07_attention_norm", "ag3", "wq" */
    const char *kind;   /* "kernel", "matmul", "attention", "collective", … */
    const char *phase;  /* "forward", "backward", "optimizer" */
    const char *path;   /* of the module: "layers.*.attention" */
    const char *source; /* "llama.pdl:28:5" */
    const char *detail; /* NULL, "all_gather over dp: layers.*", … */
    int64_t bytes;      /* read and written by a call */
    double flops;       /* of a call; 0: bytes are what counts */
    int64_t count;      /* calls a step */
    int nloops;         /* around it, outermost first */
    ParcLoop loop[PARC_MAX_LOOPS];
    const ParcResult *result; /* floats that a call writes */
    int nresults;
} ParcWork;

/* Compiled kernels for one architecture: "sm_90a", machine code; "compute_90",
 * PTX, which the driver compiles for what is newer. */
typedef struct ParcImage {
    const char *arch;
    const void *data;
    int64_t size; /* bytes */
} ParcImage;

/* Bytes of the arena, behind arena_bytes and at a multiple of
 * PARC_SHARED_ALIGN, that are one memory for the ranks which differ only in
 * `axes`: what one writes there all have. */
typedef struct ParcShared {
    uint32_t axes;
    int64_t offset, bytes;
} ParcShared;

/* Bytes of the arena that are a collective's own while it is under way. */
typedef struct ParcRoom {
    int64_t offset, bytes;
} ParcRoom;

typedef struct ParcModel {
    int rt_version;         /* PARC_RT_VERSION */
    const char *name, *parc_version, *source; /* source: base name */
    const char *info;       /* the plan as --emit plan prints it */
    uint64_t plan_hash;
    int naxes;
    ParcAxis axis[PARC_MAX_AXES];
    const ParcParam *param;
    int nparams;
    const ParcInput *input;
    int ninputs;
    int64_t arena_bytes;    /* the rank's own */
    int64_t host_bytes;     /* CUDA only: in host memory, for parc_fetch */
    const ParcShared *shared; /* CPU only */
    int nshared;
    int threads;            /* workspace is planned for so many */
    int64_t batch, seq;     /* global */
    double executed_flops;  /* flops, and what is recomputed */
    double flops;           /* of one step, all ranks together; without what
                               is computed again for the backward pass */
    const char *optimizer;  /* "AdamW" … */
    double lr, beta1, beta2;
    ParcSchedule schedule;  /* of lr */
    double loss_scale;      /* to begin with; 0: the loss is not scaled */
    int64_t loss_scale_offset; /* f32[], where it is */
    int64_t loss_offset, grad_norm_offset; /* f32[] in the arena; -1: none */
    int64_t lr_offset, bias1_offset, bias2_offset; /* f32[], -1: unused */
    int64_t random_offset; /* i64[]: the step's key; -1: nothing is drawn */
    const char *const *collective; /* names by id, for messages: "ag3 dp
                                      layers.* (llama.pdl:58)" */
    int ncollectives;
    const ParcWork *work;
    int nwork;
    /* CUDA only; else 0 and NULL. */
    const char *const *kernel; /* symbols by number: parc_launch */
    int nkernels;
    const ParcImage *image;    /* of all kernels, an architecture each */
    int nimages;
    const int8_t *collective_stream; /* by collective: PARC_TENSOR …; NULL: all
                                        on PARC_COMPUTE */
    const uint32_t *collective_axes; /* by collective: mask of axes */
    const ParcRoom *collective_room; /* by collective: for rows that are packed
                                        (rt_staging.h); NULL: none has any */
    int nevents;               /* parc_record, parc_wait */
    void (*init)(ParcRt *rt);  /* makes matmuls, computes constants */
    void (*step)(ParcRt *rt);
} ParcModel;

/* The whole program: options, ranks, weights, data, steps, logs. Returns the
 * exit status. */
int parc_main(int argc, char **argv, const ParcModel *model);

/* ---- what step() calls ---- */

/* The rank's arena; a pointer to `offset` bytes into it. */
char *parc_arena(ParcRt *rt);
int parc_rank(const ParcRt *rt);
int parc_threads(const ParcRt *rt);
/* The rank's coordinate over a set of axes (bit mask), axis 0 major. */
int64_t parc_index(const ParcRt *rt, uint32_t axes);

/* Within the arena. `to` and `from` do not overlap. */
void parc_move(ParcRt *rt, void *to, const void *from, int64_t bytes);
void parc_zero(ParcRt *rt, void *to, int64_t bytes);
/* Where a rank's part of a dim begins, for each turn of a loop over parts of
 * the dim: to[i] = (i * dim + index) * part. */
void parc_set_index(ParcRt *rt, int64_t *to, int64_t turns, int64_t dim,
                    int64_t index, int64_t part);

/* Kernel `kernel` of the model's list: `grid` blocks of `block` threads, with
 * `shared_bytes` of dynamic shared memory; args: the addresses of its
 * arguments, read before the call returns. CUDA only, as are streams: what is
 * called after parc_wait(rt, s, e) on a stream s runs when what was called
 * before the latest parc_record of e, on its stream, has run. An event that has
 * not been recorded in this step is nothing to wait for. */
enum { PARC_COMPUTE, PARC_TENSOR, PARC_DATA, PARC_HOST, PARC_STREAMS };
void parc_launch(ParcRt *rt, int kernel, int64_t grid, int block,
                 int64_t shared_bytes, void **args);
/* Whether a block of the rank's GPU may have so much dynamic shared memory
 * beside the kernel's static. */
bool parc_block_has(const ParcRt *rt, int kernel, int64_t shared_bytes);
void parc_record(ParcRt *rt, int stream, int event);
void parc_wait(ParcRt *rt, int stream, int event);

/* Between the rank's host memory and its arena, on the stream PARC_HOST: `to`
 * and `from` are offsets, those of host memory count on from the arena's end:
 * arena_bytes is its first byte. CUDA only: on the CPU all memory is the
 * host's. */
void parc_fetch(ParcRt *rt, int64_t to, int64_t from, int64_t bytes);
void parc_store(ParcRt *rt, int64_t to, int64_t from, int64_t bytes);

/* What runs from here on is work[i], in the turn of the loops around it
 * (counted through all of them). For --trace; else it costs a comparison. */
void parc_mark(ParcRt *rt, int i, int64_t turn);

/* On the CPU, before the optimizer: false, on all ranks, where the loss is not
 * finite and has no scale. The step ends there, and is gone through again to see
 * why. */
bool parc_goes_on(ParcRt *rt);

/* Collectives over the group of ranks that differ only in `axes`. All ranks
 * run the same collectives in the same order; `id` names the collective in
 * messages and is compared between ranks. Sums run in rank order, in f32; those
 * of bf16 and f16 are rounded once, at the end.
 * Offsets are bytes into every rank's arena, the same on all ranks. A group
 * of `n` parts runs between one pair of barriers.
 *
 * Parts are boxes: `outer` rows of `inner` contiguous elements for each
 * rank, so that dim d of a tensor [a, b, c] split at d = 1 has outer = a and
 * inner = b/k * c on a rank.
 *   all_gather      src: [outer, inner] of each rank
 *                   dst: [outer, k, inner]
 *   reduce_scatter  src: [outer, k, inner] partial on every rank
 *                   dst: [outer, inner]
 *   all_reduce      src, dst: [outer, inner] (dst may be src)
 *   all_to_all      src: [outer, k, middle, inner] -> dst: [outer, middle, k,
 *                   inner]: rank r gets, from peer j, src_j[:, r] as
 *                   dst[:, :, j]; with `minor` the other way round: src:
 *                   [outer, middle, k, inner] -> dst: [outer, k, middle,
 *                   inner], src_j[:, :, r] as dst[:, j]
 * `valid` is how many elements of a row [k, inner] exist where the last runs
 * are padded (flat shards): the gathered tensor is [outer, valid] then. 0
 * means all of them. `inside` (all_gather): src and dst are one, rows of k runs
 * with their padding, and each rank's src is its own run there.
 */
typedef struct ParcPart {
    int64_t src, dst;  /* byte offsets */
    int64_t outer, inner;
    int64_t middle;    /* all_to_all only */
    int64_t valid;
    ParcType type;
    bool inside;
} ParcPart;

/* All ranks of the group come here before any goes on. CPU only. */
void parc_meet(ParcRt *rt, int id, uint32_t axes);

typedef enum ParcReduce { PARC_SUM, PARC_MAX } ParcReduce;

void parc_all_gather(ParcRt *rt, int id, uint32_t axes, int n,
                     const ParcPart *part);
void parc_reduce_scatter(ParcRt *rt, int id, uint32_t axes, int n,
                         const ParcPart *part);
void parc_all_reduce(ParcRt *rt, int id, uint32_t axes, ParcReduce op, int n,
                     const ParcPart *part);
void parc_all_to_all(ParcRt *rt, int id, uint32_t axes, bool minor,
                     const ParcPart *part);

/* Nothing moves between ranks here. take_part: src [outer, k, inner] -> dst
 * [outer, inner], this rank's share (beyond `valid`: zeros). take_share: the
 * group's first rank keeps [outer, inner], the others get zeros. */
void parc_take_part(ParcRt *rt, uint32_t axes, const ParcPart *part);
void parc_take_share(ParcRt *rt, uint32_t axes, const ParcPart *part);

/* Matmul through oneDNN: for each of `batch` pairs c = a b, a [m, k], b
 * [k, n], c [m, n]; strides in elements (a: sa[0] batch, sa[1] row, sa[2]
 * column, …; one of the last two is 1). Made once by init; scratch lies in
 * the arena, `scratch_bytes` as planned: parc_matmul_new ends the run with a
 * message where oneDNN wants more here. Products of bf16 and f16 run on the
 * machine's own instructions where oneDNN knows of any, else in f32, block by
 * block. */
typedef struct ParcMatmul ParcMatmul;
typedef struct ParcTypes {
    ParcType a, b, c;
} ParcTypes;
/* What is done to a product before it is written; programs for CUDA alone have
 * any. `vector` has the type of c, `tensor` its type, sizes and strides; what
 * is added is added in f32, g is GELU's approximation by tanh. */
typedef enum ParcEpilogue {
    PARC_NO_EPILOGUE,
    PARC_BIAS,      /* c = a b + vector [n], for each row */
    PARC_ADD,       /* c = a b + tensor; c may be the tensor */
    PARC_SUM_A,     /* c = a b; vector [m] = sum of a's columns */
    PARC_SUM_B,     /* c = a b; vector [n] = sum of b's rows */
    PARC_BIAS_ADD,  /* c = a b + tensor + vector [n] */
    PARC_SUM_A_ADD, /* c = a b + tensor; vector as of PARC_SUM_A */
    PARC_SUM_B_ADD, /* … of PARC_SUM_B */
    PARC_GELU,      /* tensor = a b; c = g(a b) */
    PARC_GELU_BIAS, /* the same of a b + vector [n] */
    PARC_GELU_GRAD, /* c = a b g'(tensor) */
} ParcEpilogue;
typedef struct ParcMatmulSpec {
    const char *name;
    int64_t batch, m, n, k;
    int64_t sa[3], sb[3], sc[3];
    int64_t scratch, scratch_bytes;
    ParcTypes type;
    ParcEpilogue epilogue;
    /* Of parc_matmul_shard: a rank's shard of the result has m rows, so many
     * elements of a lead from its rows to the next rank's. 0: not cut. */
    int64_t ranks, slice;
} ParcMatmulSpec;
enum { PARC_MOST_SHARDS = 64 }; /* `ranks` at most */
ParcMatmul *parc_matmul_new(ParcRt *rt, const ParcMatmulSpec *spec);
void parc_matmul(ParcRt *rt, ParcMatmul *mm, const void *a, const void *b,
                 void *c);
/* This rank's shard of the sum of all ranks' products over the axes, out of
 * their operands, which lie where this rank's do: what a reduce-scatter of the
 * products would give, in f32. Programs for the CPU alone have it, and meet in
 * front of it and behind it. */
void parc_matmul_shard(ParcRt *rt, ParcMatmul *mm, uint32_t axes,
                       const void *a, const void *b, void *c);
/* With an epilogue; NULL for what it does not have. */
void parc_matmul_with(ParcRt *rt, ParcMatmul *mm, const void *a, const void *b,
                      void *c, void *vector, void *tensor);
/* Instruction sets that a CPU program can be compiled for. */
typedef enum ParcCpuLevel {
    PARC_CPU_NATIVE, /* that of the machine that compiles */
    PARC_CPU_X86_64_V3,
    PARC_CPU_X86_64_V4,
    PARC_CPU_AMX,
    PARC_CPU_AARCH64,
} ParcCpuLevel;
/* The scratch bytes that are planned for a matmul (used by parc). For
 * PARC_CPU_NATIVE: what oneDNN requests on this machine. For any other level: a
 * bound that is a function of the arguments alone, and is large enough for one
 * implementation on every machine. */
int64_t parc_matmul_scratch(const ParcMatmulSpec *spec, int threads,
                            ParcCpuLevel level);

/* The contraction that no matmul fits: for the n letters, result's first, rows
 * of {size, stride in c, in a, in b} (0: not there), c = the sum of a b over
 * the letters that c lacks. Slow and plain. */
void parc_contract(ParcRt *rt, ParcTypes type, void *c, const void *a,
                   const void *b, int n, const int64_t letter[][4]);

/* Attention that never stores the scores. q [b, s, kv*g, d], k [b, t, kv, d],
 * v [b, t, kv, e] -> o [b, s, kv*g, e], lse [b, kv*g, s]; all contiguous, of
 * one type, lse in f32. Scratch: parc_attention_scratch bytes in the arena. */
typedef struct ParcAttention {
    int64_t b, s, t, kv, g, d, e;
    bool causal;
    float scale;
    ParcType type;
    /* Dropout of the weights, with a probability of `drop` (0: none). A weight
     * is drawn by key, site, and its place in the whole tensor: this rank's
     * sequences begin at *first_b there, its heads of queries (of `heads`) at
     * *first_kv * groups + *first_g. All lie in the arena; NULL: 0. */
    float drop;
    uint32_t site;
    const int64_t *key, *first_b, *first_kv, *first_g;
    int64_t groups, heads;
} ParcAttention;
int64_t parc_attention_scratch(const ParcAttention *a, bool backward,
                               int threads);
/* CUDA: init says that such calls will come, before the first, and what scratch
 * they will have: there are several ways, of which one is chosen. */
void parc_attention_ready(ParcRt *rt, const ParcAttention *a, bool backward,
                          int64_t scratch_bytes);
void parc_attention(ParcRt *rt, const ParcAttention *a, void *o, float *lse,
                    const void *q, const void *k, const void *v,
                    float *scratch);
void parc_attention_grad(ParcRt *rt, const ParcAttention *a, void *dq, void *dk,
                         void *dv, const void *d_o, const void *q,
                         const void *k, const void *v, const void *o,
                         const float *lse, float *scratch);

/* Embedding: rows of table [rows, width] for n ids; ids outside *base …
 * *base+rows-1 give zeros (NULL: base is 0). The gradient, in f32, is written
 * whole, each row summed in order of position; or added to what is there (CPU
 * only). */
void parc_embedding(ParcRt *rt, ParcType type, void *out, const void *table,
                    const int32_t *ids, int64_t n, int64_t rows, int64_t width,
                    const int64_t *base);
void parc_embedding_grad(ParcRt *rt, ParcType type, float *grad, const void *dy,
                         const int32_t *ids, int64_t n, int64_t rows,
                         int64_t width, const int64_t *base);
void parc_embedding_add(ParcRt *rt, ParcType type, float *grad, const void *dy,
                        const int32_t *ids, int64_t n, int64_t rows,
                        int64_t width, const int64_t *base);

/* The keys of layers first … first + n - 1, made from one (parc_random.h). */
void parc_split_key(ParcRt *rt, int64_t *to, const int64_t *from, int64_t first,
                    int64_t step, int64_t n);

/* Strided copies: dst is written in row-major order of dim[], reading src
 * with the given element strides (transpose, slice, parts). */
void parc_copy(ParcRt *rt, ParcType type, void *dst, const void *src, int ndim,
               const int64_t *dim, const int64_t *src_stride);

/* `rows` rows of `width` elements, from rows of src_row elements to rows of
 * dst_row elements. */
void parc_copy_rows(ParcRt *rt, ParcType type, void *dst, int64_t dst_row,
                    const void *src, int64_t src_row, int64_t rows,
                    int64_t width);

#endif
