/* lower_parallelize.c: resolves the plan's `parallelize` clauses against the
 * modules and parameters of the model.
 *
 * A pattern that matches several modules gives each of them a style. If several
 * patterns match a module, the most specific one applies.
 *
 * before   parallelize tp { layers.*.wq: ColwiseParallel }
 * after    PlanSpec.style: ColwiseParallel, "layers.*.wq", axis tp,
 *          in (R -> R), out (S(-1) -> S(-1))
 */
#include <string.h>

#include "frontend/plan/plan.h"
#include "ir/plan/styles.h"

/* A style that an item gives to a module, or the placement of a parameter. */
typedef struct Match {
    Style style;
    int index; /* index of the module or parameter */
    int specificity; /* of the item's pattern (path_specificity) */
    const Item *item;
} Match;

typedef VEC(Match) Matches;

/* Whether two styles exclude each other: both concern one module on one axis,
 * and both its inputs or both its outputs; or both place one parameter. */
static bool styles_clash(const Style *a, const Style *b)
{
    bool both = a->kind == STYLE_PARAMETER && b->kind == STYLE_PARAMETER;
    return a->axis == b->axis && strcmp(a->path, b->path) == 0 &&
           (both || (style_sides(a->kind) & style_sides(b->kind)));
}

static void remove_match(Matches *list, int i)
{
    size_t rest = (size_t)(--list->n - i);
    memmove(&list->at[i], &list->at[i + 1], rest * sizeof *list->at);
}

static void add_match(Lower *l, Matches *list, const Match *c)
{
    const Style *s = &c->style;
    for (int i = 0; i < list->n; i++) {
        const Match *other = &list->at[i];
        if (!styles_clash(&other->style, s) ||
            other->specificity < c->specificity)
            continue;
        if (other->specificity > c->specificity)
            return;
        diag_twice(l->diag, s->loc, other->style.loc,
                   "'%s' has two styles on axis '%s'",
                   *s->path ? s->path : "model", l->p->mesh.name[s->axis]);
        return;
    }
    for (int i = list->n - 1; i >= 0; i--)
        if (styles_clash(&list->at[i].style, s))
            remove_match(list, i);
    vec_push(l->arena, list, *c);
}

/* Adds the item's style for one module or parameter. */
static void take_path(Lower *l, Matches *list, const Match *like,
                      const char *path, int index)
{
    Match c = *like;
    c.style.path = path;
    c.index = index;
    add_match(l, list, &c);
}

static bool matches_param(const char *pattern, const Param *q)
{
    bool matches = path_matches_first(pattern, q->name);
    for (int i = 0; i < q->nalias; i++)
        matches = matches || path_matches_first(pattern, q->alias[i]);
    return matches;
}

/* The name of the first parameter in a module that the pattern matches, after
 * the module's path; NULL if there is none. */
static const char *param_below(const Lower *l, const char *pattern)
{
    int depth = path_depth(pattern);
    for (int i = 0; i < l->p->param.n; i++) {
        const char *name = l->p->param.at[i].name;
        size_t size;
        if (path_depth(name) <= depth)
            continue;
        const char *rest = path_segment(name, depth, &size);
        size_t above = depth ? (size_t)(rest - name - 1) : 0;
        if (path_matches_first(pattern, arena_strndup(l->arena, name, above)))
            return rest;
    }
    return NULL;
}

static void names_module(Lower *l, const Path *path, const char *style)
{
    const char *below = param_below(l, path->text);
    diag_error(l->diag, path->loc, "'%s' is a module: '%s' places a parameter",
               *path->text ? path->text : "model", style);
    if (below)
        diag_help(l->diag, "name a parameter, as in '%s%s%s: %s'", path->text,
                  *path->text ? "." : "", below, style_find(style)->form);
}

static void find_params(Lower *l, const Path *path, const Match *like,
                        Matches *list)
{
    bool found = false;
    for (int i = 0; i < l->p->param.n; i++) {
        const Param *q = &l->p->param.at[i];
        if (!matches_param(path->text, q))
            continue;
        take_path(l, list, like, q->name, i);
        found = true;
    }
    if (found)
        return;
    names_module(l, path, like->item->style);
}

static void find_matches(Lower *l, const Item *item, const Path *path,
                         const StyleInfo *info, int axis, Matches *list)
{
    bool param = info->kind == STYLE_PARAMETER;
    Match like = {.specificity = path_specificity(path->text), .item = item,
                  .style = {.kind = info->kind, .axis = axis,
                            .loc = item->style_loc}};
    if (!lower_path_known(l, path, param))
        return;
    if (param)
        find_params(l, path, &like, list);
    for (int i = 0; i < l->p->module.n && !param; i++)
        if (path_matches_first(path->text, l->p->module.at[i].path))
            take_path(l, list, &like, l->p->module.at[i].path, i);
}

static void resolve_clause(Lower *l, const Clause *c, Matches *list)
{
    int axis = lower_mesh_axis(l, c->axis[0].name);
    if (axis < 0)
        return; /* read_plan reported the axis */
    l->p->plan.tensor_axes |= 1u << axis;
    for (int i = 0; i < c->nitems; i++) {
        const Item *item = &c->item[i];
        const StyleInfo *info = item->style ? style_find(item->style) : NULL;
        for (int j = 0; j < item->npaths && info; j++)
            find_matches(l, item, &item->path[j], info, axis, list);
    }
}

/* An item that fails for several modules is reported once. */
static void lower_matches(Lower *l, Matches *list)
{
    PlanSpec *plan = &l->p->plan;
    VEC(const Item *) failed = {0};
    plan->style = NEW_ARRAY(l->arena, Style, list->n + 1);
    for (int i = 0; i < list->n; i++) {
        Match *c = &list->at[i];
        if (vec_has(&failed, c->item))
            continue;
        bool fine = c->style.kind == STYLE_PARAMETER
                        ? lower_placement(l, c->item, c->index, &c->style)
                        : lower_style(l, c->item, c->index, &c->style);
        if (fine)
            plan->style[plan->nstyles++] = c->style;
        else
            vec_push(l->arena, &failed, c->item);
    }
}

/* An axis that `parallelize` names does not split the batch: without a style
 * its ranks repeat the same work. */
static void warn_unstyled(Lower *l, const PlanDecl *decl,
                          const PlanSpec *plan)
{
    for (int i = 0; i < decl->nclauses; i++) {
        const Clause *c = &decl->clause[i];
        int axis = c->kind == CL_PARALLELIZE
                       ? lower_mesh_axis(l, c->axis[0].name) : -1;
        bool styled = axis < 0 || l->p->mesh.size[axis] == 1;
        for (int k = 0; k < plan->nstyles; k++)
            styled = styled || plan->style[k].axis == axis;
        if (styled)
            continue;
        diag_warning(l->diag, c->axis[0].loc, "no style is given for axis "
                     "'%s': its %lld ranks all do the same work",
                     c->axis[0].name, (long long)l->p->mesh.size[axis]);
        diag_help(l->diag, "without the clause the axis splits the batch");
    }
}

void lower_parallelize(Lower *l, const PlanDecl *decl)
{
    Matches list = {0};
    for (int i = 0; i < decl->nclauses; i++)
        if (decl->clause[i].kind == CL_PARALLELIZE)
            resolve_clause(l, &decl->clause[i], &list);
    lower_matches(l, &list);
    if (diag_error_count(l->diag) == 0)
        warn_unstyled(l, decl, &l->p->plan);
}
