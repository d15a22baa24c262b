/* interp_impl.h: what the files of the interpreter share. */
#ifndef PARC_IR_INTERP_IMPL_H
#define PARC_IR_INTERP_IMPL_H

#include "ir/interp.h"

enum { MAX_SHAPE = MAX_STACK + MAX_DIMS };

/* The shape of what one rank holds: the stack's dims first. A flat run is one
 * dim behind them. */
typedef struct Shape {
    int nstack, ndim; /* ndim counts without the stack */
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
    Mesh mesh; /* without axes while the program is global */
    int64_t ranks;
    Arena *arena;
    Slot *slot;        /* by value id */
    double **param;    /* global values as set, by parameter */
    double **assigned; /* all ranks' parts as assigned, or NULL */
    double **after;    /* global values after the step, or NULL */
    double **input;    /* global values, by input */
    VEC(NamedScalar) scalar;
    VEC(NamedScalar) output;
    const char *error;  /* the first one */
    int64_t *layer;     /* by op id, of loops */
    InterpWatch *watch; /* NULL: nobody */
    void *watcher;
};

/* Notes the first error; `op` may be NULL. */
void interp_fail(Interp *in, const Op *op, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- interp.c ---- */
void interp_shape(const Interp *in, const Type *t, Shape *s);
/* Gives a value room on all ranks, zeroed. */
Slot *interp_make(Interp *in, const Value *v);
Local interp_local(const Interp *in, const Value *v, int64_t rank);
void interp_region(Interp *in, const Region *r);

/* ---- interp_elementwise.c: ops without a neighbour ---- */
typedef void LocalEval(Interp *in, const Op *op, int64_t rank);
typedef void WholeEval(Interp *in, const Op *op);
LocalEval interp_elementwise, interp_reduce;
WholeEval interp_sumsq, interp_update;
/* Whether the table of elementwise functions has the op. */
bool interp_has_function(OpKind kind);

/* Row-major strides. */
void interp_strides(const Shape *s, int64_t stride[MAX_SHAPE]);
/* Calls visit for every index of `shape` with offsets into n tensors that
 * advance by stride[i][dim]. */
enum { MAX_WALK = 3 };
typedef struct Walk {
    int ndim, n;
    int64_t dim[MAX_SHAPE];
    int64_t stride[MAX_WALK][MAX_SHAPE];
    int64_t index[MAX_SHAPE];
    int64_t at[MAX_WALK];
    int64_t left; /* elements still to come */
} Walk;
/* Starts at the first index; strides are set by the caller. */
void interp_walk_start(Walk *w, int ndim, const int64_t *dim, int n);
/* To the next index. */
void interp_walk_next(Walk *w);

/* ---- interp_index.c, interp_contract.c ---- */
LocalEval interp_full, interp_zeros, interp_iota, interp_reshape, interp_transpose,
    interp_slice, interp_pad, interp_concat, interp_embedding,
    interp_embedding_grad, interp_embedding_add, interp_onehot, interp_base, interp_rotary,
    interp_einsum, interp_attention, interp_attention_grad;

/* What an op's spec says is summed of operands 0 and 1 into that result. */
void interp_product(Interp *in, const Op *op, int64_t rank, int result);

/* ---- interp_epilogue.c: einsums with something done to the product ---- */
LocalEval interp_einsum_bias, interp_einsum_add, interp_einsum_bias_grad,
    interp_einsum_gelu, interp_einsum_gelu_grad;

/* ---- interp_random.c ---- */
LocalEval interp_random, interp_split_key;
/* Number `index` of a site under a key, in [0, 1). */
double interp_uniform(double key, int64_t site, int64_t index);

/* ---- interp_place.c: from and to global tensors, and between ranks ---- */
/* For each element that the rank holds of a value of that type, its position
 * in the global tensor, or -1 for padding. */
int64_t *interp_positions(Interp *in, const Type *t, int64_t rank);
/* The global tensor from all ranks' parts, and the parts from it (of a type
 * without Partial axes). */
void interp_assemble(Interp *in, const Type *t, const double *parts,
                     double *global);
void interp_split(Interp *in, const Type *t, const double *global,
                  double *parts);
/* Errors where Replicate ranks differ / padding is not zero. */
void interp_check_equal(Interp *in, const Op *op, const Value *v);
void interp_check_padding(Interp *in, const Op *op, const Type *t,
                          const double *parts);
/* All ranks' parts of v with Partial(sum) axes added up. */
const double *interp_summed(Interp *in, const Value *v);
/* Whether the rank is the first of every axis on which t has that kind and,
 * if `other` is given, other has other_kind. */
bool interp_is_first(const Interp *in, int64_t rank, const Type *t,
                     AxisKind kind, const Type *other, AxisKind other_kind);
WholeEval interp_collective;

/* ---- interp_control.c ---- */
WholeEval interp_param_op, interp_input_op, interp_scalar_op, interp_assign,
    interp_output_op, interp_loop, interp_fused;

#endif
