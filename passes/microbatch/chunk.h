/* chunk.h: declarations that the files of the pass chunk share.
 *
 *   chunk.c        finds the head and chooses the number of chunks; removes
 *                  recomputation between the head and its gradient
 *   chunk_split.c  decides which ops run chunk by chunk
 */
#ifndef PARC_PASSES_MICROBATCH_CHUNK_H
#define PARC_PASSES_MICROBATCH_CHUNK_H

#include "ir/rules/rules.h"
#include "passes/microbatch/loop_axis.h"

typedef struct Chunk {
    LoopAxis t;      /* chunk_split fills `inside`, `total` and `gather` */
    Op *head;        /* the contraction that makes the logits */
    int operand;     /* index of the head's operand that has the tokens */
    int dim;         /* the dim of the logits that chunks split */
    Split *split;    /* by op id, as `inside`: how an op in the loop is split */
    Value **original; /* by value id: the forward value that it recomputes */
} Chunk;

/* Splits over the loop axis: the head, the ops that depend on its logits up to
 * sums over tokens and further contractions, and cheap ops that only these
 * read. False after a user error. */
bool chunk_split(Chunk *c);

#endif
