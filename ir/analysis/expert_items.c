/* expert_items.c: finds the items of the clause `expert_parallel`; see expert_items.h. */
#include "ir/analysis/expert_items.h"

#include <string.h>

#include "ir/analysis/choices.h"

const ExpertItem *expert_item(const Program *p, const Op *op)
{
    const Experts *all = &p->plan.experts;
    for (int i = 0; i < all->nitems; i++)
        for (int k = 0; k < all->item[i].npaths; k++)
            if (strcmp(all->item[i].path[k], op->path) == 0)
                return &all->item[i];
    return all->item; /* an op that a pass has joined with one of another module */
}

/* The op that groups the rows of the module of op, or of another one if a pass has joined op with
 * one of that; NULL: none does. */
static const Op *group_of(const Program *p, const Op *op)
{
    const Op *other = NULL;
    for_ops(group, p->step) {
        if (group->kind != OP_group_rows)
            continue;
        if (strcmp(group->path, op->path) == 0)
            return group;
        other = group;
    }
    return other;
}

double expert_rows_used(const Program *p, const Op *op, int64_t rows, int64_t shards)
{
    const Op *group = group_of(p, op);
    if (!group)
        return (double)rows / (double)shards;
    Choices c = group_choices(group);
    double had = (double)attr_shape(group)->v[3];
    double balanced = (double)choices_pairs(&c) / (double)c.shards;
    return (double)rows * (balanced < had ? balanced / had : 1);
}
