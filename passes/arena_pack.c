/* arena_pack.c: blocks with lifetimes into one arena.
 *
 * Each block goes to the lowest offset where it overlaps no placed block that
 * lives at a common time. What the result depends on is the order: largest
 * first, largest bytes x time first, or by start; the best of them stands.
 * Lifetimes of a training step nest (forward values die in reverse), which
 * such packing handles well: see the ratio to the lower bound in the plan.
 */
#include "passes/memory.h"

#include <stdlib.h>
#include <string.h>

static bool share_time(const Block *a, const Block *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int span(const Block *b)
{
    return b->last - b->first + 1;
}

static int by_place(const Block *a, const Block *b)
{
    return a->first != b->first ? (a->first > b->first) - (a->first < b->first)
                                : (a > b) - (a < b);
}

static int largest_first(const void *x, const void *y)
{
    const Block *a = *(Block *const *)x, *b = *(Block *const *)y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return by_place(a, b);
}

static int area_first(const void *x, const void *y)
{
    const Block *a = *(Block *const *)x, *b = *(Block *const *)y;
    double p = (double)a->bytes * span(a), q = (double)b->bytes * span(b);
    if (p < q || p > q)
        return p < q ? 1 : -1;
    return by_place(a, b);
}

static int longest_first(const void *x, const void *y)
{
    const Block *a = *(Block *const *)x, *b = *(Block *const *)y;
    if (span(a) != span(b))
        return span(a) < span(b) ? 1 : -1;
    return largest_first(x, y);
}

static int earliest_first(const void *x, const void *y)
{
    const Block *a = *(Block *const *)x, *b = *(Block *const *)y;
    int order = (a->first > b->first) - (a->first < b->first);
    return order ? order : largest_first(x, y);
}

/* Places blocks in the given order; `placed` is kept sorted by offset. */
static int64_t pack(Block **order, Block **placed, int n)
{
    int64_t peak = 0;
    for (int i = 0; i < n; i++) {
        Block *b = order[i];
        int64_t at = 0;
        for (int j = 0; j < i; j++) {
            const Block *q = placed[j];
            if (!share_time(b, q) || q->offset + q->bytes <= at)
                continue;
            if (q->offset >= at + b->bytes)
                break;
            at = q->offset + q->bytes;
        }
        b->offset = at;
        if (peak < at + b->bytes)
            peak = at + b->bytes;
        int j = i;
        while (j > 0 && placed[j - 1]->offset > at) {
            placed[j] = placed[j - 1];
            j--;
        }
        placed[j] = b;
    }
    return peak;
}

int64_t arena_pack(Arena *scratch, Block *block, int n)
{
    static int (*const compare[])(const void *, const void *) = {
        largest_first, area_first, longest_first, earliest_first};
    enum { ORDERS = sizeof compare / sizeof *compare };
    Block **order = NEW_ARRAY(scratch, Block *, n + 1);
    Block **placed = NEW_ARRAY(scratch, Block *, n + 1);
    int64_t *best_offset = NEW_ARRAY(scratch, int64_t, n + 1);
    int64_t best = INT64_MAX;
    for (int k = 0; k < ORDERS; k++) {
        for (int i = 0; i < n; i++)
            order[i] = &block[i];
        qsort(order, (size_t)n, sizeof *order, compare[k]);
        int64_t peak = pack(order, placed, n);
        if (peak < best) {
            best = peak;
            for (int i = 0; i < n; i++)
                best_offset[i] = block[i].offset;
        }
    }
    for (int i = 0; i < n; i++)
        block[i].offset = best_offset[i];
    return n ? best : 0;
}

int64_t arena_lower_bound(const Block *block, int n, int end, int *when)
{
    int64_t most = 0;
    *when = 0;
    for (int t = 0; t < end; t++) {
        int64_t live = 0;
        for (int i = 0; i < n; i++)
            if (block[i].first <= t && t <= block[i].last)
                live += block[i].bytes;
        if (live > most) {
            most = live;
            *when = t;
        }
    }
    return most;
}
