/* rules.h: sharding rules.
 *
 * A rule maps every dim of every operand and result to factors. `matmul` has
 * "bsk, fk -> bsf": splitting factor b over a mesh axis splits dim 0 of
 * operand 0 and of the result; splitting k makes the result Partial(sum),
 * because k is not among the result's factors. Everything about where data
 * may live is derived from this: propagation chooses, for each op and axis,
 * the factor to split (or none); partitioning converts operands to what that
 * choice wants; the verifier derives result placements from operand
 * placements and compares.
 */
#ifndef PARC_IR_RULES_H
#define PARC_IR_RULES_H

#include "ir/ir.h"

enum { MAX_FACTORS = 24, MAX_RULE_TENSORS = 32 };

typedef struct Factor {
    int64_t size;
    bool whole;   /* cannot be split */
    bool by_max;  /* reduces by maximum instead of sum */
    bool apart;   /* a second result that lacks it does not depend on it */
    int base;     /* -1, or which base operand it needs when split */
} Factor;

/* A dim as a product of factors, major first; n = 0: a dim of size 1. */
typedef struct DimFactors {
    int n;
    uint8_t f[4];
} DimFactors;

typedef struct Rule {
    int nfactors, nargs, nouts, nbases;
    int added; /* the operand that is added to result 0, and placed as that is;
                  -1: none */
    Factor factor[MAX_FACTORS];
    DimFactors dim[MAX_RULE_TENSORS][MAX_DIMS]; /* operands, then results */
} Rule;

/* The rule of an op that has one (op_info(kind)->rule is not NULL), sizes
 * filled from its global types. Base operands are not among nargs. */
void rule_of(const Program *p, const Op *op, Rule *r);

/* The factor that S(dim) on an axis splits where axes that are major to it cut
 * the dim into `parts` already: the dim's first factor of size > 1, or the one
 * behind those that are wholly split; -1 where there is none. */
int rule_split_factor(const Rule *r, int tensor, int dim, int64_t parts);
/* The dim of a tensor that factor f is in; -1: the tensor lacks f. */
int rule_factor_dim(const Rule *r, int tensor, int f);
/* Whether factors may be split into taken[f] parts each: in every dim a factor
 * is only split where those in front of it are wholly split. */
bool rule_fits(const Rule *r, const int64_t *taken);

/* What one op does on one axis. */
typedef enum SplitKind {
    SPLIT_NONE,    /* all operands Replicate, results Replicate */
    SPLIT_FACTOR,  /* operands with the factor S, others Replicate */
    SPLIT_PARTIAL, /* a Partial(sum) passes through: all operands, or the one
                      named by `operand`, the rest Replicate */
    SPLIT_PMAX,    /* a Partial(max) passes through a shape op or maximum */
} SplitKind;
typedef struct Split {
    SplitKind kind;
    int factor;  /* SPLIT_FACTOR */
    int operand; /* SPLIT_PARTIAL: -1 for all */
} Split;

/* Whether the op allows the split on an axis of that size at all: divisible,
 * not `whole`, linear where Partial. `taken[f]` is the product of the sizes of
 * axes that split factor f already. What all axes do together must fit. */
bool rule_allows(const Program *p, const Op *op, const Rule *r, Split s,
                 int64_t axis_size, const int64_t *taken);

/* The kind and dim that operand / result `tensor` has on the axis under a
 * split (order is left 0). */
AxisPlace rule_place(const Rule *r, int tensor, Split s);

/* The split of every axis that the operands' placements imply, and the
 * placements of the results. NULL, or what is inconsistent, as a phrase.
 * `splits` has mesh.n entries and may be NULL. Ops that make a factor from
 * nothing (full, iota, onehot, broadcast, embedding_grad's rows) may have it
 * split as their result's own annotation or base operand says: pass the
 * annotated placements in `result` and they are checked, not trusted. */
const char *rule_derive(const Program *p, const Op *op, const Rule *r,
                        Placement *result, Split *splits);

#endif
