/* interp_impl.h: declares the interpreter's state, and the functions that its
 * files share. */
#ifndef PARC_IR_INTERP_INTERP_IMPL_H
#define PARC_IR_INTERP_INTERP_IMPL_H

#include "tests/interp/interp.h"

/* The index without padding of element i of the padded tensor (stack included);
 * -1 for padding. */
int64_t param_true_index(const Param *p, int64_t i);

enum { MAX_SHAPE = MAX_STACK + MAX_DIMS };

/* The shape of one rank's part: stack dims first. A flat run is one dim after
 * them. */
typedef struct Shape {
    int nstack, ndim; /* ndim without stack dims */
    bool flat;
    int64_t dim[MAX_SHAPE];
    int64_t n; /* elements */
} Shape;

/* A value of the program on all ranks: rank r's part is at + r * shape.n. */
typedef struct Slot {
    Shape shape;
    double *at; /* NULL: not computed yet */
} Slot;

/* One rank's part of a value. */
typedef struct Local {
    const Shape *shape;
    double *at;
} Local;

typedef struct NamedScalar {
    const char *name;
    double value;
} NamedScalar;

struct Interp {
    const Program *p;
    Mesh mesh; /* without axes as long as the program is global */
    int64_t ranks;
    Arena *arena;
    Slot *slot;        /* by value id */
    double **param;    /* by parameter: global values as set */
    double **assigned; /* by parameter: all ranks' parts as assigned, or NULL */
    double **after;    /* by parameter: global values after the step, or NULL */
    double **input;    /* by input: global values */
    VEC(NamedScalar) scalar;
    VEC(NamedScalar) output;
    const char *error;  /* the first one */
    int64_t *layer;     /* by op id of a loop */
    int here;           /* in a loop with a cut: the coordinate at work */
    InterpWatch *watch; /* NULL: none */
    void *watcher;
};

/* ---- interp_slot.c ---- */

/* Records the first error; `op` may be NULL. */
void interp_fail(Interp *in, const Op *op, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void interp_shape(const Interp *in, const Type *t, Shape *s);
/* Allocates a value on all ranks, zeroed. */
Slot *interp_make(Interp *in, const Value *v);
Local interp_local(const Interp *in, const Value *v, int64_t rank);

/* Row-major strides. */
void interp_strides(const Shape *s, int64_t stride[MAX_SHAPE]);
/* Iterates over all indices of a shape, with offsets into n tensors that
 * advance by stride[i][dim]. The letters of an einsum are more dims than one
 * tensor has. */
enum { MAX_WALK = 3, MAX_WALK_DIMS = 2 * MAX_DIMS };
_Static_assert((int)MAX_WALK_DIMS >= (int)MAX_SHAPE, "a walk over a stack");
typedef struct Walk {
    int ndim, n;
    int64_t dim[MAX_WALK_DIMS];
    int64_t stride[MAX_WALK][MAX_WALK_DIMS];
    int64_t index[MAX_WALK_DIMS];
    int64_t at[MAX_WALK];
    int64_t left; /* elements not visited yet */
} Walk;
/* Starts at the first index; the caller sets the strides. */
void interp_walk_start(Walk *w, int ndim, const int64_t *dim, int n);
/* Advances to the next index. */
void interp_walk_next(Walk *w);

/* ---- interp.c ---- */
void interp_region(Interp *in, const Region *r);

/* ---- interp_elementwise.c: ops without communication ---- */
typedef void LocalEval(Interp *in, const Op *op, int64_t rank);
typedef void WholeEval(Interp *in, const Op *op);
LocalEval interp_elementwise, interp_reduce;
WholeEval interp_sumsq;
/* Whether the table of elementwise functions has the op. */
bool interp_has_function(OpKind kind);
/* GELU as approximated by tanh, and its derivative. */
double interp_gelu(double x);
double interp_gelu_slope(double x);

/* ---- interp_update.c ---- */
WholeEval interp_update;

/* ---- interp_index.c, interp_contract.c, interp_attention.c ---- */
LocalEval interp_full, interp_zeros, interp_iota, interp_reshape, interp_transpose,
    interp_slice, interp_pad, interp_concat, interp_embedding,
    interp_embedding_grad, interp_embedding_add, interp_onehot, interp_base, interp_topk,
    interp_topk_grad, interp_rotary,
    interp_limit_choices, interp_group_rows, interp_gather_rows, interp_combine_rows,
    interp_grouped_matmul,
    interp_einsum, interp_conv, interp_attention, interp_attention_grad,
    interp_attention_bias_grad, interp_attention_sinks;

/* Adds the einsum of operands 0 and 1, by the op's spec, to that result. */
void interp_product(Interp *in, const Op *op, int64_t rank, int result);

/* ---- interp_epilogue.c: einsums with an epilogue ---- */
LocalEval interp_einsum_bias, interp_einsum_add, interp_einsum_bias_grad,
    interp_einsum_gelu, interp_einsum_gelu_grad;

/* ---- interp_random.c ---- */
LocalEval interp_random, interp_split_key;
/* Random number `index` of a site under a key, in [0, 1). */
double interp_uniform(double key, int64_t site, int64_t index);

/* ---- interp_place.c: global tensors, parts and collectives ---- */
/* Assembles the global tensor from all ranks' parts; splits it into parts (of a
 * type without Partial axes). */
void interp_assemble(Interp *in, const Type *t, const double *parts,
                     double *global);
void interp_split(Interp *in, const Type *t, const double *global,
                  double *parts);
/* Report Replicate parts that differ between ranks; padding that is not
 * zero. */
void interp_check_equal(Interp *in, const Op *op, const Value *v);
void interp_check_padding(Interp *in, const Op *op, const Type *t,
                          const double *parts);
/* Whether the rank has layer `layer` (of all stack dims) of a value. */
bool interp_has(const Interp *in, const Type *t, int64_t rank, int64_t layer);
/* Makes NaN of what ranks do not have. */
void interp_forget(Interp *in, const Value *v);
/* Passes what one coordinate of a pipeline has on to another one. */
void interp_pass(Interp *in, const Value *v, int from, int to);
/* All ranks' parts of v, summed over Partial(sum) axes. */
const double *interp_summed(Interp *in, const Value *v);
/* Whether the rank is the first on every axis where t has that kind and, if
 * `other` is given, other has other_kind. */
bool interp_is_first(const Interp *in, int64_t rank, const Type *t,
                     AxisKind kind, const Type *other, AxisKind other_kind);
WholeEval interp_collective, interp_shift;

/* ---- interp_control.c ---- */
WholeEval interp_param_op, interp_input_op, interp_scalar_op, interp_assign,
    interp_output_op, interp_loop, interp_fused, interp_nothing;

#endif
