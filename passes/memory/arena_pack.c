/* arena_pack.c: packs blocks with live ranges into one arena.
 *
 * Each block gets the lowest offset at which it overlaps no placed block with
 * an overlapping live range (first fit). The result depends on the order, so
 * four are tried: largest first, largest bytes x time first, longest first, and
 * by start. Live ranges of a training step nest (forward values end in reverse
 * order), which first fit handles well. If the best order is not near the lower
 * bound, blocks at the top of the arena are moved to an earlier position in the
 * order, at random, as long as the arena does not grow (hill climbing, as in
 * TVM's memory planner); if that does not come close, it restarts from the
 * other orders. The plan prints the ratio to the lower bound, which this file
 * computes too.
 *
 * Blocks that live for the whole step come first, without gaps: that is as good
 * as any other place for them, and side programs (side_program.c) may
 * overwrite all that follows.
 *
 * A rank has the blocks of its own coordinate of a pipeline and those of all ranks:
 * blocks of two coordinates may overlap. Offsets are the same on all ranks; what a rank
 * allocates of the arena follows from them (ranges.c).
 *
 * Memory that ranks share follows the arena, one segment for each set of axes:
 * its blocks live for the whole step, so they are only placed one after
 * another, those of each coordinate after those of all.
 */
#include "passes/memory/memory.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- first fit ----------------------------------------------------------- */

/* A part of the arena that placed blocks of one live range occupy. Parameters
 * and states, most of the blocks of a large model, make one stretch. */
typedef struct Stretch {
    int first, last, coordinate;
    int64_t offset, end;
} Stretch;

/* Stretches sorted by offset. */
typedef struct Placed {
    Stretch *at;
    int n;
} Placed;

/* The lowest offset from `base` on that is free during b's live range; *below: the stretch
 * that ends there and is live at the same time; -1: none. */
static int64_t lowest_fit(const Placed *placed, const Block *b, int64_t base,
                          int *below)
{
    int64_t at = base;
    *below = -1;
    for (int j = 0; j < placed->n; j++) {
        const Stretch *q = &placed->at[j];
        bool apart = b->coordinate && q->coordinate && b->coordinate != q->coordinate;
        if (b->first > q->last || q->first > b->last || q->end <= at || apart)
            continue;
        if (q->offset >= at + b->bytes)
            break;
        at = q->end;
        *below = j;
    }
    return at;
}

static void insert(Placed *placed, const Block *b, int below)
{
    Stretch *q = below < 0 ? NULL : &placed->at[below];
    if (q && q->first == b->first && q->last == b->last &&
        q->coordinate == b->coordinate) {
        q->end += b->bytes;
        return;
    }
    int low = 0, high = placed->n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (placed->at[middle].offset <= b->offset)
            low = middle + 1;
        else
            high = middle;
    }
    q = &placed->at[low];
    memmove(q + 1, q, sizeof *q * (size_t)(placed->n - low));
    *q = (Stretch){b->first, b->last, b->coordinate, b->offset,
                   b->offset + b->bytes};
    placed->n++;
}

/* Places blocks in the given order, from `base` on; returns the peak, or
 * INT64_MAX as soon as it is above `limit`. */
static int64_t pack(Placed *placed, Block **order, int n, int64_t base,
                    int64_t limit)
{
    int64_t peak = base;
    placed->n = 0;
    for (int i = 0; i < n; i++) {
        int below;
        Block *b = order[i];
        b->offset = lowest_fit(placed, b, base, &below);
        if (b->offset + b->bytes > limit)
            return INT64_MAX;
        if (peak < b->offset + b->bytes)
            peak = b->offset + b->bytes;
        insert(placed, b, below);
    }
    return peak;
}

/* ---- hill climbing ------------------------------------------------------- */

/* Ends when the peak is within 1/NEAR of the lower bound; restarts unless it is
 * within 1/CLOSE, and restarts with longer climbs unless it is within
 * 1/FAIR. */
enum { NEAR = 1000, CLOSE = 100, FAIR = 50 };
/* CLIMB_PAIRS, CLIMB_STEPS: limits of one climb: pairs of blocks to compare
 * (about 50 ms), and moves. RESTARTS: the number of further climbs, and then of
 * further climbs with LONGER times as many moves. */
enum { CLIMB_PAIRS = 40000000, CLIMB_STEPS = 4000, RESTARTS = 16, LONGER = 5 };

/* The state of the search and its best result. */
typedef struct Search {
    Block **order, **best_order;
    Placed placed;
    int64_t *offset; /* by position in `order`: the last accepted packing */
    int n;
    bool in_parts;
    int64_t base, bound, best;
    uint32_t state; /* the generator of random numbers */
} Search;

