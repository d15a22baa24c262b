/* lower_plan.c: selects the plan, and resolves its `fully_shard` clauses
 * against the modules of the model.
 *
 * A plan names modules by patterns; only lowering knows which modules exist and
 * how large they are.
 *
 * before   fully_shard dp { layers.*: prefetch=2 }
 * after    PlanSpec.unit: axes {dp}, paths {"layers.*"}, prefetch 2
 *
 * lower_parallelize.c, lower_freeze.c, lower_checkpoint.c and lower_offload.c
 * resolve the other clauses. Without a plan, the first mesh axis splits the
 * batch.
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

static void unit_prefetch(Lower *l, const Expr *e, Unit *u)
{
    int64_t n;
    if (!lower_int(l, e, "prefetch", &n))
        return;
    if (n < 0 || n > MAX_PREFETCH)
        lower_error(l, e->range, NULL,
                    "'prefetch' must be a number of units from 0 to %d",
                    MAX_PREFETCH);
    else
        u->prefetch = (int)n;
}

/* check ensures that the options agree. */
static void unit_options(Lower *l, const Item *item, Unit *u)
{
    for (int i = 0; i < item->noptions; i++) {
        const Expr *e = item->option[i].value;
        const char *name = item->option[i].name;
        bool named = e->kind == EX_NAME || e->kind == EX_STRING;
        if (strcmp(name, "prefetch") == 0) {
            unit_prefetch(l, e, u);
        } else if (strcmp(name, "reshard") == 0 && e->kind == EX_BOOL) {
            u->reshard = e->integer != 0;
        } else if (strcmp(name, "strategy") == 0 && named) {
            const StrategyInfo *s = strategy_find(e->name);
            if (s && s->reshard >= 0)
                u->reshard = s->reshard;
            if (s)
                u->replicas = s->replicas;
        }
    }
}

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

/* With two axes the first one replicates (hybrid_shard), unless the item's
 * strategy shards over both. */
static bool shards_over_all(const Item *item)
{
    const Arg *a = row_find(item->option, item->noptions, "strategy");
    const StrategyInfo *s =
        a && a->value->name ? strategy_find(a->value->name) : NULL;
    return s && s->over_all;
}

static void resolve_unit(Lower *l, const Item *item, int axis, int replicate,
                         UnitList *list)
{
    Unit u = {.axes = 1u << axis, .replicate_axis = replicate, .reshard = -1,
              .prefetch = -1, .loc = item->loc};
    if (replicate >= 0 && shards_over_all(item)) {
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
        fine = lower_size(l, item->min_params, "min_params", &u.min_params) &&
               large_enough(l, item, u.min_params) &&
               leaves_some(l, &u, list);
    } else {
        u.kind = UNIT_PATHS;
        fine = unit_paths(l, item, list, &u);
    }
    unit_options(l, item, &u);
    if (fine)
        vec_push(l->arena, list, u);
}

/* The mesh axis of this name if it splits the batch; else -1. */
static int data_axis(Lower *l, const Ident *name)
{
    int axis = lower_mesh_axis(l, name->name);
    if (axis < 0) /* check reported the name */
        return -1;
    if (!(l->p->plan.tensor_axes & 1u << axis))
        return axis;
    diag_error(l->diag, name->loc,
               "fully_shard needs an axis that splits the batch; '%s' is "
               "named by parallelize", name->name);
    return -1;
}

static void resolve_fully_shard(Lower *l, const Clause *c, UnitList *list)
{
    int replicate = -1, axis = -1;
    for (int i = 0; i < c->naxes; i++) {
        replicate = axis;
        axis = data_axis(l, &c->axis[i]);
        if (axis < 0)
            return;
    }
    for (int i = 0; i < c->nitems; i++)
        resolve_unit(l, &c->item[i], axis, replicate, list);
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

void lower_plan(Lower *l, const PlanDecl *decl)
{
    PlanSpec *plan = &l->p->plan;
    if (!decl) {
        plain_plan(l);
        return;
    }
    plan->name = decl->name.name;
    plan->loc = decl->name.loc;
    UnitList units = {0};
    Frame f;
    push_frame(l, &f, plan->name, plan->loc, NULL);
    f.members = true;
    lower_parallelize(l, decl);
    for (int i = 0; i < decl->nclauses; i++)
        if (decl->clause[i].kind == CL_FULLY_SHARD)
            resolve_fully_shard(l, &decl->clause[i], &units);
    for (int i = 0; i < decl->nclauses; i++)
        if (decl->clause[i].kind == CL_FREEZE)
            lower_freeze(l, &decl->clause[i]);
    lower_checkpoints(l, decl);
    lower_offload(l, decl);
    pop_frame(l);
    plan->unit = units.at;
    plan->nunits = units.n;
    items_attach(l->p);
    styles_attach(l->p);
}
