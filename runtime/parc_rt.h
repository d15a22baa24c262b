/* parc_rt.h: what an emitted training program needs at run time.
 *
 * The runtime knows nothing of a particular model; train.c describes itself
 * in one ParcModel and calls parc_main. It stands alone: it includes nothing
 * of the compiler, and -S copies it beside train.c.
 *
 * A rank's memory is one arena in shared memory, laid out by parc; all ranks
 * of a box map all arenas, so that a collective reads its peers' shards where
 * they lie.
 */
#ifndef PARC_RT_H
#define PARC_RT_H

#include <stdbool.h>
#include <stdint.h>

#define PARC_RT_VERSION 1
enum { PARC_MAX_AXES = 4, PARC_MAX_DIMS = 6, PARC_MAX_STACK = 3 };

typedef struct ParcRt ParcRt;

/* ---- what train.c says of itself ---- */

typedef struct ParcAxis {
    const char *name;
    int64_t size;
} ParcAxis;

typedef enum ParcInitKind {
    PARC_ZEROS, PARC_ONES, PARC_NORMAL, PARC_UNIFORM, PARC_ARANGE,
} ParcInitKind;

/* A parameter or optimizer state. `split[d]` lists the axes that split dim d,
 * major first (-1 ends the list); flat_axes (bit mask, majors have lower axis
 * numbers) cut the flattened rest of each layer into equal runs, the last
 * padded. In the arena: layer-major, each layer one run or local tensor. */
typedef struct ParcParam {
    const char *name;    /* '*' stands for the layer's number, one for each
                            stack dim, leftmost first */
    const char *state;   /* NULL: a parameter; else "m", "v", … of `name` */
    int nstack, ndim;
    int64_t stack[PARC_MAX_STACK];
    int64_t dim[PARC_MAX_DIMS]; /* global */
    int8_t split[PARC_MAX_DIMS][PARC_MAX_AXES];
    uint32_t flat_axes;
    int64_t offset;      /* bytes into the arena; f32. -1: the step does not
                            use it, and nobody stores it */
    int64_t local_elements;
    ParcInitKind init;
    double a, b;         /* normal: a = std; uniform: from a to b; arange: a,
                            a+1, … */
    const char *placement; /* for --print-shards: "dp=S(0) tp=S(0)" */
    const char *const *alias;
    int nalias;
} ParcParam;

/* A batch input: [batch, seq, …]; dim 0 is split over `batch_axes`. */
typedef struct ParcInput {
    const char *name;
    bool is_int, is_labels; /* labels: the sequence shifted by one */
    int64_t below;          /* ints are less; 0: any */
    int ndim;
    int64_t dim[PARC_MAX_DIMS];
    uint32_t batch_axes;
    int64_t offset;         /* of the rank's part: i32 or f32; -1: unused */
} ParcInput;

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
    int64_t arena_bytes;
    int threads;            /* workspace is planned for so many */
    int64_t batch, seq;     /* global */
    double flops;           /* of one step, all ranks together */
    const char *optimizer;  /* "AdamW" … */
    double lr, beta1, beta2;
    int64_t loss_offset, grad_norm_offset; /* f32[] in the arena; -1: none */
    int64_t lr_offset, bias1_offset, bias2_offset; /* f32[], -1: unused */
    const char *const *collective; /* names by id, for messages: "ag3 dp
                                      layers.* (llama.pdl:58)" */
    int ncollectives;
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

/* Collectives over the group of ranks that differ only in `axes`. All ranks
 * run the same collectives in the same order; `id` names the collective in
 * messages and is compared between ranks. Sums run in rank order, in f32.
 * Offsets are bytes into every rank's arena, the same on all ranks. A group
 * of `n` parts runs between one pair of barriers.
 *
 * Parts are boxes: `outer` rows of `inner` contiguous f32 elements for each
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
 * means all of them.
 */
typedef struct ParcPart {
    int64_t src, dst;  /* byte offsets */
    int64_t outer, inner;
    int64_t middle;    /* all_to_all only */
    int64_t valid;
} ParcPart;

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
 * message where oneDNN wants more here. All f32. */
typedef struct ParcMatmul ParcMatmul;
typedef struct ParcMatmulSpec {
    const char *name;
    int64_t batch, m, n, k;
    int64_t sa[3], sb[3], sc[3];
    int64_t scratch, scratch_bytes;
} ParcMatmulSpec;
ParcMatmul *parc_matmul_new(ParcRt *rt, const ParcMatmulSpec *spec);
void parc_matmul(ParcRt *rt, ParcMatmul *mm, const float *a, const float *b,
                 float *c);
/* The scratch bytes that oneDNN wants for it here (used by parc to plan). */
int64_t parc_matmul_scratch(const ParcMatmulSpec *spec, int threads);

/* The contraction that no matmul fits: for the n letters, result's first, rows
 * of {size, stride in c, in a, in b} (0: not there), c = the sum of a b over
 * the letters that c lacks. Slow and plain. */
void parc_contract(ParcRt *rt, float *c, const float *a, const float *b,
                   int n, const int64_t letter[][4]);

/* Attention that never stores the scores. q [b, s, kv*g, d], k [b, t, kv, d],
 * v [b, t, kv, e] -> o [b, s, kv*g, e], lse [b, kv*g, s]; all contiguous.
 * Scratch: parc_attention_scratch bytes in the arena. */
typedef struct ParcAttention {
    int64_t b, s, t, kv, g, d, e;
    bool causal;
    float scale;
} ParcAttention;
int64_t parc_attention_scratch(const ParcAttention *a, bool backward,
                               int threads);
void parc_attention(ParcRt *rt, const ParcAttention *a, float *o, float *lse,
                    const float *q, const float *k, const float *v,
                    float *scratch);
void parc_attention_grad(ParcRt *rt, const ParcAttention *a, float *dq,
                         float *dk, float *dv, const float *d_o,
                         const float *q, const float *k, const float *v,
                         const float *o, const float *lse, float *scratch);

/* Embedding: rows of table [rows, width] for n ids; ids outside base …
 * base+rows-1 give zeros. The gradient is written whole, each row summed in
 * order of position. */
void parc_embedding(ParcRt *rt, float *out, const float *table,
                    const int32_t *ids, int64_t n, int64_t rows, int64_t width,
                    int64_t base);
void parc_embedding_grad(ParcRt *rt, float *grad, const float *dy,
                         const int32_t *ids, int64_t n, int64_t rows,
                         int64_t width, int64_t base);

/* Strided copies: dst is written in row-major order of dim[], reading src
 * with the given element strides (transpose, slice, parts). */
void parc_copy(ParcRt *rt, float *dst, const float *src, int ndim,
               const int64_t *dim, const int64_t *src_stride);

/* `rows` rows of `width` elements, from rows of src_row elements to rows of
 * dst_row elements. */
void parc_copy_rows(ParcRt *rt, float *dst, int64_t dst_row, const float *src,
                    int64_t src_row, int64_t rows, int64_t width);

#endif
