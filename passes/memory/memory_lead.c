/* memory_lead.c: extends the live ranges of hoisted gathers to their issue
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

typedef struct Holder {
    const Program *p;
    const Liveness *live;
    Ahead *ahead;
    const MemoryPlan *plan;
    Block *block;
    int64_t *room;       /* by time: bytes below the lower bound */
    VEC(Block *) group;  /* blocks of the current hoisted gather */
    int begin;           /* time of its first op, or of its loop */
} Holder;

/* ---- buffers of a hoisted gather ----------------------------------------- */

static void add_block(Holder *h, int block)
{
    if (block < 0)
        return;
    for (int i = 0; i < h->group.n; i++)
        if (h->group.at[i] == &h->block[block])
            return;
    vec_push(h->p->arena, &h->group, &h->block[block]);
}

static void find_group(Holder *h, const Lead *lead)
{
    h->group.n = 0;
    h->begin = h->live->begin[issue_lead_stays(lead)->id];
    for (const Op *op = lead->gather->region->first; op; op = op->next) {
        if (!issue_lead_has(h->ahead, op, lead))
            continue;
        if (h->begin > h->live->begin[op->id])
            h->begin = h->live->begin[op->id];
        for (int i = 0; i < op->nouts; i++)
            add_block(h, value_place(op->out[i])->block);
        add_block(h, op->workspace);
    }
}

static bool persists(const Holder *h, const Block *b)
{
    return b->first == 0 && b->last == h->live->end - 1;
}

/* Whether the group's blocks are unused before the point where the gather is in
 * the program: no other value shares them. */
static bool is_unshared_group(const Holder *h)
{
    for (int i = 0; i < h->group.n; i++)
        if (h->group.at[i]->first < h->begin && !persists(h, h->group.at[i]))
            return false;
    return true;
}

/* ---- free memory --------------------------------------------------------- */

static int64_t wanted_at(const Holder *h, int time)
{
    int64_t bytes = 0;
    for (int i = 0; i < h->group.n; i++)
        bytes += h->group.at[i]->first > time ? h->group.at[i]->counted : 0;
    return bytes;
}

static bool has_room(const Holder *h, int from)
{
    for (int time = from; time <= h->begin; time++)
        if (wanted_at(h, time) > h->room[time])
            return false;
    return true;
}

static void take_room(Holder *h, int from)
{
    for (int time = from; time <= h->begin; time++)
        h->room[time] -= wanted_at(h, time);
    for (int i = 0; i < h->group.n; i++)
        if (h->group.at[i]->first > from)
            h->group.at[i]->first = from;
}

/* ---- issue points -------------------------------------------------------- */

/* Issues the gather before the op; not hoisted at all if that is not earlier
 * than in the program. */
static void stand_at(const Holder *h, Lead *lead, const Op *op)
{
    bool ahead = op && h->live->begin[op->id] < h->begin;
    lead->at = ahead ? op : NULL;
    lead->left = 0;
    lead->unit = -1;
}

/* Issues gathers in the order in which their results are needed. */
static void keep_order(const Holder *h, Lead *lead)
{
    const Op *stays = issue_lead_stays(lead);
    for (int i = 0; &h->ahead->lead.at[i] != lead; i++) {
        const Lead *sooner = &h->ahead->lead.at[i];
        const Op *stood = issue_lead_stays(sooner);
        const Op *at = sooner->at ? sooner->at
                       : stood->kind == OP_loop ? stood : stood->next;
        if (stood->region != stays->region || !lead->at || !at ||
            h->live->begin[at->id] <= h->live->begin[lead->at->id])
            continue;
        stand_at(h, lead, at);
        if (lead->at && sooner->at) {
            lead->left = sooner->left;
            lead->unit = sooner->unit;
        }
    }
}

static void hold_lead(Holder *h, Lead *lead)
{
    find_group(h, lead);
    keep_order(h, lead);
    if (!is_unshared_group(h))
        lead->at = NULL;
    while (lead->at && !has_room(h, h->live->begin[lead->at->id]))
        stand_at(h, lead, lead->at->next);
    if (lead->at)
        take_room(h, h->live->begin[lead->at->id]);
}

void memory_hold_leads(const Program *p, const Liveness *live, Ahead *ahead,
                       const MemoryPlan *plan, Block *block, int nblocks)
{
    Holder h = {.p = p, .live = live, .ahead = ahead, .plan = plan,
                .block = block};
    int when;
    int64_t bound = arena_lower_bound(block, nblocks, live->end, &when);
    h.room = NEW_ARRAY(p->arena, int64_t, live->end + 1);
    for (int time = 0; time < live->end; time++)
        h.room[time] = bound;
    for (int i = 0; i < nblocks; i++)
        for (int time = block[i].first; time <= block[i].last; time++)
            h.room[time] -= block[i].counted;
    for (int i = 0; i < ahead->lead.n; i++)
        hold_lead(&h, &ahead->lead.at[i]);
}
