/* experts.c: splits experts over the axes of `expert_parallel`; see experts.h. */
#include "passes/sharding/experts.h"

#include "ir/analysis/producer.h"
#include "ir/options.h"
#include "ir/plan/user_axes.h"

enum { SHARDS = 2 }; /* the dim of rows [g, h, x, r, d] */

int experts_factor(const Program *p, const Op *op, const Rule *r, int axis)
{
    if (!op_is_grouped_matmul(op->kind) || !(p->plan.experts.axes >> axis & 1))
        return -1;
    const DimFactors *d = &r->dim[0][SHARDS]; /* no factor: one shard */
    return d->n ? d->f[0] : -1;
}

bool experts_exchange(const Program *p, const Op *op, int axis)
{
    switch ((int)op->kind) {
    case OP_group_rows: case OP_gather_rows: case OP_combine_rows:
    case OP_gather_pairs: case OP_scatter_pairs:
        return p->plan.experts.axes >> axis & 1;
    }
    return op_is_grouped_matmul(op->kind) && p->plan.experts.axes >> axis & 1;
}

const Op *experts_made(const Program *p, const Value *v, int axis)
{
    enum { MOST_STEPS = 16 };
    for (int i = 0; i < MOST_STEPS && v->def && !v->def->body; i++) {
        if (experts_exchange(p, v->def, axis))
            return v->def;
        if (v->def->nargs == 0 || !(op_is_elementwise(v->def->kind) ||
                                    op_passes_on(v->def)))
            return NULL;
        v = v->def->arg[0];
    }
    return NULL;
}

const char *experts_text(const Program *p, const ExpertItem *item)
{
    return arena_printf(p->arena, "%s %s: %s=%s", clause_name(CL_EXPERT_PARALLEL),
                        user_axes_text(p, p->plan.experts.axes), option_name(OPTION_dispatch),
                        option_word(OPTION_dispatch, item->dispatch));
}
