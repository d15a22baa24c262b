/* memory.h: declarations of the files that plan the memory of a program
 * (ir/memory.h): liveness.c, memory_class.c, memory.c and arena_pack.c.
 */
#ifndef PARC_PASSES_MEMORY_H
#define PARC_PASSES_MEMORY_H

#include "ir/memory.h"
#include "passes/pass.h"

/* ---- memory_class.c ------------------------------------------------------ */

/* A 16-bit copy counts as parameter memory, other states as the optimizer's. */
MemoryClass memory_class_of_param(const Param *pm);
/* By value id, the class of a block that is made for the value. */
const MemoryClass *memory_classes(const Program *p);

/* Sets the bytes of a rank's own part of the arena; moves what follows it. In a
 * forward program the blocks of the training step have its offsets. */
void memory_set_arena(MemoryPlan *plan, const MemoryPlan *training,
                      int64_t own);

/* ---- liveness.c: times and views, shared by schedule and memory ---------- */

typedef struct Liveness {
    int *begin, *finish; /* by op id; they differ for loops only */
    int *last_use;       /* by value id; valid for roots: see live_root */
    int end;             /* one past the last time */
} Liveness;

/* A view shares its operand's memory: reshape, fold, unfold, finish_grad. */
bool live_is_view(OpKind kind);
/* The value whose memory v uses, within its region. */
Value *live_root(Value *v);
/* The address of that value; its block is -1 if it has none. */
const Place *live_place(const Value *v);
/* The value that a rank stores for v: for an einsum_shard its reduce_scatter's
 * result. */
const Value *live_made_as(const Value *v);
/* Whether operand i of a collective is made as a shard (einsum_shard); whether
 * any operand in the program is. */
bool live_is_shard(const Op *scatter, int i);
bool live_has_shards(const Program *p);
/* The shard, in v's region, of a parameter that stays gathered, if v is
 * gathered from it in place: v is the result of such a gather, or a stack of
 * such results of a loop. NULL: neither. */
Value *live_gathered_from(const Program *p, Value *v);
/* The shard of the parameter whose memory v uses, where the parameter stays
 * gathered: v is that shard, a layer of it, or gathered from either. NULL:
 * none. */
Value *live_kept_shard(const Program *p, Value *v);
/* Whether op is an all-gather of parameters. */
bool live_is_unit_gather(const Op *op);
/* The number of buffers of a gather in a loop with a prefetch distance:
 * iterations in flight. An iteration gathers `units` units. The gather is
 * issued where the unit `prefetch` units earlier begins, and its result lives
 * until `during` units after its own begins: of prefetch + during + 1
 * consecutive units, every units-th is this one. */
int64_t live_prefetch_slots(const Op *gather);
void live_analyse(const Program *p, Liveness *l);

/* ---- arena_pack.c -------------------------------------------------------- */

/* Gives every block that is not shared, not in host memory and of no training
 * step an offset from `base` on such that blocks with overlapping live ranges do
 * not overlap; returns the end of the last. Blocks that live for all times until
 * `end` come first, up to *resident. Tries several orders of the others, keeps
 * the best, and improves it until it is near `bound`, the lower bound of what
 * is packed. */
int64_t arena_pack(Arena *scratch, Block *block, int n, int end, int64_t base,
                   int64_t bound, int64_t *resident);

/* Gives shared blocks their offsets, after plan->own; sets plan->segment and
 * plan->extent. */
void arena_lay_segments(MemoryPlan *plan);

/* The largest sum of counted bytes of blocks that are live at one time, and
 * that time. */
int64_t arena_lower_bound(const Block *block, int n, int end, int *when);

#endif
