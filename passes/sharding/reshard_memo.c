/* reshard_memo.c: memoizes the modelled times of conversions.
 *
 * Propagation asks for the same few conversions repeatedly. The table has one
 * entry for each hash value; a collision replaces it.
 */
#include "passes/sharding/reshard.h"

enum { SLOTS = 2048 };

typedef struct Slot {
    bool used;
    Type from;
    Placement to;
    double seconds;
} Slot;

struct ReshardMemo {
    const Mesh *m;
    Slot slot[SLOTS];
};

ReshardMemo *reshard_memo_new(Arena *a, const Mesh *m)
{
    ReshardMemo *memo = NEW(a, ReshardMemo);
    memo->m = m;
    return memo;
}

static uint32_t hash_more(uint32_t h, uint64_t x)
{
    return (h ^ (uint32_t)(x ^ x >> 32)) * 16777619u;
}

static uint32_t memo_slot(const Type *from, const Placement *to)
{
    uint32_t h = hash_more(2166136261u, (uint64_t)from->dtype);
    for (int i = 0; i < from->nstack; i++)
        h = hash_more(h, (uint64_t)from->stack[i]);
    for (int i = 0; i < from->ndim; i++)
        h = hash_more(h, (uint64_t)from->dim[i]);
    h = hash_more(hash_more(h, place_hash(&from->place)), place_hash(to));
    return (h ^ h >> 15) % SLOTS;
}

double reshard_memo_seconds(ReshardMemo *memo, const Type *from,
                            const Placement *to)
{
    if (place_equal(&from->place, to))
        return 0;
    Slot *s = &memo->slot[memo_slot(from, to)];
    if (!s->used || !type_equal(&s->from, from) || !place_equal(&s->to, to))
        *s = (Slot){true, *from, *to, reshard_seconds(memo->m, from, to)};
    return s->seconds;
}
