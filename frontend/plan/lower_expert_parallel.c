/* lower_expert_parallel.c: resolves the clause `expert_parallel`.
 *
 * before   expert_parallel ep { layers.*.moe: dispatch=gather }
 * after    PlanSpec.experts: the axis ep, and DISPATCH_GATHER for "layers.*.moe";
 *          PlanSpec.style: Shard(0) on ep for the weights of grouped_matmul there
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

/* The style that places the parameter on one of the axes; NULL: none. */
static const Style *placed(const PlanSpec *plan, const Param *q, uint32_t axes)
{
    for (int i = 0; i < plan->nstyles; i++)
        if (plan->style[i].kind == STYLE_PARAMETER && axes >> plan->style[i].axis & 1 &&
            strcmp(plan->style[i].path, q->name) == 0)
            return &plan->style[i];
    return NULL;
}

/* Splits a weight, which parallelize may place on these axes: only by experts. */
static void place_weight(Lower *l, const Param *q, uint32_t axes, Loc loc)
{
    const Style *s = placed(&l->p->plan, q, axes);
    if (!s) {
        split_weight(l, q, axes, loc);
        return;
    }
    int dim = s->in_to[0].dim;
    if (s->in_to[0].kind == LAYOUT_SHARD && (dim == 0 || dim == -q->type.ndim))
        return;
    diag_error(l->diag, s->loc, "%s splits the experts of '%s' over '%s'",
               clause_name(CL_EXPERT_PARALLEL), q->name, l->p->mesh.name[s->axis]);
    diag_note(l->diag, loc, "it is named here");
    diag_help(l->diag, "remove the line of the parameter, or split it over another axis");
}

/* Warns of a weight that parallelize splits by experts too: only the axes of expert_parallel
 * divide the rows, so that every rank of the other axis needs all experts of the shard. */
static void advise_axis(Lower *l, const Param *q, uint32_t axes)
{
    const PlanSpec *plan = &l->p->plan;
    const Mesh *m = &l->p->mesh;
    for (int i = 0; i < plan->nstyles; i++) {
        const Style *s = &plan->style[i];
        bool shard = s->kind == STYLE_PARAMETER && s->in_to[0].kind == LAYOUT_SHARD &&
                     (s->in_to[0].dim == 0 || s->in_to[0].dim == -q->type.ndim);
        if (!shard || axes >> s->axis & 1 || m->size[s->axis] == 1 ||
            strcmp(s->path, q->name) != 0)
            continue;
        diag_warning(l->diag, s->loc, "each rank of '%s' gathers the experts of '%s': it "
                     "multiplies the rows of all of them", m->name[s->axis], q->name);
        diag_help(l->diag, "name the axis in %s, or split the weight along another dim",
                  clause_name(CL_EXPERT_PARALLEL));
    }
}

static void add_path(Lower *l, ExpertItem *item, const char *path)
{
    for (int i = 0; i < item->npaths; i++)
        if (strcmp(item->path[i], path) == 0)
            return;
    const char **all = NEW_ARRAY(l->arena, const char *, item->npaths + 1);
    for (int i = 0; i < item->npaths; i++)
        all[i] = item->path[i];
    all[item->npaths++] = path;
    item->path = all;
}

/* How the tokens of the module reach its experts. Another one may have grouped the rows: the
 * one around it, as a rule. */
static Dispatch dispatch_of(const Lower *l, const PlanItem *planned, const char *path)
{
    for (const char *at = path;; at = path_parent(l->arena, at)) {
        for_ops(op, l->p->step)
            if (op->kind == OP_group_rows && strcmp(op->path, at) == 0) {
                Choices c = group_choices(op);
                return lower_expert_dispatch(l, planned, &c);
            }
        if (!*at)
            return lower_expert_dispatch(l, planned, &(Choices){.length = 1, .k = 1});
    }
}

/* Splits the weights of the experts of an item's modules, and lists these by their dispatch. A
 * weight may reach the product as a view or a transpose of the parameter. */
