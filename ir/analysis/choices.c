/* choices.c: computes the rows that choices of experts can need; see choices.h. */
#include "ir/analysis/choices.h"

Choices group_choices(const Op *group)
{
    const int64_t *shape = attr_shape(group)->v, *ids = group->arg[0]->type.dim;
    return (Choices){.batch = ids[0], .length = ids[1], .k = ids[2], .g = shape[0], .h = shape[1],
                     .shards = shape[2], .experts = shape[4], .limit = attr_limit(group)};
}

int64_t choices_pairs(const Choices *c)
{
    return c->batch / c->g * (c->length / c->h) * c->k;
}

int64_t choices_most_rows(const Choices *c)
{
    int64_t pairs = choices_pairs(c);
    double most = (double)c->limit * (double)c->experts * (double)(c->batch / c->g);
    return c->limit > 0 && most < (double)pairs ? (int64_t)most : pairs;
}

double choices_capacity(const Choices *c)
{
    return (double)c->limit * (double)(c->shards * c->experts) / (double)(c->length * c->k);
}

int64_t group_rounds(const Op *group)
{
    Choices c = group_choices(group);
    int64_t rows = attr_shape(group)->v[3];
    return (choices_most_rows(&c) + rows - 1) / rows;
}
