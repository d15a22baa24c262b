/* expert_items.h: what the items of the clause `expert_parallel` say about ops. */
#ifndef PARC_IR_ANALYSIS_EXPERT_ITEMS_H
#define PARC_IR_ANALYSIS_EXPERT_ITEMS_H

#include "ir/ir.h"

/* The item that names the module of an op which moves or multiplies rows of experts; NULL: the
 * plan has no items. */
const ExpertItem *expert_item(const Program *p, const Op *op);
/* Of the `rows` rows that such an op has for one of `shards` shards of the experts in a group,
 * those that have a pair if all shards get equally many. */
double expert_rows_used(const Program *p, const Op *op, int64_t rows, int64_t shards);

#endif
