/* memory.h: declarations of the files that plan the memory of a program
 * (ir/memory.h).
 *
 *   memory.c         places parameters, values of loops; sums up the plan
 *   memory_results.c adds blocks; places an op's results and workspace
 *   memory_stages.c  adds buffers for the microbatches of a pipeline
 *   memory_rows.c    finds what each stage uses of stacks of layers
 *   memory_class.c   finds the class of each value
 *   arena_pack.c     gives blocks their addresses
 */
#ifndef PARC_PASSES_MEMORY_MEMORY_H
#define PARC_PASSES_MEMORY_MEMORY_H

#include "ir/memory.h"
#include "passes/pass.h"
#include "passes/schedule/issue.h"
#include "passes/schedule/liveness.h"

typedef struct Memory {
    Program *p;
    const TargetInfo *t;
    Liveness live;
    Prefetches prefetch;
    MemoryPlan *plan;
    VEC(Block) block;
    VEC(Rotation) rotation;
    Address *bound; /* by value id: where its producer must write it */
    bool *is_bound;
    const MemoryClass *class; /* by value id */
    bool *pinned;      /* by block: persistent, no other value may use it */
} Memory;

/* ---- memory_results.c ---------------------------------------------------- */

/* Bytes rounded up to the target's alignment; bytes of a rank's part of v. */
int64_t memory_align(const Memory *m, int64_t bytes);
int64_t memory_local_bytes(const Memory *m, const Value *v);
/* Adds a block that is live from time `first` to `last`; returns its index. */
int memory_add_block(Memory *m, const char *name, MemoryClass class,
                     int64_t bytes, int first, int last);
/* A block for v, live from `first` to `last`. */
Address memory_new_block(Memory *m, const Value *v, int first, int last);
/* Extends the block's live range. */
void memory_extend(Memory *m, int block, int first, int last);
void memory_place_value(Memory *m, Value *v, Address at);

/* Places v at its shard if it is gathered in place; false: it is not. */
bool memory_place_gathered(Memory *m, Value *v);
/* Gives v `slots` buffers that the iterations of its loop use in rotation. */
void memory_place_slots(Memory *m, Value *v, int64_t slots);
/* Places result i of an op. */
void memory_place_result(Memory *m, Op *op, int i);
/* Places the results of a prefetched gather: in rotating slots, or in its slice
 * of a stack that the loop yields. */
void memory_place_prefetched(Memory *m, Op *op);
/* Places the results of an op that is issued with a prefetched gather. */
void memory_place_producer(Memory *m, const Op *op);
void memory_place_workspace(Memory *m, Op *op);

/* ---- memory_streams.c ---------------------------------------------------- */

/* The time from which compute has waited for what x accesses on its stream. */
typedef struct Awaited {
    int time;
    const Op *loop; /* the outermost loop whose next iterations begin before
                     * that time; NULL: none */
} Awaited;
Awaited memory_awaited(const Program *p, const Liveness *live,
                       const Prefetches *prefetch, const Op *x);

/* ---- memory_hoist.c -------------------------------------------------------
 */

/* Extends the live ranges of hoisted gathers to their issue points, and issues
 * those later for which the plan's lower bound would rise. `block` has the
 * blocks, `plan` the assignment of values to them. */
void memory_extend_hoists(const Program *p, const Liveness *live,
                          Prefetches *prefetch, const MemoryPlan *plan,
                          Block *block, int nblocks);

/* ---- memory_stages.c ----------------------------------------------------- */

/* Gives what lives in several moments of a microbatch of the staged loop as many
 * buffers as its timetable needs. */
void memory_stage(Memory *m, const Op *loop);
/* In a side program a rank runs its stages one after another: first what a stage
 * receives, last what it sends. Keeps these tensors, and inputs, for the whole time. */
void memory_keep_for_stages(Memory *m);
/* Sets the coordinates of blocks. */
void memory_set_coordinates(Memory *m);

/* ---- memory_rows.c ---- */

/* Sets what each coordinate of a pipeline uses of blocks that hold stacks of layers. */
void memory_limit_rows(Memory *m);

/* ---- memory_class.c ------------------------------------------------------ */

/* A 16-bit copy counts as parameter memory, other states as the optimizer's. */
MemoryClass memory_class_of_param(const Param *pm);
/* By value id, the class of a block that is made for the value. */
const MemoryClass *memory_classes(const Program *p);

/* ---- memory.c ------------------------------------------------------------ */

/* Sets the lower bound, and the bytes at the peak by class; *shares: counted
 * bytes of blocks that ranks share, *fixed: of other blocks of the training
 * step. */
void memory_count(MemoryPlan *plan, int64_t *shares, int64_t *fixed);
/* The end of the rank's own blocks of a plan, or `most` if that is larger. */
int64_t memory_own_end(const MemoryPlan *plan, int64_t most);
/* Gives the training step t and its side programs that have memory plans the
 * same arena: as large as the largest needs. */
void memory_fit_arena(Program *t);
/* Sets the bytes of a rank's own part of the arena; moves what follows it. In a
 * side program the blocks of the training step have its offsets. */
void memory_set_arena(MemoryPlan *plan, const MemoryPlan *training,
                      int64_t own);

/* ---- arena_pack.c -------------------------------------------------------- */

/* Gives every block that is not shared, not in host memory and of no training
 * step an offset from `base` on such that blocks with overlapping live ranges do
 * not overlap; returns the end of the last. Blocks that live for all times until
 * `end` come first, up to *resident. Tries several orders of the others, keeps
 * the best, and improves it until it is near `bound`: the lower bound of what
 * is packed, or the size that is enough. `in_parts`: ranks allocate only what they use
 * of it, so that the search ends earlier. */
int64_t arena_pack(Arena *scratch, Block *block, int n, int end, int64_t base,
                   int64_t bound, bool in_parts, int64_t *resident);

/* Gives shared blocks their offsets, after plan->own; sets plan->segment and
 * plan->extent. */
void arena_lay_segments(MemoryPlan *plan);

/* The largest sum of counted bytes of blocks that are live at one time, and
 * that time, at the coordinate where it is largest. `whole`: of a block that it uses
 * partly, all bytes, as offsets are the same everywhere. */
int64_t arena_lower_bound(const Block *block, int n, int end, bool whole,
                          int *when, int *coordinate);

#endif