static bool is_within(int64_t peak, int64_t bound, int part)
{
    return peak - bound <= bound / part;
}

/* Xorshift: the same numbers in every run. */
static uint32_t random_below(uint32_t *state, int below)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % (uint32_t)below;
}

/* The position in the order of a block that ends at the peak; one of several is
 * chosen at random. */
static int index_at_top(Block *const *order, int n, int64_t peak,
                        uint32_t *state)
{
    int index = 0, seen = 0;
    for (int i = 0; i < n; i++)
        if (order[i]->offset + order[i]->bytes == peak &&
            random_below(state, ++seen) == 0)
            index = i;
    return index;
}

static void move_in_order(Block **order, int from, int to)
{
    Block *b = order[from];
    int step = from < to ? 1 : -1;
    for (int i = from; i != to; i += step)
        order[i] = order[i + step];
    order[to] = b;
}

/* The number of moves; 0 for thousands of blocks, which get sorted orders
 * only. */
static int64_t climb_steps(const Search *s)
{
    int64_t steps = CLIMB_PAIRS / ((int64_t)s->n * s->n + 1);
    return steps < CLIMB_STEPS ? steps : CLIMB_STEPS;
}

static void save_offsets(Search *s)
{
    for (int i = 0; i < s->n; i++)
        s->offset[i] = s->order[i]->offset;
}

/* Improves s->order, which is packed with this peak, by climb_steps x `longer`
 * moves at most; returns the new peak. */
static int64_t climb(Search *s, int64_t peak, int longer)
{
    int64_t steps = climb_steps(s) * longer;
    save_offsets(s);
    while (steps-- > 0 && !is_within(peak, s->bound, NEAR)) {
        int from = index_at_top(s->order, s->n, peak, &s->state);
        if (from == 0)
            break;
        int to = (int)random_below(&s->state, from);
        move_in_order(s->order, from, to);
        int64_t after = pack(&s->placed, s->order, s->n, s->base, peak);
        if (after <= peak) {
            peak = after;
            save_offsets(s);
        } else {
            move_in_order(s->order, to, from);
            for (int i = 0; i < s->n; i++)
                s->order[i]->offset = s->offset[i];
        }
    }
    return peak;
}

static bool is_step_block(const Block *b)
{
    return !b->shared && !b->host && !b->training;
}

static int count_coordinates(const Block *block, int n)
{
    int count = 1;
    for (int i = 0; i < n; i++)
        if (count < block[i].coordinate)
            count = block[i].coordinate;
    return count;
}

/* Places the blocks that live for all times, and that have this `coordinate`, one after
 * another; returns the end of the last. */
static int64_t place_resident_of(Block *block, int n, int end, int64_t base,
                                 int coordinate)
{
    for (int i = 0; i < n; i++) {
        Block *b = &block[i];
        if (!is_step_block(b) || b->first > 0 || b->last < end - 1 ||
            b->coordinate != coordinate)
            continue;
        b->offset = base;
        base += b->bytes;
    }
    return base;
}

/* Those of all ranks first, then those of each coordinate from there on. */
static int64_t place_resident(Block *block, int n, int end, int64_t base)
{
    base = place_resident_of(block, n, end, base, 0);
    int64_t most = base;
    for (int k = 1; k <= count_coordinates(block, n); k++) {
        int64_t at = place_resident_of(block, n, end, base, k);
        most = at > most ? at : most;
    }
    return most;
}

/* Collects the other blocks of the rank's own memory; returns their number. */
static int own_blocks(Block *block, int n, int end, Block **order)
{
    int own = 0;
    for (int i = 0; i < n; i++)
        if (is_step_block(&block[i]) &&
            (block[i].first > 0 || block[i].last < end - 1))
            order[own++] = &block[i];
    return own;
}

typedef int Compare(const void *, const void *);
static Compare *const orders[] = {largest_first, area_first, longest_first,
                                  earliest_first};
enum { ORDERS = sizeof orders / sizeof *orders };

/* Saves s->order, which is packed with this peak, if it is the best. */
static void keep_better(Search *s, int64_t peak)
{
    if (peak < s->best) {
        s->best = peak;
        memcpy(s->best_order, s->order, sizeof *s->order * (size_t)s->n);
    }
}

static int64_t pack_sorted(Search *s, Compare *compare)
{
    qsort(s->order, (size_t)s->n, sizeof *s->order, compare);
    return pack(&s->placed, s->order, s->n, s->base, INT64_MAX);
}

