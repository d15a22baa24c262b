/* memory.h: declarations of the files that plan the memory of a program
 * (ir/memory.h): memory_class.c, memory.c and arena_pack.c. */
#ifndef PARC_PASSES_MEMORY_MEMORY_H
#define PARC_PASSES_MEMORY_MEMORY_H

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
