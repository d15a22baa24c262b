/* arena_pack.c: blocks with lifetimes into one arena.
 *
 * Each block goes to the lowest offset where it overlaps no placed block that
 * lives at a common time. What the result depends on is the order: largest
 * first, largest bytes x time first, or by start. Lifetimes of a training step
 * nest (forward values die in reverse), which such packing handles well. Where
 * the best of them is not yet near the lower bound, blocks at the top are given
 * an earlier turn, at random, as long as the arena does not grow (hill
 * climbing, as in TVM's memory planner). See the ratio in the plan.
 *
 * What ranks have in common lies behind that, a segment for each set of axes:
 * it lives for good, and only its order is to be said.
 */
#include "passes/memory.h"

#include "base/bug.h"

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

/* ---- climbing ------------------------------------------------------------ */

/* Near enough to the lower bound: a thousandth of it. */
enum { NEAR = 1000 };
/* Pairs of blocks to look at: some 50 ms at most; and turns for few blocks. */
enum { CLIMB_PAIRS = 40000000, CLIMB_TURNS = 4000 };

static bool is_near(int64_t peak, int64_t bound)
{
    return peak - bound <= bound / NEAR;
}

/* Xorshift: the same numbers in every run. */
static uint32_t draw(uint32_t *state, int below)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % (uint32_t)below;
}

/* The turn of a block that ends at the top, one of them at random. */
static int turn_at_top(Block *const *order, int n, int64_t peak,
                       uint32_t *state)
{
    int turn = 0, seen = 0;
    for (int i = 0; i < n; i++)
        if (order[i]->offset + order[i]->bytes == peak &&
            draw(state, ++seen) == 0)
            turn = i;
    return turn;
}

static void move_turn(Block **order, int from, int to)
{
    Block *b = order[from];
    int step = from < to ? 1 : -1;
    for (int i = from; i != to; i += step)
        order[i] = order[i + step];
    order[to] = b;
}

/* `order` has been packed, to `peak`; it is left packed, to what is returned.
 */
static int64_t climb(Block **order, Block **placed, int n, int64_t peak,
                     int64_t bound)
{
    uint32_t state = 2463534242u;
    int64_t turns = CLIMB_PAIRS / ((int64_t)n * n + 1);
    if (turns > CLIMB_TURNS)
        turns = CLIMB_TURNS;
    while (turns-- > 0 && !is_near(peak, bound)) {
        int from = turn_at_top(order, n, peak, &state);
        if (from == 0)
            break;
        int to = (int)draw(&state, from);
        move_turn(order, from, to);
        int64_t after = pack(order, placed, n);
        if (after <= peak) {
            peak = after;
        } else {
            move_turn(order, to, from);
            pack(order, placed, n);
        }
    }
    return peak;
}

/* Those that are the rank's own; how many. */
static int own_blocks(Block *block, int n, Block **order)
{
    int own = 0;
    for (int i = 0; i < n; i++)
        if (!block[i].shared && !block[i].host)
            order[own++] = &block[i];
    return own;
}

int64_t arena_pack(Arena *scratch, Block *block, int n, int64_t bound)
{
    static int (*const compare[])(const void *, const void *) = {
        largest_first, area_first, longest_first, earliest_first};
    enum { ORDERS = sizeof compare / sizeof *compare };
    Block **order = NEW_ARRAY(scratch, Block *, n + 1);
    Block **placed = NEW_ARRAY(scratch, Block *, n + 1);
    Block **best_order = NEW_ARRAY(scratch, Block *, n + 1);
    int64_t best = INT64_MAX;
    int all = n;
    n = own_blocks(block, n, order);
    for (int k = 0; k < ORDERS; k++) {
        own_blocks(block, all, order);
        qsort(order, (size_t)n, sizeof *order, compare[k]);
        int64_t peak = pack(order, placed, n);
        if (peak < best) {
            best = peak;
            memcpy(best_order, order, sizeof *order * (size_t)n);
        }
    }
    if (n == 0)
        return 0;
    best = pack(best_order, placed, n);
    return climb(best_order, placed, n, best, bound);
}

int64_t arena_lower_bound(const Block *block, int n, int end, int *when)
{
    int64_t most = 0;
    *when = 0;
    for (int t = 0; t < end; t++) {
        int64_t live = 0;
        for (int i = 0; i < n; i++)
            if (block[i].first <= t && t <= block[i].last)
                live += block[i].counted;
        if (live > most) {
            most = live;
            *when = t;
        }
    }
    return most;
}

static Segment *segment_of(MemoryPlan *plan, uint32_t axes)
{
    for (int i = 0; i < plan->nsegments; i++)
        if (plan->segment[i].axes == axes)
            return &plan->segment[i];
    if (plan->nsegments == MAX_AXES)
        bug("memory: more than %d ways to cut parameters", MAX_AXES);
    plan->segment[plan->nsegments] = (Segment){.axes = axes};
    return &plan->segment[plan->nsegments++];
}

void arena_lay_segments(MemoryPlan *plan)
{
    plan->nsegments = 0;
    for (int i = 0; i < plan->nblocks; i++) {
        Block *b = &plan->block[i];
        if (!b->shared)
            continue;
        Segment *s = segment_of(plan, b->shared);
        b->offset = s->bytes;
        s->bytes += b->bytes;
        s->counted += b->counted;
    }
    plan->extent = plan->own;
    for (int i = 0; i < plan->nsegments; i++) {
        plan->segment[i].offset = plan->extent;
        plan->extent += plan->segment[i].bytes;
    }
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].shared)
            plan->block[i].offset +=
                segment_of(plan, plan->block[i].shared)->offset;
}
