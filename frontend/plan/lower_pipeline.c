/* lower_pipeline.c: resolves the clause `pipeline`.
 *
 * before   pipeline pp { schedule=1f1b, split=[layers.0-3, layers.4-7] }
 * after    PlanSpec.pipeline: the axis pp, the schedule, the paths of two stages
 *
 * The pass `stages` finds out whether the stages are in the order of the forward
 * pass and have all layers. Stages do not cut arrays: the elements of several
 * stages stay one loop.
 */
#include "frontend/plan/plan.h"
#include "ir/path.h"

bool lower_stage_paths(Lower *l, const Item *item)
{
    bool known = true, uncut = l->uncut;
    l->uncut = true;
    for (int s = 0; s < item->nstages; s++)
        for (int i = 0; i < item->stage[s].npaths; i++)
            known = lower_path_known(l, &item->stage[s].path[i], false) && known;
    l->uncut = uncut;
    return known;
}

/* The elements of the module that the pattern names: "layers.0-3" of "layers.*". */
static const char *elements(Arena *a, const char *pattern, const char *module)
{
    const char *text = "";
    PathRange r;
    for (int i = 0; i < path_depth(module); i++) {
        size_t size, own;
        const char *at = path_segment(module, i, &size);
        const char *given = path_segment(pattern, i, &own);
        bool numbers = path_range(given, own, &r);
        text = arena_printf(a, "%s%s%.*s", text, i ? "." : "",
                            (int)(numbers ? own : size), numbers ? given : at);
    }
    return text;
}

/* The paths of one stage: of modules, where the plan has patterns. */
static StagePaths resolve_stage(Lower *l, const StageItem *from)
{
    VEC(const char *) path = {0};
    for (int i = 0; i < from->npaths; i++)
        for (int k = 0; k < l->p->module.n; k++) {
            const char *module = l->p->module.at[k].path;
            if (path_overlaps(from->path[i].text, module))
                vec_push(l->arena, &path,
                         elements(l->arena, from->path[i].text, module));
        }
    return (StagePaths){path.at, path.n, from->path[0].loc};
}

static void resolve_stages(Lower *l, const Item *item, Pipeline *to)
{
    if (!lower_stage_paths(l, item))
        return;
    to->split = NEW_ARRAY(l->arena, StagePaths, item->nstages + 1);
    to->nsplit = item->nstages;
    for (int s = 0; s < item->nstages; s++)
        to->split[s] = resolve_stage(l, &item->stage[s]);
}

static void resolve(Lower *l, const PlanItem *planned)
{
    const Clause *c = planned->clause;
    PlanSpec *plan = &l->p->plan;
    int axis = lower_mesh_axis(l, c->axis[0].name);
    if (axis < 0)
        return; /* read_plan reported the axis */
    if (plan->pipeline.axes) {
        diag_twice(l->diag, c->loc, plan->pipeline.loc,
                   "a plan has one pipeline");
        return;
    }
    if (plan->tensor_axes >> axis & 1)
        diag_error(l->diag, c->axis[0].loc, "'%s' is named by parallelize: a "
                   "pipeline needs an axis of its own", c->axis[0].name);
    plan->pipeline = planned->pipeline;
    plan->pipeline.axes = 1u << axis;
    plan->pipeline.loc = c->loc;
    plan->tensor_axes |= 1u << axis;
    resolve_stages(l, planned->item, &plan->pipeline);
}

void lower_pipeline(Lower *l)
{
    for (int i = 0; i < l->planned.n; i++)
        if (l->planned.at[i].clause->kind == CL_PIPELINE)
            resolve(l, &l->planned.at[i]);
}
