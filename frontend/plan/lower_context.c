/* lower_context.c: resolves the clause `context`.
 *
 * before   context cp { attention: exchange=heads }
 * after    PlanSpec.context: the axis cp, EXCHANGE_HEADS
 *
 * The axis splits dim 1 of the inputs (pass plan), where any other axis that no
 * `parallelize` names splits dim 0. Whether the sequence and the heads can be split
 * is known when the sizes are: in the pass plan.
 */
#include "frontend/plan/plan.h"

static void resolve(Lower *l, const Clause *c, const Context *given)
{
    Context *to = &l->p->plan.context;
    int axis = lower_mesh_axis(l, c->axis[0].name);
    if (axis < 0)
        return; /* read_plan reported the axis */
    if (to->axes) {
        diag_twice(l->diag, c->loc, to->loc, "a plan has one clause %s",
                   clause_name(CL_CONTEXT));
        return;
    }
    if (l->p->plan.tensor_axes >> axis & 1) {
        bool pipeline = l->p->plan.pipeline.axes >> axis & 1;
        diag_error(l->diag, c->axis[0].loc, "'%s' is named by %s: %s needs an axis of "
                   "its own", c->axis[0].name,
                   clause_name(pipeline ? CL_PIPELINE : CL_PARALLELIZE),
                   clause_name(CL_CONTEXT));
        return;
    }
    if (given)
        *to = *given;
    to->axes = 1u << axis;
    to->loc = c->loc;
}

void lower_context(Lower *l, const PlanDecl *plan)
{
    const PlanItem *planned = l->planned.at;
    for (int i = 0; i < plan->nclauses; i++) {
        const Clause *c = &plan->clause[i];
        if (c->kind == CL_CONTEXT)
            resolve(l, c, c->nitems ? &planned->context : NULL);
        planned += c->nitems;
    }
}
