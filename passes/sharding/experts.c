/* experts.c: splits experts over the axes of `expert_parallel`; see experts.h. */
#include "passes/sharding/experts.h"

#include "ir/analysis/expert_items.h"
#include "ir/analysis/producer.h"
#include "ir/options.h"
#include "ir/plan/user_axes.h"

/* Dims of rows [g, h, x, r, d]; tokens begin with dims g b and h s. */
enum { BATCHES, SEQUENCES, SHARDS };

/* The factor of the first operand's dim; -1: there is none, or axes do not divide it. */
static int major_factor(const Program *p, const Rule *r, int dim, uint32_t axes)
{
    const DimFactors *d = &r->dim[0][dim];
    return d->n && r->factor[d->f[0]].size % mesh_group(&p->mesh, axes) == 0 ? d->f[0] : -1;
}

/* The factor of groups of tokens, which the axis splits where tokens are exchanged. */
static int group_factor(const Program *p, const Op *op, const Rule *r, int axis)
{
    const ExpertItem *item = expert_item(p, op);
    uint32_t sequences = p->plan.context.axes | p->plan.tensor_axes;
    if (!item || item->dispatch != DISPATCH_ALL_TO_ALL)
        return -1;
    bool sequence = sequences >> axis & 1;
    return major_factor(p, r, sequence ? SEQUENCES : BATCHES,
                        p->plan.experts.axes & (sequence ? sequences : ~sequences));
}

int experts_factor(const Program *p, const Op *op, const Rule *r, int axis)
{
    if (!experts_exchange(p, op, axis))
        return -1;
    return op_is_grouped_matmul(op->kind)
               ? major_factor(p, r, SHARDS, p->plan.experts.axes)
               : group_factor(p, op, r, axis);
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
