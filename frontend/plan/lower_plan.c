/* lower_plan.c: selects the plan, and resolves its `fully_shard` clauses
 * against the modules of the model.
 *
 * A plan names modules by patterns; only lowering knows which modules exist and
 * how large they are.
 *
 * before   fully_shard dp { layers.*: prefetch=2 }
 * after    PlanSpec.unit: axes {dp}, paths {"layers.*"}, prefetch 2
 *
 * lower_parallelize.c, lower_freeze.c and lower_checkpoint.c resolve other
 * clauses. Without a plan, the first mesh axis splits the batch.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"
#include "ir/plan/items.h"
#include "ir/plan/styles.h"
#include "ir/units.h"

/* ---- the selected plan --------------------------------------------------- */

static void list_plans(Lower *l, NameList *names)
{
    names->arena = l->arena;
    for (int i = 0; i < l->file->nplans; i++)
        names_add(names, l->file->plan[i]->name.name,
                  l->file->plan[i]->name.loc);
    for (int i = 0; i < l->file->nignored; i++)
        names_add(names, l->file->ignored[i].name, l->file->ignored[i].loc);
}

static void help_plans(Lower *l)
{
    const char *all = "";
    for (int i = 0; i < l->file->nplans; i++)
        all = arena_printf(l->arena, "%s%s%s", all, i ? ", " : "",
                           l->file->plan[i]->name.name);
    if (*all)
        diag_help(l->diag, "its plans: %s", all);
    else if (l->file->nignored > 0)
        diag_help(l->diag, "its plans have syntax errors");
    else
        diag_help(l->diag, "it has no plans: omit --plan");
}

const PlanDecl *lower_choose_plan(Lower *l, bool *fault)
{
    const char *want = l->options->plan;
    const PlanDecl *plan = file_find_plan(l->file, want);
    if (plan)
        return plan;
    *fault = want || l->file->nplans > 1;
    if (want) {
        NameList names = {0};
        list_plans(l, &names);
        diag_error(l->diag, l->options->plan_loc,
                   "the file has no plan '%s'", want);
        names_suggest(l->diag, &names, want);
        help_plans(l);
    } else if (l->file->nplans > 1) {
        diag_twice(l->diag, l->file->plan[1]->name.loc,
                   l->file->plan[0]->name.loc, "the file has %d plans: --plan "
                   "NAME chooses one", l->file->nplans);
        help_plans(l);
    }
    return *fault || l->file->nplans == 0 ? NULL : l->file->plan[0];
}

/* ---- units --------------------------------------------------------------- */

typedef VEC(Unit) UnitList;

static bool large_enough(Lower *l, const Item *item, int64_t least)
{
    int64_t most = 0;
    for (int i = 0; i < l->p->module.n; i++) {
        int64_t n = module_elements(l->p, &l->p->module.at[i]);
        most = n > most ? n : most;
    }
    if (most >= least)
        return true;
    diag_error(l->diag, item->loc, "no module has %lld parameters or more",
               (long long)least);
    return diag_help(l->diag, "the largest module has %lld", (long long)most);
}

static bool unit_paths(Lower *l, const Item *item, const UnitList *list,
                       Unit *u)
{
    const char **path = NEW_ARRAY(l->arena, const char *, item->npaths);
    bool fine = true;
    for (int i = 0; i < item->npaths; i++) {
        path[i] = item->path[i].text;
        const char *name = *path[i] ? path[i] : "model";
        Loc loc = item->path[i].loc;
        bool found = lower_path_known(l, &item->path[i], false);
        fine &= found;
        const Path *first = row_find(item->path, i, path[i]);
        if (first) {
            fine = diag_twice(l->diag, loc, first->loc, "'%s' is named twice",
                              name);
            continue;
        }
        for (int j = 0; j < list->n && found; j++)
            if (row_find(list->at[j].path, list->at[j].npaths, path[i]))
                fine = diag_twice(l->diag, loc, list->at[j].loc,
                                  "'%s' is in two units", name);
    }
    u->path = path;
    u->npaths = item->npaths;
    return fine;
}

/* Whether an item takes any module that no item before it takes. Items of one
 * class, or of a smaller or equal size, take all of them. */
static bool leaves_some(Lower *l, const Unit *u, const UnitList *list)
{
    for (int i = 0; i < list->n; i++) {
        const Unit *other = &list->at[i];
        if (other->kind != u->kind)
            continue;
        if (u->kind == UNIT_EVERY && strcmp(other->class, u->class) == 0)
            return diag_twice(l->diag, u->loc, other->loc, "'every %s' is in "
                              "two items of fully_shard", u->class);
        if (u->kind == UNIT_MIN_PARAMS && u->min_params >= other->min_params)
            return diag_twice(l->diag, u->loc, other->loc, "no module remains "
                              "for min_params=%lld", (long long)u->min_params);
    }
    return true;
}

