/* ranges.h: finds what the ranks at each coordinate of a pipeline allocate of the
 * arena. */
#ifndef PARC_IR_PLAN_RANGES_H
#define PARC_IR_PLAN_RANGES_H

#include "ir/memory.h"

/* Bytes of the rank's own part of the arena (segment 0), or of a segment (from
 * 1), from its begin. */
typedef struct Range {
    int segment;
    int64_t offset, bytes;
} Range;

/* What the ranks at one coordinate of a pipeline use of the arena, in order: the
 * rest of it is not allocated there. */
typedef struct Ranges {
    Range *range;
    int n;
} Ranges;

/* What ranks at a coordinate of the pipeline use for a training step and its forward
 * programs, of which p is one; the bytes that such a rank counts. */
Ranges memory_ranges(const Program *p, int coordinate);
int64_t memory_ranges_counted(const MemoryPlan *plan, const Ranges *at);
/* What they use for p alone. */
Ranges program_ranges(const Program *p, int coordinate);

#endif
