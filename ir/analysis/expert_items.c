/* expert_items.c: finds the items of the clause `expert_parallel`; see expert_items.h. */
#include "ir/analysis/expert_items.h"

#include <string.h>

const ExpertItem *expert_item(const Program *p, const Op *op)
{
    const Experts *all = &p->plan.experts;
    for (int i = 0; i < all->nitems; i++)
        for (int k = 0; k < all->item[i].npaths; k++)
            if (strcmp(all->item[i].path[k], op->path) == 0)
                return &all->item[i];
    return all->item; /* an op that a pass has joined with one of another module */
}

/* Without a bound a shard has a row for every choice of a group. */
double expert_rows_used(const Program *p, const Op *op, int64_t rows, int64_t shards)
{
    const ExpertItem *item = expert_item(p, op);
    bool bounded = item && item->buffer > 0 && item->buffer < (double)shards;
    return (double)rows / (bounded ? item->buffer : (double)shards);
}
