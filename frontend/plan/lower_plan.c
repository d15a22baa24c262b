/* lower_plan.c: selects the plan, and resolves its clauses against the modules
 * of the model.
 *
 * A plan names modules by patterns; only lowering knows which modules exist and
 * how large they are.
 *
 * before   fully_shard dp { layers.*: prefetch=2 }
 *          checkpoint { layers.*: keep=attention, every=2 }
 * after    PlanSpec.unit: axes {dp}, paths {"layers.*"}, prefetch 2
 *          PlanSpec.checkpoint: paths {"layers.*"}, every 2, KEEP_ATTENTION
 *
 * lower_parallelize.c resolves the clauses `parallelize`. Without a plan, the
 * first mesh axis splits the batch.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"
#include "ir/plan/checkpoint.h"
#include "ir/plan/items.h"
#include "ir/plan/styles.h"
#include "ir/units.h"

/* ---- frozen parameters ---------------------------------------------------- */

/* A pattern of `freeze` names a parameter, or a module with all its parameters.
 * Any name of a tied parameter freezes it. */

/* Whether the pattern matches the name or the path of an enclosing module. */
static bool matches_ancestor(Arena *a, const char *pattern, const char *name)
{
    char *path = arena_strdup(a, name);
    for (size_t n = 0;; n += strcspn(name + n, ".")) {
        path[n] = 0;
        if (path_matches(pattern, path))
            return true;
        if (!name[n])
            return false;
        path[n] = name[n];
        n += n > 0;
    }
}

/* Whether the parameter belongs to a module of the class. */
static bool lies_in_class(const Program *p, const char *class,
                          const char *name)
{
    for (int i = 0; i < p->module.n; i++) {
        const Module *m = &p->module.at[i];
        if (strcmp(m->class, class) == 0 &&
            matches_ancestor(p->arena, m->path, name))
            return true;
    }
    return false;
}

static bool item_takes(const Program *p, const Item *item, const char *name)
{
    if (item->class_name)
        return lies_in_class(p, item->class_name, name);
    for (int i = 0; i < item->npaths; i++)
        if (matches_ancestor(p->arena, item->path[i].text, name))
            return true;
    return false;
}

static void freeze_item(Lower *l, const Item *item)
{
    Program *p = l->p;
    bool found = false;
    for (int i = 0; i < p->param.n; i++) {
        Param *q = &p->param.at[i];
        bool takes = item_takes(p, item, q->name);
        for (int k = 0; k < q->nalias; k++)
            takes = takes || item_takes(p, item, q->alias[k]);
        found = found || takes;
        if (takes)
            q->trainable = false;
    }
    if (!found)
        diag_error(l->diag, item->loc, "%s'%s' has no parameters",
                   item->class_name ? "class " : "",
                   item->class_name ? item->class_name : item->path[0].text);
}

static bool trains(const Program *p)
{
    for (int i = 0; i < p->param.n; i++)
        if (p->param.at[i].trainable)
            return true;
    return false;
}

static void lower_freeze(Lower *l, const Clause *c)
{
    if (l->p->param.n == 0)
        return;
    bool trained = trains(l->p);
    for (int i = 0; i < c->nitems; i++) {
        const Item *item = &c->item[i];
        if (item->min_params)
            continue; /* read_plan reported the item */
        bool known = !item->class_name || lower_class_known(l, item);
        for (int k = 0; k < item->npaths; k++)
            known = lower_path_known(l, &item->path[k], true) && known;
        if (known)
            freeze_item(l, item);
    }
    if (trained && !trains(l->p)) {
        diag_error(l->diag, c->loc, "this freezes every parameter: none is "
                   "trained");
        diag_help(l->diag, "remove a module from the clause");
    }
}

/* ---- recomputed modules --------------------------------------------------- */

typedef VEC(Checkpoint) CheckpointList;

static bool names_same(const Checkpoint *c, const Checkpoint *other,
                       const char **what)
{
    *what = c->class;
    if (c->class && other->class && strcmp(c->class, other->class) == 0)
        return true;
    for (int i = 0; i < c->npaths; i++) {
        *what = c->path[i][0] ? c->path[i] : "model";
        if (row_find(other->path, other->npaths, c->path[i]))
            return true;
    }
    return false;
}

static bool check_not_repeated(Lower *l, const Item *item,
                               const Checkpoint *c,
                               const CheckpointList *list)
{
    const char *what;

    for (int i = 0; i < list->n; i++)
        if (names_same(c, &list->at[i], &what))
            return diag_twice(l->diag, item->loc, list->at[i].loc,
                              "'%s' is in two items of checkpoint", what);
    return true;
}

/* The patterns of an item; reports those that match no module, and then clears
 * *fine. */
static const char **item_paths(Lower *l, const Item *item, bool *fine)
{
    const char **path = NEW_ARRAY(l->arena, const char *, item->npaths);

    for (int i = 0; i < item->npaths; i++) {
        path[i] = item->path[i].text;
        *fine = lower_path_known(l, &item->path[i], false) && *fine;
    }
    return path;
}

/* Reports an error if `every=N` is used with a module that is not an element of
 * an array. */
