/* recompute.h: what the files of the pass recompute share. */
#ifndef PARC_PASSES_RECOMPUTE_H
#define PARC_PASSES_RECOMPUTE_H

#include "passes/value_map.h"

typedef VEC(Value *) Values;

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
    Values needed;          /* forward values that the way back reads */
    bool *again;            /* by id: needed, but made again rather than kept */
    bool *saved;            /* by id: what is kept */
    uint32_t nvalues;       /* the length of both */
};

/* Whether the way back has v at no cost: parameters, inputs, constants, and
 * what it gathers for itself. */
bool recompute_available(const Pair *r, const Value *v);
/* Whether the op that makes v may run again on the way back. */
bool recompute_clonable(const Pair *r, const Value *v);

/* recompute_cut.c: fills r->saved and r->again from r->needed. */
void recompute_choose(Pair *r);

#endif
