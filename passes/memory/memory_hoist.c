/* memory_hoist.c: extends the live ranges of hoisted gathers to their issue
 * points.
 *
 * A block is reserved for all iterations of a loop or for none. So a gather
 * that is hoisted into a loop's last iteration reserves its buffer through the
 * whole loop, although the earlier iterations do not use it. The reservation
 * costs nothing if the lower bound stays the same, because the step uses more
 * memory at another time: for gathers of the forward pass usually in the
 * backward pass. Where the lower bound would rise, the gather is issued after
 * that loop, as early as the bound permits.
 */
#include "passes/memory/memory.h"

typedef struct Extender {
    const Program *p;
    const Liveness *live;
    Prefetches *prefetch;
    const MemoryPlan *plan;
    Block *block;
    int64_t *below_bound; /* by time: bytes below the lower bound */
    VEC(Block *) group;  /* blocks of the current hoisted gather */
    int begin;           /* time of its first op, or of its loop */
} Extender;

/* ---- buffers of a hoisted gather ----------------------------------------- */

static void add_block(Extender *h, int block)
{
    if (block >= 0 && !vec_has(&h->group, &h->block[block]))
        vec_push(h->p->arena, &h->group, &h->block[block]);
}

static void find_group(Extender *h, const Hoist *hoist)
{
    h->group.n = 0;
    h->begin = h->live->begin[issue_hoist_origin(hoist)->id];
    for (const Op *op = hoist->gather->region->first; op; op = op->next) {
        if (!issue_hoist_includes(h->prefetch, op, hoist))
            continue;
        if (h->begin > h->live->begin[op->id])
            h->begin = h->live->begin[op->id];
        for (int i = 0; i < op->nouts; i++)
            add_block(h, value_address(op->out[i])->block);
        add_block(h, op->workspace);
    }
}

/* Whether the group's blocks are unused before the point where the gather is in
 * the program: no other value shares them. */
static bool is_unshared_group(const Extender *h)
{
    for (int i = 0; i < h->group.n; i++) {
        const Block *b = h->group.at[i];
        bool persists = b->first == 0 && b->last == h->live->end - 1;
        if (b->first < h->begin && !persists)
            return false;
    }
    return true;
}

/* ---- free memory --------------------------------------------------------- */

static int64_t wanted_at(const Extender *h, int time)
{
    int64_t bytes = 0;
    for (int i = 0; i < h->group.n; i++)
        bytes += h->group.at[i]->first > time ? h->group.at[i]->counted : 0;
    return bytes;
}

static bool fits_below_bound(const Extender *h, int from)
{
    for (int time = from; time <= h->begin; time++)
        if (wanted_at(h, time) > h->below_bound[time])
            return false;
    return true;
}

static void extend_group(Extender *h, int from)
{
    for (int time = from; time <= h->begin; time++)
        h->below_bound[time] -= wanted_at(h, time);
    for (int i = 0; i < h->group.n; i++)
        if (h->group.at[i]->first > from)
            h->group.at[i]->first = from;
}

/* ---- issue points -------------------------------------------------------- */

/* Issues the gather before the op; not hoisted at all if that is not earlier
 * than in the program. */
static void set_issue_point(const Extender *h, Hoist *hoist, const Op *op)
{
    bool earlier = op && h->live->begin[op->id] < h->begin;
    hoist->at = earlier ? op : NULL;
    hoist->left = 0;
    hoist->unit = -1;
}

/* Issues gathers in the order in which their results are needed. */
static void keep_order(const Extender *h, Hoist *hoist)
{
    const Op *own = issue_hoist_origin(hoist);
    for (int i = 0; &h->prefetch->hoist.at[i] != hoist; i++) {
        const Hoist *earlier = &h->prefetch->hoist.at[i];
        const Op *origin = issue_hoist_origin(earlier);
        const Op *at = earlier->at               ? earlier->at
                       : origin->kind == OP_loop ? origin
                                                 : origin->next;
        if (origin->region != own->region || !hoist->at || !at ||
            h->live->begin[at->id] <= h->live->begin[hoist->at->id])
            continue;
        set_issue_point(h, hoist, at);
        if (hoist->at && earlier->at) {
            hoist->left = earlier->left;
            hoist->unit = earlier->unit;
        }
    }
}

static void extend_hoist(Extender *h, Hoist *hoist)
{
    find_group(h, hoist);
    keep_order(h, hoist);
    if (!is_unshared_group(h))
        hoist->at = NULL;
    while (hoist->at && !fits_below_bound(h, h->live->begin[hoist->at->id]))
        set_issue_point(h, hoist, hoist->at->next);
    if (hoist->at)
        extend_group(h, h->live->begin[hoist->at->id]);
}

void memory_extend_hoists(const Program *p, const Liveness *live,
                          Prefetches *prefetch, const MemoryPlan *plan,
                          Block *block, int nblocks)
{
    Extender h = {.p = p,
                  .live = live,
                  .prefetch = prefetch,
                  .plan = plan,
                  .block = block};
    int when, coordinate;
    int64_t bound = arena_lower_bound(block, nblocks, live->end, false, &when,
                                      &coordinate);
    h.below_bound = NEW_ARRAY(p->arena, int64_t, live->end + 1);
    for (int time = 0; time < live->end; time++)
        h.below_bound[time] = bound;
    for (int i = 0; i < nblocks; i++)
        for (int time = block[i].first; time <= block[i].last; time++)
            h.below_bound[time] -= block[i].counted;
    for (int i = 0; i < prefetch->hoist.n; i++)
        extend_hoist(&h, &prefetch->hoist.at[i]);
}
