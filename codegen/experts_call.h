/* experts_call.h: describes a rank's calls of the ops of a mixture of experts. */
#ifndef PARC_CODEGEN_EXPERTS_CALL_H
#define PARC_CODEGEN_EXPERTS_CALL_H

#include "ir/ir.h"
#include "runtime/parc_experts.h"

/* Whether the op limits choices, groups tokens, moves them to rows, or multiplies the rows of
 * experts. */
bool op_is_of_experts(OpKind kind);

/* The choices that the op limit_choices reads. */
ParcChoices choices_call(const Program *p, const Op *op);
/* The groups of an op that has pairs and rows; the product of an op that multiplies. */
ParcGroups groups_call(const Program *p, const Op *op);
ParcGrouped grouped_call(const Program *p, const Op *op);
/* The products of a grouped product by the sizes of a matmul, one for each expert, if all
 * shards have the same number of rows. A shard has a row for every choice of a group. */
typedef struct GroupedSizes {
    int64_t batch, m, n, k;
} GroupedSizes;
GroupedSizes grouped_sizes(const ParcGrouped *s);

/* The scratch bytes on a CPU, 0 for other ops. */
int64_t experts_scratch(const Program *p, const Op *op, int threads, ParcCpuLevel level);

#endif
