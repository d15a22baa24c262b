/* recompute.h: declarations that the files of the pass recompute share. */
#ifndef PARC_PASSES_RECOMPUTE_RECOMPUTE_H
#define PARC_PASSES_RECOMPUTE_RECOMPUTE_H

#include "ir/analysis/uses.h"
#include "passes/value_map.h"

typedef VEC(Value *) Values;
typedef enum Answer { UNKNOWN, YES, NO } Answer;

/* A forward region and its backward region: the bodies of a loop and of its
 * backward loop; or twice the step itself, whose ops differ by phase. */
typedef struct Pair Pair;
struct Pair {
    Program *p;
    const Uses *uses;       /* readers of forward values before the pass */
    Pair *outer;            /* NULL: the step */
    Op *forward, *backward; /* the loops, where outer is not NULL */
    Region *from, *to;      /* the forward and the backward region */
    ValueMap back;          /* forward value → its backward value, if any */
    ValueMap origin;        /* backward value → its forward value */
    ValueMap made;          /* forward value → its recomputed value */
    ValueMap late;          /* forward value → its second recomputed value,
                             * for late readers */
    Values needed;          /* forward values that the backward region reads */
    bool *recomputed;       /* by id: needed, and recomputed instead of saved */
    bool *making;           /* by id: recomputed: needed itself, or read by a
                             * recomputed op */
    bool *saved;            /* by id: saved */
    bool *held;             /* by id: would be saved if the plan had no
                             * checkpoint; NULL: it has none */
    bool plain;             /* ignore the plan's checkpoints */
    Answer *easy;           /* by id: see recompute_rules.c */
    uint32_t nvalues;       /* length of these arrays by id */
    int *stretch;           /* by id of a forward op: see
                             * ir/plan/checkpoint.h */
    uint32_t nops;
};

/* ---- recompute.c ---- */

/* Records that `back` is the forward value in the backward region. */
void recompute_match(Pair *r, Value *forward, Value *back);

/* ---- recompute_rules.c ---- */

/* Whether the op of r->to belongs to the backward pass. */
bool recompute_is_way_back(const Pair *r, const Op *op);
/* Fills r->stretch. To be called before the functions below. */
void recompute_find_stretches(Pair *r);
/* The stretch of an op of r->from; 0: it is in no checkpointed module. */
int recompute_stretch(const Pair *r, const Op *op);
/* Whether the backward pass can read v at no cost: parameters, inputs,
 * constants, and what it gathers itself. */
bool recompute_available(const Pair *r, const Value *v);
/* Whether the producer of v may be cloned into the backward pass. */
bool recompute_clonable(const Pair *r, const Value *v);

/* ---- recompute_cut.c, recompute_rewrite.c ---- */

/* Fills r->saved, r->recomputed and r->making from r->needed. */
void recompute_choose(Pair *r);
/* Rewrites the backward pass accordingly. */
void recompute_rewrite(Pair *r);

#endif
