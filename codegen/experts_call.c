/* experts_call.c: describes a rank's calls of the ops of a mixture of experts; see
 * experts_call.h. */
#include "codegen/experts_call.h"

#include "codegen/contraction.h"
#include "ir/analysis/expert_items.h"

#include <math.h>

bool op_is_of_experts(OpKind kind)
{
    return op_is_grouped_matmul(kind) || kind == OP_limit_choices || kind == OP_group_rows || kind == OP_gather_rows ||
           kind == OP_combine_rows || kind == OP_gather_pairs || kind == OP_scatter_pairs;
}

ParcChoices choices_call(const Program *p, const Op *op)
{
    const Mesh *m = &p->mesh;
    const Type *kept = &op->out[0]->type;
    return (ParcChoices){.sequences = type_local_dim(kept, m, 0), .length = kept->dim[1],
                         .own = type_local_dim(kept, m, 1),
                         .pieces = op->nargs > 2 ? type_local_dim(&op->arg[2]->type, m, 0) : 1,
                         .k = kept->dim[2], .experts = attr_n(op), .limit = attr_limit(op)};
}

ParcGroups groups_call(const Program *p, const Op *op)
{
    bool groups = op->kind == OP_group_rows;
    const Mesh *m = &p->mesh;
    const Type *pair = &(groups ? op->out[0] : op->arg[1])->type;
    const Type *row = &(groups ? op->out[1] : op->arg[2])->type;
    ParcGroups x = {.g = type_local_dim(pair, m, 0), .h = type_local_dim(pair, m, 1),
                    .k = row->dim[2], .x = type_local_dim(pair, m, 2), .r = pair->dim[3]};
    x.b = type_local_dim(row, m, 0) / x.g;
    x.s = type_local_dim(row, m, 1) / x.h;
    return x;
}

ParcGrouped grouped_call(const Program *p, const Op *op)
{
    const Mesh *m = &p->mesh;
    bool forward = op->kind == OP_grouped_matmul, weight = op->kind == OP_grouped_matmul_grad_weight;
    const Value *rows = forward ? op->arg[0] : weight ? op->arg[1] : op->out[0];
    const Value *y = forward ? op->out[0] : op->arg[0];
    const Type *x = &rows->type, *ends = &op->arg[2]->type;
    return (ParcGrouped){
        .computes = forward  ? PARC_GROUPED_Y
                    : weight ? PARC_GROUPED_WEIGHT
                             : PARC_GROUPED_ROWS,
        .groups = type_local_dim(x, m, 0) * type_local_dim(x, m, 1),
        .x = type_local_dim(x, m, 2), .r = x->dim[3], .experts = ends->dim[3],
        .used = (int64_t)ceil(expert_rows_used(p, op, x->dim[3], x->dim[2])),
        .f = type_local_dim(&y->type, m, 4), .d = type_local_dim(x, m, 4),
        .type = runtime_type(op->arg[0]->type.dtype),
        .out = runtime_type(op->out[0]->type.dtype)};
}

GroupedSizes grouped_sizes(const ParcGrouped *s)
{
    int64_t rows = (s->groups * s->used + s->experts - 1) / s->experts;
    GroupedSizes z = {s->x * s->experts, rows, s->d, s->f};
    if (s->computes == PARC_GROUPED_Y)
        z.n = s->f, z.k = s->d;
    else if (s->computes == PARC_GROUPED_WEIGHT)
        z.m = s->f, z.k = rows;
    return z;
}

int64_t experts_scratch(const Program *p, const Op *op, int threads, ParcCpuLevel level)
{
    if (op->kind == OP_group_rows) {
        const int64_t *shape = attr_shape(op)->v;
        return parc_group_rows_scratch(shape[2], shape[4]);
    }
    if (op->kind == OP_limit_choices) {
        ParcChoices c = choices_call(p, op);
        return parc_limit_choices_scratch(&c);
    }
    if (!op_is_grouped_matmul(op->kind))
        return 0;
    ParcGrouped s = grouped_call(p, op);
    return parc_grouped_scratch(&s, threads, level);
}
