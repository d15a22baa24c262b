/* type.h: types of values: element type, global shape, placement on the mesh.
 *
 * A type has the global shape. The placement says, for every mesh axis, which
 * part of it a rank holds; the local shape follows from both.
 *
 *   f32[64, 2048, 4096/tp]       dim 2 split over tp
 *   f32[64, 4096/(tp·dp)]        dp splits each part of tp: tp is major
 *   f32[8, 16]+tp                a partial sum: the sum over the ranks of tp
 *                                is the value
 *   f32[8, 16]^tp                a partial maximum
 *   f32[32 x 4096/tp, 64]~dp     a stack of 32 (one for each iteration of a
 *                                loop); a rank's part of each is flattened and
 *                                cut into |dp| equal runs, the last padded
 *   f32[8, 2048/cp:zz]           zigzag: of 2|cp| equal pieces of the dim rank r
 *                                has pieces r and 2|cp| - 1 - r, in this order,
 *                                so that a causal mask leaves each rank as much
 *
 * On the axis of a pipeline (passes/pipeline/stages.c) a tensor is:
 *
 *   f32[8, 64]@pp=3              on coordinate 3 only
 *   f32[32/pp x 64, 64]          a stack: coordinate k has the elements of the
 *                                iterations that its stages run (StageCut)
 *   f32[64, 64]@pp               in a loop that is cut into stages: on the
 *                                coordinate that runs the iteration
 *
 * Before the pass `propagate` every axis is Replicate.
 */
#ifndef PARC_IR_TYPE_H
#define PARC_IR_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/out.h"

/* The user's mesh has at most MAX_MESH_AXES axes. Passes split some of them,
 * and add at most MAX_LOOP_AXES: microbatches, and chunks of the head. */
enum {
    MAX_AXES = 12,
    MAX_MESH_AXES = 6,
    MAX_LOOP_AXES = 2,
    MAX_DIMS = 6,
    MAX_STACK = 4,
    MAX_CUTS = 200, /* loops that are cut into stages */
    MAX_STAGES = 200, /* of a pipeline, and coordinates of its axis */
};
/* Logarithms to base 2 of the largest size of a dim, and of the most elements
 * of a tensor. */
enum { MAX_DIM_LOG2 = 40, MAX_ELEMENTS_LOG2 = 53 };
/* The ranks of a node, where only costs and the choice of sizes depend on them:
 * without --node-size. */
enum { DEFAULT_NODE_SIZE = 8 };
/* The most ranks of a mesh, as in the runtime (RT_MOST_RANKS). */
enum { MAX_RANKS = 1 << 20 };

typedef enum DType {
    DT_F32,
    DT_BF16,
    DT_F16,
    DT_I32,
    DT_I64,
} DType;
const char *dtype_name(DType t); /* "f32", "bf16", "f16", "i32", "i64" */
int dtype_size(DType t);         /* in bytes */
bool dtype_is_float(DType t);
/* How x rounds to a float type: 0 to a finite number, 1 to infinity or NaN, -1
 * to zero although it is not zero. */
int dtype_range(DType t, double x);
double dtype_largest(DType t); /* the largest finite number of a float type */

/* How the iterations of a loop are divided among the stages of a pipeline: stage
 * s runs the iterations begin[s] … begin[s + 1] - 1, which may be none. It runs
 * on coordinate s mod n of an axis of n ranks. */
typedef struct StageCut {
    int nstages;
    const int64_t *begin; /* nstages + 1; begin[nstages]: the iterations */
} StageCut;

typedef struct Link {
    double latency, bandwidth; /* seconds of a round, bytes per second */
} Link;
/* Axes are in the order of significance: of several that cut a tensor in runs
 * (AX_FLAT) the first is the major one, and a group's ranks are ordered by their
 * coordinates, the first axis major. */
