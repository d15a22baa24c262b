/* experts.h: how the axes of the clause `expert_parallel` split experts.
 *
 * The rows of experts are [g, h, x, r, d]: those of x shards of the experts, for g x h
 * groups of tokens (frontend/lower/expert_groups.c). Each rank multiplies the rows
 * of its experts:
 *
 *   weight  f32[64/ep, 1024, 256]
 *   rows    f32[8/dp, 1, 8/ep, 512, 256] -> grouped_matmul -> f32[8/dp, 1, 8/ep, 512, 1024]
 *
 * With dispatch=gather the ops that group and gather rows have x split too, and
 * combine_rows gives shares of sums. With dispatch=all_to_all they have g split over the same
 * axes, so that an all-to-all changes the split from g to x, and back:
 *
 *   rows    f32[64/(dp·ep), 1, 8, 64, 256] -> all_to_all -> f32[64/dp, 1, 8/ep, 64, 256]
 */
#ifndef PARC_PASSES_SHARDING_EXPERTS_H
#define PARC_PASSES_SHARDING_EXPERTS_H

#include "ir/rules/rules.h"

/* The factor that the axis must split: in a multiplication by experts that of the shards, so
 * that no rank gathers the weights of others; where tokens are exchanged, in ops that group
 * and move rows, that of the groups, so that no rank gathers tokens. -1: op has a choice. */
int experts_factor(const Program *p, const Op *op, const Rule *r, int axis);
/* Whether op moves rows of experts that the axis splits. */
bool experts_exchange(const Program *p, const Op *op, int axis);
/* The op of these that made v, or that from which elementwise ops and views made v; NULL: none
 * did. */
const Op *experts_made(const Program *p, const Value *v, int axis);
/* "expert_parallel ep: dispatch=gather" */
const char *experts_text(const Program *p, const ExpertItem *item);

#endif