static void split_experts(Lower *l, const PlanItem *planned, ExpertItem *to, uint32_t axes)
{
    Program *p = l->p;
    for_ops(op, p->step) {
        if (op->kind != OP_grouped_matmul || lower_expert_item(l, op->path) != planned)
            continue;
        add_path(l, &to[dispatch_of(l, planned, op->path)], op->path);
        const Value *v = parameter_of(op->arg[1]);
        const Param *q = v ? &p->param.at[attr_param(v->def)] : NULL;
        if (q && q->type.dim[0] == op->arg[1]->type.dim[0])
            place_weight(l, q, axes, planned->item->loc);
        if (q)
            advise_axis(l, q, axes);
    }
}

/* An earlier item that names a module of this one, where experts are called; NULL: none. */
static const PlanItem *named_before(Lower *l, const PlanItem *planned)
{
    for_ops(op, l->p->step) {
        const PlanItem *first = op->kind == OP_grouped_matmul
                                    ? lower_expert_item(l, op->path) : NULL;
        if (first && first < planned && lower_item_names(l, planned->item, op->path))
            return first;
    }
    return NULL;
}

static void report_no_experts(Lower *l, const PlanItem *planned)
{
    const PlanItem *first = named_before(l, planned);
    if (first) {
        diag_twice(l->diag, planned->item->loc, first->item->loc,
                   "an earlier item names the experts of these modules");
        return;
    }
    diag_error(l->diag, planned->item->loc, "no expert is called here: none of these "
               "modules calls grouped_matmul");
    diag_help(l->diag, "name modules such as MoE: 'layers.*.moe', or 'every MoE'");
}

static bool item_known(Lower *l, const Item *item)
{
    bool known = !item->class_name || lower_class_known(l, item);
    for (int i = 0; i < item->npaths; i++)
        known = lower_path_known(l, &item->path[i], false) && known;
    return known;
}

/* The clause; NULL: there is none, or an error. */
static const Clause *the_clause(Lower *l)
{
    const Clause *found = NULL;
    for (int i = 0; l->plan && i < l->plan->nclauses; i++) {
        const Clause *c = &l->plan->clause[i];
        if (c->kind != CL_EXPERT_PARALLEL)
            continue;
        if (found) {
            diag_twice(l->diag, c->loc, found->loc, "a plan has one clause %s",
                       clause_name(CL_EXPERT_PARALLEL));
            return NULL;
        }
        found = c;
    }
    if (found && !found->nitems) {
        diag_error(l->diag, found->loc, "%s names no module", clause_name(CL_EXPERT_PARALLEL));
        diag_help(l->diag, "name those that call experts: 'layers.*.moe', or 'every MoE'");
        return NULL;
    }
    return found;
}

void lower_expert_parallel(Lower *l)
{
    Experts *to = &l->p->plan.experts;
    const Clause *c = the_clause(l);
    if (!c)
        return;
    uint32_t axes = lower_clause_axes(l, CL_EXPERT_PARALLEL) & ((1u << l->p->mesh.n) - 1);
    if (axes & l->p->plan.pipeline.axes) {
        diag_error(l->diag, c->loc, "%s needs axes that are not those of %s",
                   clause_name(CL_EXPERT_PARALLEL), clause_name(CL_PIPELINE));
        return;
    }
    to->axes = axes;
    to->item = NEW_ARRAY(l->arena, ExpertItem, 2 * c->nitems);
    for (int i = 0; i < l->planned.n; i++) {
        const PlanItem *planned = &l->planned.at[i];
        if (planned->clause != c || !item_known(l, planned->item))
            continue;
        ExpertItem by[] = {planned->experts, planned->experts};
        by[DISPATCH_GATHER].dispatch = DISPATCH_GATHER;
        by[DISPATCH_ALL_TO_ALL].dispatch = DISPATCH_ALL_TO_ALL;
        split_experts(l, planned, by, axes);
        int before = to->nitems;
        for (int k = 0; k < 2; k++)
            if (by[k].npaths) {
                by[k].loc = planned->item->loc;
                to->item[to->nitems++] = by[k];
            }
        /* Errors of the model may leave out calls of experts. */
        if (to->nitems == before && !diag_error_count(l->diag))
            report_no_experts(l, planned);
    }
}