typedef struct Mesh {
    int n;
    const char *name[MAX_AXES];
    int64_t size[MAX_AXES];
    int64_t stride[MAX_AXES]; /* ranks between two neighbors on the axis; 0: the
                               * product of the sizes of the axes that follow */
    int nloop; /* the last `nloop` axes are loop axes: one rank processes their
                * parts in iterations (passes/microbatch/loop_axis.h) */
    uint32_t zigzag; /* axes that split dims in zigzag order */
    int64_t node; /* consecutive ranks that share a machine (--node-size); 0: not
                   * given */
    const Link *link;    /* of collectives inside a node, and between nodes, by which
                          * conversions are chosen; NULL: those of reshard.c */
    const StageCut *cut; /* numbered from 1: cut[number - 1] */
    int ncuts;
} Mesh;
/* The number of ranks; loop axes do not count. */
int64_t mesh_ranks(const Mesh *m);
/* The number of ranks and iterations: the product of all axes. */
int64_t mesh_parts(const Mesh *m);
/* The number of ranks that differ only in these axes. */
int64_t mesh_group(const Mesh *m, uint32_t axes);
static inline bool mesh_is_loop_axis(const Mesh *m, int axis)
{
    return axis >= m->n - m->nloop;
}
/* The contiguous pieces of a dim that a rank has, if the axis alone splits it: 2 in
 * zigzag order. */
static inline int64_t mesh_pieces(const Mesh *m, int axis)
{
    return m->zigzag >> axis & 1 ? 2 : 1;
}
/* Ranks between two neighbors on an axis, which is not a loop axis. */
int64_t mesh_stride(const Mesh *m, int axis);
/* The axis with this stride and more than one rank; -1: none. */
int mesh_axis_of_stride(const Mesh *m, int64_t stride);
/* Whether the strides give each rank coordinates of its own. */
bool mesh_numbers_ranks(const Mesh *m);
/* The first axis that has a group with unequal numbers of ranks on its nodes, if
 * a node has `node` ranks; -1: none. */
int mesh_uneven_axis(const Mesh *m, int64_t node);
/* The axes whose groups have ranks on several nodes; 0 without --node-size.
 * After the pass split_node_axis, no node has two ranks of such a group. */
uint32_t mesh_between_nodes(const Mesh *m);
/* Whether both axes are parts of one axis that the user named (passes
 * split_kv_axis and split_node_axis): "tp.kv" and "tp.rep" are parts of "tp". */
bool mesh_same_axis(const Mesh *m, int a, int b);
/* The axis and all other parts of the one that the user named. */
uint32_t mesh_user_axis(const Mesh *m, int axis);
const char *mesh_user_name(Arena *a, const Mesh *m, int axis);
/* The distance of two neighbors on any axis, loop axes included, in the numbering
 * of mesh_parts. */
int64_t mesh_step(const Mesh *m, int axis);
/* The coordinate of `rank` (of mesh_parts) on `axis`. */
int64_t mesh_coord(const Mesh *m, int64_t rank, int axis);
/* The stage that runs an iteration of a loop with that cut; the most iterations
 * that one coordinate of the pipeline's axis runs. */
int cut_stage(const Mesh *m, int cut, int64_t iteration);
int64_t cut_most(const Mesh *m, int cut, int axis);
/* The coordinate that runs a stage of a pipeline over the axis. */
static inline int stage_coordinate(const Mesh *m, int axis, int stage)
{
    return stage % (int)m->size[axis];
}

typedef enum AxisKind {
    AX_R,    /* Replicate: equal on all ranks of the axis */
    AX_S,    /* Shard(dim) */
    AX_P,    /* Partial(sum) */
    AX_PMAX, /* Partial(max) */
    AX_FLAT, /* storage only: the rest of the tensor is flattened and cut into
              * runs */
    AX_AT,   /* only one stage of a pipeline has it */
    AX_HERE, /* in a loop with a cut: the coordinate that runs the iteration has
              * it */
    AX_CUT,  /* a coordinate has the layers of a stack that its stages run */
} AxisKind;

/* Of AX_S: `dim`, not counting stack dims, and `order`, the position among the
 * axes that split the same dim, 0 the major. Of AX_AT: `dim` is the stage.
 * Of AX_CUT: `dim` is the stack dim, `order` the number of the cut. Else 0. */
typedef struct AxisPlace {
    uint8_t kind, dim, order;
} AxisPlace;

static inline bool axis_place_equal(AxisPlace a, AxisPlace b)
{
    return a.kind == b.kind && a.dim == b.dim && a.order == b.order;
}

/* Whether the axis has coordinates that lack the tensor, or layers of it. */
static inline bool axis_place_is_held(AxisPlace p)
{
    return p.kind == AX_AT || p.kind == AX_HERE || p.kind == AX_CUT;
}

