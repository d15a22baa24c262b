/* memory_place.h: between the files of the pass `memory`.
 *
 *   memory.c         parameters, loops, and the plan's sums
 *   memory_results.c where an op's results lie, and its workspace
 */
#ifndef PARC_PASSES_MEMORY_PLACE_H
#define PARC_PASSES_MEMORY_PLACE_H

#include "passes/streams.h"

typedef struct Memory {
    Program *p;
    const TargetInfo *t;
    Liveness live;
    Ahead ahead;
    MemoryPlan *plan;
    VEC(Block) block;
    Place *bound;      /* by value id: where its maker must write it */
    bool *is_bound;
    const MemoryClass *class; /* by value id */
    bool *pinned;      /* by block: persists, nothing else may move in */
} Memory;

/* ---- memory.c: blocks ---------------------------------------------------- */

/* Bytes as the target aligns them; those of a rank's part of v. */
int64_t memory_align(const Memory *m, int64_t bytes);
int64_t memory_local_bytes(const Memory *m, const Value *v);
/* A new block that is in use from time `first` to `last`: its index. */
int memory_add_block(Memory *m, const char *name, MemoryClass class,
                     int64_t bytes, int first, int last);
Place memory_whole_block(int block);
/* It is in use in these times, too. */
void memory_extend(Memory *m, int block, int first, int last);
void memory_place_value(Memory *m, const Value *v, Place at);

/* ---- memory_results.c ---------------------------------------------------- */

/* What is gathered into the memory that its shard lies in; false: v is not. */
bool memory_place_gathered(Memory *m, Value *v);
/* So many places, which the turns of the loop around v take in turn. */
void memory_place_slots(Memory *m, const Value *v, int64_t slots);
/* Result i of an op. */
void memory_place_result(Memory *m, Op *op, int i);
/* Slots of a gather that runs ahead of its loop's turn; what the loop stacks
 * has its slice to go to. */
void memory_place_prefetched(Memory *m, Op *op);
/* What makes a gather's operands runs ahead with it. */
void memory_place_feeder(Memory *m, const Op *op);
void memory_place_workspace(Memory *m, Op *op);

#endif
