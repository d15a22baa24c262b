/* lower_expert_parallel.c: resolves the clause `expert_parallel`.
 *
 * before   expert_parallel ep { layers.*.moe: dispatch=gather }
 * after    PlanSpec.experts: the axis ep, DISPATCH_GATHER; PlanSpec.style: Shard(0)
 *          on ep for the weights of grouped_matmul in "layers.*.moe"
 *
 * frontend/lower/expert_groups.c has grouped the rows of experts for these axes.
 */
#include <string.h>

#include "frontend/plan/plan.h"
#include "ir/analysis/producer.h"

static void split_weight(Lower *l, const Param *q, uint32_t axes, Loc loc)
{
    PlanSpec *plan = &l->p->plan;
    for (int a = 0; a < l->p->mesh.n; a++) {
        if (!(axes >> a & 1))
            continue;
        Style *all = NEW_ARRAY(l->arena, Style, plan->nstyles + 1);
        if (plan->nstyles)
            memcpy(all, plan->style, sizeof *all * (size_t)plan->nstyles);
        all[plan->nstyles++] = (Style){.kind = STYLE_PARAMETER, .path = q->name, .axis = a,
                                       .nin = 1, .in_from = {layout_shard(0)},
                                       .in_to = {layout_shard(0)}, .loc = loc};
        plan->style = all;
    }
}

static bool has_style(const PlanSpec *plan, const Param *q, uint32_t axes)
{
    for (int i = 0; i < plan->nstyles; i++)
        if (plan->style[i].kind == STYLE_PARAMETER && axes >> plan->style[i].axis & 1 &&
            strcmp(plan->style[i].path, q->name) == 0)
            return true;
    return false;
}

/* Splits the weights of the experts of an item's modules; false: it has none. */
static bool split_experts(Lower *l, const PlanItem *planned, uint32_t axes)
{
    Program *p = l->p;
    bool found = false;
    for_ops(op, p->step) {
        int param = op->kind == OP_grouped_matmul ? value_param(op->arg[1]) : -1;
        if (param < 0 || lower_expert_item(l, op->path) != planned)
            continue;
        found = true;
        if (!has_style(&p->plan, &p->param.at[param], axes))
            split_weight(l, &p->param.at[param], axes, planned->item->loc);
    }
    return found;
}

static bool item_known(Lower *l, const Item *item)
{
    bool known = !item->class_name || lower_class_known(l, item);
    for (int i = 0; i < item->npaths; i++)
        known = lower_path_known(l, &item->path[i], false) && known;
    return known;
}

void lower_expert_parallel(Lower *l)
{
    Experts *to = &l->p->plan.experts;
    uint32_t axes = lower_clause_axes(l, CL_EXPERT_PARALLEL) & ((1u << l->p->mesh.n) - 1);
    for (int i = 0; i < l->planned.n; i++) {
        const PlanItem *planned = &l->planned.at[i];
        const Clause *c = planned->clause;
        if (c->kind != CL_EXPERT_PARALLEL || !item_known(l, planned->item))
            continue;
        if (to->axes && to->loc.line != c->loc.line) {
            diag_twice(l->diag, c->loc, to->loc, "a plan has one clause %s",
                       clause_name(CL_EXPERT_PARALLEL));
            return;
        }
        if (axes & l->p->plan.pipeline.axes) {
            diag_error(l->diag, c->loc, "%s needs axes that are not those of %s",
                       clause_name(CL_EXPERT_PARALLEL), clause_name(CL_PIPELINE));
            return;
        }
        *to = planned->experts;
        to->axes = axes;
        to->loc = c->loc;
        if (!split_experts(l, planned, axes)) {
            diag_error(l->diag, planned->item->loc, "no expert is called here: none of these "
                       "modules calls grouped_matmul");
            diag_help(l->diag, "name modules such as MoE: 'layers.*.moe', or 'every MoE'");
        }
    }
}
