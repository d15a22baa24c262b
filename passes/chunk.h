/* chunk.h: what the files of the pass chunk share.
 *
 *   chunk.c        where the head is, how many chunks it comes in
 *   chunk_split.c  what of a region runs chunk by chunk
 *   chunk_share.c  what the head and its gradient both have need of
 */
#ifndef PARC_PASSES_CHUNK_H
#define PARC_PASSES_CHUNK_H

#include "ir/rules.h"
#include "passes/turns.h"

typedef struct Chunk {
    Turns t;         /* `inside` and the lists are filled by chunk_split */
    Op *head;        /* the contraction that makes the logits */
    int operand;     /* of it, the one that has the tokens */
    int dim;         /* of the logits, split over the chunks */
    Split *split;    /* by op id: how an op that is inside is split */
    uint32_t nsplit; /* ids below this have one */
    Value **original; /* by value id: what it repeats, as chunk_share finds it */
} Chunk;

/* What the backward pass gathers or computes again for the gradients of the
 * head is what the forward pass has: in a loop both are there at once. */
void chunk_share(Chunk *c);

/* Splits the head, what follows from its logits up to sums over tokens and
 * further contractions, and the cheap ops that serve these alone, over the
 * axis in time. False where the user was told why that cannot be. */
bool chunk_split(Chunk *c);

#endif