/* Climbs from each sorted order in rotation until the best is within 1/part of
 * the lower bound. */
static void restart(Search *s, int part, int longer)
{
    int restarts = climb_steps(s) > 0 ? RESTARTS : 0;
    for (int k = 0; k < restarts && !is_within(s->best, s->bound, part); k++) {
        int64_t peak = pack_sorted(s, orders[k % ORDERS]);
        keep_better(s, climb(s, peak, longer));
    }
}

/* Climbs from the best sorted order; if that does not come close to the bound,
 * from each sorted order in rotation. */
static void search_orders(Search *s)
{
    for (int k = 0; k < ORDERS; k++)
        keep_better(s, pack_sorted(s, orders[k]));
    memcpy(s->order, s->best_order, sizeof *s->order * (size_t)s->n);
    int64_t peak = pack(&s->placed, s->order, s->n, s->base, INT64_MAX);
    keep_better(s, climb(s, peak, 1));
    if (!s->in_parts) {
        restart(s, CLOSE, 1);
        restart(s, FAIR, LONGER);
    }
    pack(&s->placed, s->best_order, s->n, s->base, INT64_MAX);
}

static const uint32_t xorshift_seed = 2463534242u;

int64_t arena_pack(Arena *scratch, Block *block, int n, int end, int64_t base,
                   int64_t bound, bool in_parts, int64_t *resident)
{
    *resident = place_resident(block, n, end, base);
    Search s = {.order = NEW_ARRAY(scratch, Block *, n + 1),
                .placed.at = NEW_ARRAY(scratch, Stretch, n + 1),
                .offset = NEW_ARRAY(scratch, int64_t, n + 1),
                .best_order = NEW_ARRAY(scratch, Block *, n + 1),
                .base = *resident,
                .bound = base + bound,
                .in_parts = in_parts,
                .best = INT64_MAX,
                .state = xorshift_seed};
    s.n = own_blocks(block, n, end, s.order);
    if (s.n == 0)
        return *resident;
    search_orders(&s);
    return s.best;
}

/* The largest sum of counted bytes of blocks that are live at one time, and that
 * time, on a rank at the coordinate. `whole`: of the blocks that it uses, all bytes. */
static int64_t bound_on(const Block *block, int n, int end, int coordinate,
                           bool whole, int *when)
{
    Arena *scratch = arena_new();
    /* By time: the bytes that become live, less those that cease to be. */
    int64_t *change = NEW_ARRAY(scratch, int64_t, end + 1);
    for (int i = 0; i < n; i++) {
        const Block *b = &block[i];
        if (b->first >= end || b->last < b->first)
            continue;
        int64_t counted = block_counted_on(b, coordinate);
        counted = whole && counted > 0 ? b->counted : counted;
        change[b->first] += counted;
        change[b->last < end ? b->last + 1 : end] -= counted;
    }
    int64_t most = 0, live = 0;
    *when = 0;
    for (int t = 0; t < end; t++) {
        live += change[t];
        if (live > most) {
            most = live;
            *when = t;
        }
    }
    arena_free(scratch);
    return most;
}

int64_t arena_lower_bound(const Block *block, int n, int end, bool whole,
                          int *when, int *coordinate)
{
    int64_t most = -1;
    for (int k = 0; k < count_coordinates(block, n); k++) {
        int at;
        int64_t bytes = bound_on(block, n, end, k, whole, &at);
        if (bytes <= most)
            continue;
        most = bytes;
        *when = at;
        *coordinate = k;
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

/* Places the coordinate's blocks of a segment from `base` on; the segment ends after
 * them. */
static void lay_segment(MemoryPlan *plan, Segment *s, int coordinate, int64_t base)
{
    for (int i = 0; i < plan->nblocks; i++) {
        Block *b = &plan->block[i];
        if (b->shared != s->axes || b->coordinate != coordinate)
            continue;
        int64_t ranks = b->counted ? b->bytes / b->counted : 1;
        b->offset = base;
        base += b->bytes;
        if (s->bytes < base) {
            s->bytes = base;
            s->counted = base / ranks;
        }
    }
}

void arena_lay_segments(MemoryPlan *plan)
{
    plan->nsegments = 0;
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].shared)
            segment_of(plan, plan->block[i].shared);
    for (int i = 0; i < plan->nsegments; i++) {
        Segment *s = &plan->segment[i];
        lay_segment(plan, s, 0, 0);
        int64_t base = s->bytes;
        for (int k = 1; k <= count_coordinates(plan->block, plan->nblocks); k++)
            lay_segment(plan, s, k, base);
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