static bool check_every(Lower *l, const Item *item, const Checkpoint *c)
{
    bool fine = true;

    for (int i = 0; i < l->p->module.n && c->every > 1; i++) {
        const Module *m = &l->p->module.at[i];
        bool element = l->instance.at[i]->is_array;
        for (int k = 0; k < c->npaths; k++)
            if (path_matches(c->path[k], m->path) &&
                !path_has_star(c->path[k]))
                fine = false;
        if (c->class && strcmp(c->class, m->class) == 0 && !element)
            fine = false;
        if (fine)
            continue;
        diag_error(l->diag, item->loc, "'every=%d' needs elements of an "
                   "array: '%s' is not one", c->every,
                   *m->path ? m->path : "model");
        return diag_help(l->diag, "such as 'layers.*: every=%d'", c->every);
    }
    return fine;
}

static void lower_checkpoints(Lower *l)
{
    CheckpointList list = {0};

    for (int i = 0; i < l->planned.n; i++) {
        const PlanItem *planned = &l->planned.at[i];
        const Item *item = planned->item;
        if (planned->clause->kind != CL_CHECKPOINT)
            continue;
        Checkpoint c = planned->checkpoint;
        c.class = item->class_name;
        c.loc = item->loc;
        bool fine = !item->class_name || lower_class_known(l, item);
        c.npaths = item->npaths;
        c.path = item_paths(l, item, &fine);
        if (fine && check_every(l, item, &c) &&
            check_not_repeated(l, item, &c, &list))
            vec_push(l->arena, &list, c);
    }
    l->p->plan.checkpoint = list.at;
    l->p->plan.ncheckpoints = list.n;
}

/* ---- the selected plan --------------------------------------------------- */

static void list_plans(Lower *l, NameList *names)
{
    names->arena = l->arena;
    for (int i = 0; i < l->file->plan.n; i++)
        names_add(names, l->file->plan.at[i]->name.name,
                  l->file->plan.at[i]->name.loc);
    for (int i = 0; i < l->file->ignored.n; i++)
        names_add(names, l->file->ignored.at[i].name, l->file->ignored.at[i].loc);
}

static void help_plans(Lower *l)
{
    const char *all = "";
    for (int i = 0; i < l->file->plan.n; i++)
        all = arena_printf(l->arena, "%s%s%s", all, i ? ", " : "",
                           l->file->plan.at[i]->name.name);
    if (*all)
        diag_help(l->diag, "its plans: %s", all);
    else if (l->file->ignored.n > 0)
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
    *fault = want || l->file->plan.n > 1;
    if (want) {
        NameList names = {0};
        list_plans(l, &names);
        diag_error(l->diag, l->options->plan_loc,
                   "the file has no plan '%s'", want);
        names_suggest(l->diag, &names, want);
        help_plans(l);
    } else if (l->file->plan.n > 1) {
        diag_twice(l->diag, l->file->plan.at[1]->name.loc,
                   l->file->plan.at[0]->name.loc, "the file has %d plans: --plan "
                   "NAME chooses one", l->file->plan.n);
        help_plans(l);
    }
    return *fault || l->file->plan.n == 0 ? NULL : l->file->plan.at[0];
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
    bool fine = true;
    u->path = item_paths(l, item, &fine);
    u->npaths = item->npaths;
    for (int i = 0; i < item->npaths; i++) {
        const char *path = u->path[i], *name = *path ? path : "model";
        Loc loc = item->path[i].loc;
        const Path *first = row_find(item->path, i, path);
        if (first) {
            fine = diag_twice(l->diag, loc, first->loc, "'%s' is named twice",
                              name);
            continue;
        }
        for (int j = 0; j < list->n; j++)
            if (row_find(list->at[j].path, list->at[j].npaths, path))
                fine = diag_twice(l->diag, loc, list->at[j].loc,
                                  "'%s' is in two units", name);
    }
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

/* `context`: the axis of the clause `context`, as a bit mask, if it is named; `axis`
 * -1: no other axis is. */
static void resolve_unit(Lower *l, const PlanItem *planned, uint32_t context, int axis,
                         int replicate, UnitList *list)
{
    const Item *item = planned->item;
    Unit u = planned->unit;
    u.axes = context | (axis < 0 ? 0 : 1u << axis);
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
    bool pipeline = l->p->plan.pipeline.axes & 1u << axis;
    diag_error(l->diag, name->loc,
               "fully_shard needs an axis that splits the batch; '%s' is "
               "named by %s", name->name,
               clause_name(pipeline ? CL_PIPELINE : CL_PARALLELIZE));
    return -1;
}

/* `planned`: the items of the clause. */
static void resolve_fully_shard(Lower *l, const Clause *c,
                                const PlanItem *planned, UnitList *list)
{
    int replicate = -1, axis = -1;
    uint32_t context = 0;
    for (int i = 0; i < c->naxes; i++) {
        int next = data_axis(l, &c->axis[i]);
        if (next < 0)
            return;
        if (l->p->plan.context.axes >> next & 1) {
            context |= 1u << next;
        } else {
            replicate = axis;
            axis = next;
        }
    }
    for (int i = 0; i < c->nitems; i++)
        resolve_unit(l, &planned[i], context, axis, replicate, list);
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
    lower_pipeline(l);
    lower_context(l, decl);
    lower_expert_parallel(l);
    resolve_units(l);
    for (int i = 0; i < decl->nclauses; i++)
        if (decl->clause[i].kind == CL_FREEZE)
            lower_freeze(l, &decl->clause[i]);
    lower_checkpoints(l);
    resolve_offload(l);
    items_attach(l->p);
    styles_attach(l->p);
}