/* With two axes the first one replicates, unless the strategy shards over both.
 */
static bool shards_over_all(Strategy s)
{
    return s == STRATEGY_FULL_SHARD || s == STRATEGY_SHARD_GRAD_OP ||
           s == STRATEGY_NO_SHARD;
}

static void resolve_unit(Lower *l, const PlanItem *planned, int axis,
                         int replicate, UnitList *list)
{
    const Item *item = planned->item;
    Unit u = planned->unit;
    u.axes = 1u << axis;
    u.replicate_axis = replicate;
    u.loc = item->loc;
    if (replicate >= 0 && shards_over_all(u.strategy)) {
        u.axes |= 1u << replicate;
        u.replicate_axis = -1;
    }
    bool fine = true;
    if (item->class_name) {
        u.kind = UNIT_EVERY;
        u.class = item->class_name;
        fine = lower_class_known(l, item) && leaves_some(l, &u, list);
    } else if (item->min_params) {
        u.kind = UNIT_MIN_PARAMS;
        fine = u.min_params > 0 && large_enough(l, item, u.min_params) &&
               leaves_some(l, &u, list);
    } else {
        u.kind = UNIT_PATHS;
        fine = unit_paths(l, item, list, &u);
    }
    if (fine)
        vec_push(l->arena, list, u);
}

/* The mesh axis of this name if it splits the batch; else -1. */
static int data_axis(Lower *l, const Ident *name)
{
    int axis = lower_mesh_axis(l, name->name);
    if (axis < 0) /* read_plan reported the name */
        return -1;
    if (!(l->p->plan.tensor_axes & 1u << axis))
        return axis;
    diag_error(l->diag, name->loc,
               "fully_shard needs an axis that splits the batch; '%s' is "
               "named by parallelize", name->name);
    return -1;
}

/* `planned`: the items of the clause. */
static void resolve_fully_shard(Lower *l, const Clause *c,
                                const PlanItem *planned, UnitList *list)
{
    int replicate = -1, axis = -1;
    for (int i = 0; i < c->naxes; i++) {
        replicate = axis;
        axis = data_axis(l, &c->axis[i]);
        if (axis < 0)
            return;
    }
    for (int i = 0; i < c->nitems; i++)
        resolve_unit(l, &planned[i], axis, replicate, list);
}

static void resolve_units(Lower *l)
{
    UnitList list = {0};
    const PlanItem *planned = l->planned.at;
    for (int i = 0; i < l->plan->nclauses; i++) {
        const Clause *c = &l->plan->clause[i];
        if (c->kind == CL_FULLY_SHARD)
            resolve_fully_shard(l, c, planned, &list);
        planned += c->nitems;
    }
    l->p->plan.unit = list.at;
    l->p->plan.nunits = list.n;
}

static void resolve_offload(Lower *l)
{
    for (int i = 0; i < l->planned.n; i++) {
        const PlanItem *planned = &l->planned.at[i];
        if (planned->clause->kind != CL_OFFLOAD)
            continue;
        l->p->plan.offload |= planned->offload;
        l->p->plan.offload_loc = planned->clause->loc;
    }
}

/* ---- the plan ------------------------------------------------------------ */

/* The default plan: the first axis splits the batch; the other axes split
 * nothing. */
static void plain_plan(Lower *l)
{
    PlanSpec *plan = &l->p->plan;
    const Mesh *m = &l->p->mesh;
    plan->name = "";
    plan->loc = l->model->name.loc;
    plan->tensor_axes = ((1u << m->n) - 1) & ~1u;
    if (diag_error_count(l->diag) > 0)
        return;
    diag_note(l->diag, (Loc){0},
              "the file has no plan: plain data parallelism over axis '%s' "
              "of %lld%s", m->name[0], (long long)m->size[0],
              mesh_ranks(m) > m->size[0]
                  ? "; ranks of the other axes repeat the same work" : "");
}

void lower_plan(Lower *l)
{
    const PlanDecl *decl = l->plan;
    PlanSpec *plan = &l->p->plan;
    if (!decl) {
        plain_plan(l);
        return;
    }
    plan->name = decl->name.name;
    plan->loc = decl->name.loc;
    lower_parallelize(l, decl);
    resolve_units(l);
    for (int i = 0; i < decl->nclauses; i++)
        if (decl->clause[i].kind == CL_FREEZE)
            lower_freeze(l, &decl->clause[i]);
    lower_checkpoints(l);
    resolve_offload(l);
    items_attach(l->p);
    styles_attach(l->p);
}
