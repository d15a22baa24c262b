/* rules.h: makes the sharding rule of an op, and derives placements from it.
 *
 * A rule maps every dim of every operand and result to factors. `matmul` has
 * "bsk, fk -> bsf": splitting factor b over a mesh axis splits dim 0 of operand
 * 0 and of the result; splitting k makes the result Partial(sum), because the
 * result lacks k. All placements are derived from rules: propagation chooses,
 * for each op and axis, the factor to split (or none); partitioning converts
 * operands to the placements that the choice requires; the verifier derives
 * result placements from operand placements and compares.
 */
#ifndef PARC_IR_RULES_RULES_H
#define PARC_IR_RULES_RULES_H

#include "ir/ir.h"

enum { MAX_FACTORS = 24, MAX_RULE_TENSORS = 32 };

typedef struct Factor {
    int64_t size;
    bool whole;   /* cannot be split */
    bool by_max;  /* reduces by maximum instead of sum */
    bool separate; /* results other than the first do not depend on it */
    int base;     /* -1, or the base operand that it needs when split */
    bool contiguous; /* a rank's part must be one piece: the base says where it begins */
} Factor;

enum { MAX_DIM_FACTORS = 4 };

/* A dim as a product of factors, major first; n = 0: a dim of size 1. */
typedef struct DimFactors {
    int n;
    uint8_t f[MAX_DIM_FACTORS];
} DimFactors;

typedef struct Rule {
    int nfactors, nargs, nouts, nbases;
    int added; /* the operand that is added to result 0, and has its placement;
                * -1: none */
    Factor factor[MAX_FACTORS];
    DimFactors dim[MAX_RULE_TENSORS][MAX_DIMS]; /* operands, then results */
} Rule;

/* The rule of an op whose op_info(kind)->rule is not NULL, with sizes from its
 * global types. nargs does not count base operands. */
void rule_of(const Program *p, const Op *op, Rule *r);

/* The factor that an axis splits in a dim that axes major to it already split
 * into `parts`: the first factor of size > 1 that is not completely split; -1:
 * none. */
int rule_split_factor(const Rule *r, int tensor, int dim, int64_t parts);
/* The dim of a tensor that factor f is in; -1: the tensor lacks f. */
int rule_factor_dim(const Rule *r, int tensor, int f);
/* Whether factors may be split into taken[f] parts each: in every dim a factor
 * is only split if all factors major to it are completely split. */
bool rule_fits(const Rule *r, const int64_t *taken);

/* How one op is split over one axis. */
typedef enum SplitKind {
    SPLIT_NONE,    /* all operands Replicate, results Replicate */
    SPLIT_FACTOR,  /* operands with the factor S, others Replicate */
    SPLIT_PARTIAL, /* a Partial(sum) passes through: all operands, or the one
                    * that `operand` names and the others Replicate */
    SPLIT_PMAX,    /* a Partial(max) passes through a shape op or maximum */
} SplitKind;
typedef struct Split {
    SplitKind kind;
    int factor;  /* SPLIT_FACTOR */
    int operand; /* SPLIT_PARTIAL: -1 for all */
} Split;

/* Whether the op allows the split on an axis of that size, with that number of
 * pieces on a rank (mesh_pieces): divisible, not `whole`, linear for Partial. `taken[f]` is
 * the number of pieces of factor f by the axes that already split it; NULL: 1.
 * rule_fits checks all axes together. */
bool rule_allows(const Op *op, const Rule *r, Split s, int64_t axis_size, int64_t pieces,
                 const int64_t *taken);

/* The kind and dim of operand / result `tensor` on the axis under a split
 * (order is 0). */
AxisPlace rule_place(const Rule *r, int tensor, Split s);

/* Derives the split of every axis from the operands' placements, and the
 * placements of the results. NULL, or the inconsistency, as a phrase. `splits`
 * has mesh.n entries and may be NULL. Ops that create a factor (full, iota,
 * onehot, broadcast, embedding_grad's rows) may have it split as in their
 * result's annotation or base operand: pass the annotated placements in
 * `result`; they are checked. */
const char *rule_derive(const Program *p, const Op *op, const Rule *r,
                        Placement *result, Split *splits);

/* As rule_derive, with the operands placed as op->needs says. Base operands,
 * which partition adds, are not expected. */
const char *rule_derive_needs(const Program *p, const Op *op, const Rule *r,
                              Placement *result, Split *splits);

#endif
