/* expert_groups.h: declares the arguments of the kernels that move the tokens of a mixture of
 * experts, a rank's part as in ParcGroups (parc_experts.h), and finds elements of it. */
#ifndef PARC_EXPERT_GROUPS_H
#define PARC_EXPERT_GROUPS_H

#include "copy_tools.h"

#define GROUP_SHAPE                                                                           \
    int64_t g, int64_t h, int64_t b, int64_t s, int64_t k, int64_t x, int64_t r
/* The ones by which a pair is found. */
#define GROUP_ARGUMENTS h, b, s, k

/* The index in [g b, h s, k] of a pair of a group. */
PARC_DEVICE int64_t group_pair_at(int64_t group, int64_t pair, int64_t h, int64_t b, int64_t s,
                                  int64_t k)
{
    int64_t of_h = copy_digit(&group, h), choice = copy_digit(&pair, s * k);
    return ((group * b + pair) * h + of_h) * s * k + choice;
}

/* The group of element i of [g b, h s]. */
PARC_DEVICE int64_t group_of(int64_t i, int64_t h, int64_t b, int64_t s)
{
    copy_digit(&i, s);
    int64_t of_h = copy_digit(&i, h);
    return i / b * h + of_h;
}

#endif
