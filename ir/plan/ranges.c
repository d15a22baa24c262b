/* ranges.c: finds what the ranks at each coordinate of a pipeline use of the arena, so
 * that they allocate nothing else.
 *
 *   blocks                          in pages, coordinate 0   coordinate 1
 *   "embedding" of 0     at 0       [0, 8192)
 *   "norm" of 1          at 0                                [0, 1024)
 *   "saved" 4 buffers    at 8192    [8192, 12288)
 *           1 on 1                                           [8192, 9216)
 *   ranges                          [0, 12288)           [0, 1024), [8192, 9216)
 *
 * The offsets of a block are the same on all ranks: collectives over all stages,
 * and the tables of the emitted program, need no others. A rank maps memory at its
 * ranges only, in whole pages.
 */
#include "ir/plan/ranges.h"

#include <stdlib.h>

typedef VEC(Range) RangeList;

static int64_t round_down(int64_t n, int64_t page)
{
    return n / page * page;
}

static int segment_number(const MemoryPlan *plan, const Block *b)
{
    for (int i = 0; i < plan->nsegments && b->shared; i++)
        if (plan->segment[i].axes == b->shared)
            return i + 1;
    return 0;
}

/* Adds what ranks at the coordinate use of the plan's blocks. */
static void add_blocks(Arena *a, const MemoryPlan *plan, int coordinate,
                       RangeList *list)
{
    for (int i = 0; i < plan->nblocks; i++) {
        const Block *b = &plan->block[i];
        int64_t bytes = block_bytes_on(b, coordinate);
        if (bytes == 0 || b->host)
            continue;
        int segment = segment_number(plan, b);
        int64_t base = segment ? plan->segment[segment - 1].offset : 0;
        int64_t from = round_down(b->offset - base, plan->page);
        int64_t end = round_down(b->offset - base + bytes + plan->page - 1,
                                 plan->page);
        vec_push(a, list, ((Range){segment, from, end - from}));
    }
}

static int by_begin(const void *x, const void *y)
{
    const Range *a = x, *b = y;
    return a->segment != b->segment ? a->segment - b->segment
                                    : (a->offset > b->offset) -
                                          (a->offset < b->offset);
}

/* Sorts the ranges and joins those that overlap or follow one another. */
static Ranges join_ranges(RangeList *list)
{
    int n = 0;
    if (list->n > 0)
        qsort(list->at, (size_t)list->n, sizeof *list->at, by_begin);
    for (int i = 0; i < list->n; i++) {
        Range next = list->at[i], *last = n ? &list->at[n - 1] : NULL;
        if (!last || last->segment != next.segment ||
            last->offset + last->bytes < next.offset)
            list->at[n++] = next;
        else if (last->offset + last->bytes < next.offset + next.bytes)
            last->bytes = next.offset + next.bytes - last->offset;
    }
    return (Ranges){list->at, n};
}

Ranges memory_ranges(const Program *p, int coordinate)
{
    const Program *t = p->training ? p->training : p;
    RangeList list = {0};
    add_blocks(t->arena, t->memory, coordinate, &list);
    for (int k = 0; k < PURPOSES; k++)
        if (t->side[k] && t->side[k]->memory)
            add_blocks(t->arena, t->side[k]->memory, coordinate, &list);
    return join_ranges(&list);
}

int64_t memory_ranges_counted(const MemoryPlan *plan, const Ranges *at)
{
    int64_t counted = 0;
    for (int i = 0; i < at->n; i++) {
        const Range *r = &at->range[i];
        const Segment *s = r->segment ? &plan->segment[r->segment - 1] : NULL;
        counted += s ? r->bytes / (s->bytes / s->counted) : r->bytes;
    }
    return counted;
}

Ranges program_ranges(const Program *p, int coordinate)
{
    RangeList list = {0};
    add_blocks(p->arena, p->memory, coordinate, &list);
    return join_ranges(&list);
}