typedef struct Placement {
    AxisPlace ax[MAX_AXES];
} Placement;

typedef struct Type {
    DType dtype;
    int nstack, ndim;
    int64_t stack[MAX_STACK]; /* leading loop dims, split by AX_CUT only */
    int64_t dim[MAX_DIMS];    /* global sizes */
    Placement place;
} Type;

bool place_equal(const Placement *a, const Placement *b);
uint32_t place_hash(const Placement *p); /* hash for tables of placements */
bool type_equal(const Type *a, const Type *b); /* including placement */
bool type_same_shape(const Type *a, const Type *b); /* dims and stack */

/* Whether the same coordinates of a pipeline have the tensors. */
bool type_same_holder(const Type *a, const Type *b);

/* The number of layers in a stack; 1: not a stack. On a rank, and a stack dim
 * there: of several that have unequal numbers, the largest. */
int64_t type_layers(const Type *t);
int64_t type_local_layers(const Type *t, const Mesh *m);
int64_t type_local_stack(const Type *t, const Mesh *m, int i);
/* Global elements of the whole stack; of one layer. */
int64_t type_elements(const Type *t);
int64_t type_layer_elements(const Type *t);

/* The number of parts that the axes split dim d into; 1: not split. */
int64_t type_parts(const Type *t, const Mesh *m, int d);
/* The axes that split dim d, major first; returns their number. */
int type_dim_axes(const Type *t, const Mesh *m, int d, int axes[MAX_AXES]);
/* The size of dim d on a rank. */
int64_t type_local_dim(const Type *t, const Mesh *m, int d);
/* The index in dim d of element i of the part that `rank` holds. */
int64_t type_local_index(const Type *t, const Mesh *m, int d, int64_t rank, int64_t i);
/* The number of equal parts of dim d that are contiguous on every rank. */
int64_t type_pieces(const Type *t, const Mesh *m, int d);
/* Elements that a rank stores, stack included; with AX_FLAT the run of each
 * layer, padding included; with AX_CUT the most that any rank stores. */
int64_t type_local_elements(const Type *t, const Mesh *m);
int64_t type_local_bytes(const Type *t, const Mesh *m);
/* With AX_FLAT: the length of a rank's run of one layer, padding included. */
int64_t type_flat_run(const Type *t, const Mesh *m);
/* The length of all ranks' runs of one layer. */
int64_t type_flat_row(const Type *t, const Mesh *m);
bool type_is_flat(const Type *t, const Mesh *m);
uint32_t type_flat_axes(const Type *t); /* those of AX_FLAT */

/* Makes the type that of a stack of n, false: it has too many stack dims; of
 * one layer of the stack. `cut`: of the loop that makes or slices the stack; 0:
 * none. */
bool type_push_stack(Type *t, int64_t n, int cut);
void type_pop_stack(Type *t);
/* The cut of stack dim 0; 0: none. */
static inline int type_cut(const Type *t)
{
    for (int a = 0; a < MAX_AXES; a++)
        if (t->place.ax[a].kind == AX_CUT && t->place.ax[a].dim == 0)
            return t->place.ax[a].order;
    return 0;
}

/* Whether a tensor has more than 2^53 elements, the most that parc supports. */
bool type_too_large(const Type *t);
/* NULL, or why the type is invalid on this mesh: a size that its axes do not
 * divide, orders that are not a permutation, a dim out of range. Axes of size 1
 * must be Replicate (type_normalize sets them). */
const char *type_check(Arena *a, const Type *t, const Mesh *m);
void type_normalize(Type *t, const Mesh *m);

void type_print(Out *o, const Type *t, const Mesh *m);
/* The text that type_print prints, in the arena, for messages. */
const char *type_text(Arena *a, const Type *t, const Mesh *m);
/* One axis as users write it: "R", "S(0)", "P", "Pmax", "flat", "@3". */
const char *axis_place_text(Arena *a, AxisPlace p);
/* In words, for messages: "Shard(0)". */
const char *axis_place_words(Arena *a, AxisPlace p);

/* The greatest common divisor of two positive numbers. */
int64_t common_divisor(int64_t a, int64_t b);

#endif
