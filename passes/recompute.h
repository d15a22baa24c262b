/* recompute.h: what the files of the pass recompute share. */
#ifndef PARC_PASSES_RECOMPUTE_H
#define PARC_PASSES_RECOMPUTE_H

#include "passes/value_map.h"

typedef VEC(Value *) Values;
typedef enum Answer { UNKNOWN, YES, NO } Answer;

/* A forward region and the region of its way back: a loop's body and that of
 * its mirror; or the step itself, twice, told apart by phase. */
typedef struct Pair Pair;
struct Pair {
    Program *p;
    Pair *outer;            /* NULL: the step */
    Op *forward, *backward; /* the loops, where outer is not NULL */
    Region *from, *to;      /* their bodies */
    ValueMap back;          /* a forward value as the way back has it already */
    ValueMap origin;        /* the reverse */
    ValueMap made;          /* a forward value as this pass has made it there */
    ValueMap late;          /* … once more, for late readers */
    Values needed;          /* forward values that the way back reads */
    bool *again;            /* by id: needed, but made again rather than kept */
    bool *making;           /* by id: made again, for itself or for others */
    bool *saved;            /* by id: what is kept */
    bool *held;             /* by id: what would be kept if the plan had no
                               checkpoint; NULL: it has none */
    bool plain;             /* as if it had none */
    Answer *easy;           /* by id: see recompute_rules.c */
    uint32_t nvalues;       /* the length of these */
    int *stretch;           /* by op id: of forward ops, see checkpoint.h */
    uint32_t nops;
};

/* ---- recompute.c ---- */

/* Notes that the way back has a forward value under the name `back`. */
void recompute_match(Pair *r, Value *forward, Value *back);

/* ---- recompute_rules.c ---- */

/* Gathers the parameters of a unit. */
bool recompute_is_unit_gather(const Op *op);
/* Whether the op of r->to belongs to the way back. */
bool recompute_is_way_back(const Pair *r, const Op *op);
/* Fills r->stretch; in front of the questions below. */
void recompute_find_stretches(Pair *r);
/* Whether the way back has v at no cost: parameters, inputs, constants, and
 * what it gathers for itself. */
bool recompute_available(const Pair *r, const Value *v);
/* Whether the op that makes v may run again on the way back. */
bool recompute_clonable(const Pair *r, const Value *v);

/* ---- recompute_cut.c, recompute_again.c ---- */

/* Fills r->saved, r->again and r->making from r->needed. */
void recompute_choose(Pair *r);
/* Rewrites the way back accordingly. */
void recompute_again(Pair *r);

#endif
