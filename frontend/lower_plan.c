/* lower_plan.c: a plan's clauses, resolved against the modules that exist.
 *
 * A pattern that fits several modules gives each of them a style of its own;
 * a module has at most one style on an axis.
 */
#include <string.h>

#include "frontend/check.h"
#include "frontend/lower.h"
#include "ir/units.h"

/* ---- which plan ---------------------------------------------------------- */

static void list_plans(Lower *l, NameList *names)
{
    names->arena = l->arena;
    for (int i = 0; i < l->file->nplans; i++)
        names_add(names, l->file->plan[i]->name.name,
                  l->file->plan[i]->name.loc);
}

const PlanDecl *lower_choose_plan(Lower *l, bool *fault)
{
    const char *want = l->options->plan;
    for (int i = 0; want && i < l->file->nplans; i++)
        if (strcmp(l->file->plan[i]->name.name, want) == 0)
            return l->file->plan[i];
    *fault = want || l->file->nplans > 1;
    if (want) {
        NameList names = {0};
        list_plans(l, &names);
        diag_error(l->diag, l->options->plan_loc,
                   "the file has no plan '%s'", want);
        names_suggest(l->diag, &names, want);
        const char *all = "";
        for (int i = 0; i < names.name.n; i++)
            all = arena_printf(l->arena, "%s%s%s", all, i ? ", " : "",
                               names.name.at[i]);
        diag_help(l->diag, names.name.n ? "its plans: %s" : "it has none%s",
                  all);
    } else if (l->file->nplans > 1) {
        diag_error(l->diag, l->file->plan[1]->name.loc,
                   "the file has %d plans: --plan NAME chooses one",
                   l->file->nplans);
        diag_note(l->diag, l->file->plan[0]->name.loc, "the first is here");
    }
    return *fault || l->file->nplans == 0 ? NULL : l->file->plan[0];
}

/* ---- patterns ------------------------------------------------------------ */

static int mesh_axis(const Lower *l, const char *name)
{
    for (int i = 0; i < l->p->mesh.n; i++)
        if (strcmp(l->p->mesh.name[i], name) == 0)
            return i;
    return -1;
}

/* Whether the pattern would fit if its literal indices were '*'. */
static bool fits_by_index(const char *pattern, const char *path)
{
    char stars[1024];
    size_t n = 0;
    for (const char *p = pattern; *p && n + 1 < sizeof stars;) {
        size_t k = strcspn(p, ".");
        if (*p >= '0' && *p <= '9')
            stars[n++] = '*';
        else
            for (size_t i = 0; i < k && n + 2 < sizeof stars; i++)
                stars[n++] = p[i];
        p += k;
        if (*p == '.')
            stars[n++] = *p++;
    }
    stars[n] = 0;
    return path_matches(stars, path);
}

static void no_match(Lower *l, const Path *path)
{
    NameList names = {.arena = l->arena};
    for (int i = 0; i < l->p->module.n; i++) {
        const Module *m = &l->p->module.at[i];
        if (fits_by_index(path->text, m->path)) {
            diag_error(l->diag, path->loc,
                       "parts of a stack cannot be planned one by one yet");
            diag_help(l->diag, "'%s' plans all of them", m->path);
            return;
        }
        names_add(&names, m->path, m->loc);
    }
    diag_error(l->diag, path->loc, "no module matches '%s'", path->text);
    names_suggest(l->diag, &names, path->text);
}

/* ---- styles -------------------------------------------------------------- */

static bool one_style(Lower *l, const Style *styles, int n, const Style *s)
{
    for (int i = 0; i < n; i++) {
        if (styles[i].axis != s->axis ||
            strcmp(styles[i].path, s->path) != 0)
            continue;
        diag_error(l->diag, s->loc, "'%s' has two styles on axis '%s'",
                   *s->path ? s->path : "model", l->p->mesh.name[s->axis]);
        diag_note(l->diag, styles[i].loc, "the first is here");
        return false;
    }
    return true;
}

typedef VEC(Style) StyleList;
typedef VEC(Unit) UnitList;

static void resolve_path(Lower *l, const Item *item, const Path *path,
                         const StyleInfo *info, int axis, StyleList *list)
{
    bool found = false;
    for (int i = 0; i < l->p->module.n; i++) {
        const Module *m = &l->p->module.at[i];
        if (!path_matches(path->text, m->path))
            continue;
        found = true;
        Style s = {.kind = info->kind, .path = m->path, .axis = axis,
                   .loc = item->style_loc};
        if (one_style(l, list->at, list->n, &s) && lower_style(l, item, i, &s))
            vec_push(l->arena, list, s);
    }
    if (!found)
        no_match(l, path);
}

static void resolve_parallelize(Lower *l, const Clause *c, StyleList *list)
{
    int axis = mesh_axis(l, c->axis[0].name);
    if (axis < 0)
        return; /* check has said so */
    l->p->plan.tensor_axes |= 1u << axis;
    for (int i = 0; i < c->nitems; i++) {
        const Item *item = &c->item[i];
        const StyleInfo *info = item->style ? style_find(item->style) : NULL;
        for (int j = 0; j < item->npaths && info; j++)
            resolve_path(l, item, &item->path[j], info, axis, list);
    }
}

/* ---- units --------------------------------------------------------------- */

/* Options that lower carries out; check has refused the others. */
static void unit_options(Lower *l, const Item *item, Unit *u)
{
    for (int i = 0; i < item->noptions; i++) {
        const Arg *option = &item->option[i];
        int64_t n;
        bool yes;
        if (strcmp(option->name, "prefetch") == 0) {
            if (!lower_int(l, option->value, "prefetch", &n))
                continue;
            if (n < 0 || n > 16)
                lower_error(l, option->value->range, NULL,
                            "prefetch is a number of units from 0 to 16");
            else
                u->prefetch = (int)n;
        } else if (strcmp(option->name, "reshard") == 0) {
            if (lower_bool(l, option->value, "reshard", &yes))
                u->reshard = yes;
        }
    }
}

static bool known_class(Lower *l, const Item *item)
{
    NameList names = {.arena = l->arena};
    for (int i = 0; i < l->p->module.n; i++) {
        const Module *m = &l->p->module.at[i];
        if (strcmp(m->class, item->every) == 0)
            return true;
        names_add(&names, m->class, (Loc){0});
    }
    diag_error(l->diag, item->loc, "the model has no module of class '%s'",
               item->every);
    names_suggest(l->diag, &names, item->every);
    return false;
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
    diag_error(l->diag, item->loc, "no module has so many parameters");
    diag_help(l->diag, "the largest has %lld", (long long)most);
    return false;
}

static bool unit_paths(Lower *l, const Item *item, const UnitList *list,
                       Unit *u)
{
    const char **path = NEW_ARRAY(l->arena, const char *, item->npaths);
    bool fine = true;
    for (int i = 0; i < item->npaths; i++) {
        path[i] = item->path[i].text;
        bool found = false;
        for (int j = 0; j < l->p->module.n; j++)
            found |= path_matches(path[i], l->p->module.at[j].path);
        if (!found)
            no_match(l, &item->path[i]);
        fine &= found;
        for (int j = 0; j < list->n && found; j++) {
            const Unit *other = &list->at[j];
            for (int k = 0; k < other->npaths; k++) {
                if (strcmp(other->path[k], path[i]) != 0)
                    continue;
                diag_error(l->diag, item->path[i].loc,
                           "'%s' is in two units", *path[i] ? path[i]
                                                            : "model");
                diag_note(l->diag, other->loc, "the first is here");
                fine = false;
            }
        }
    }
    u->path = path;
    u->npaths = item->npaths;
    return fine;
}

static void resolve_unit(Lower *l, const Item *item, int axis, UnitList *list)
{
    Unit u = {.axis = axis, .replicate_axis = -1, .reshard = -1,
              .prefetch = -1, .loc = item->loc};
    bool fine = true;
    if (item->every) {
        u.kind = UNIT_EVERY;
        u.class = item->every;
        fine = known_class(l, item);
    } else if (item->min_params) {
        u.kind = UNIT_MIN_PARAMS;
        fine = lower_size(l, item->min_params, "min_params", &u.min_params) &&
               large_enough(l, item, u.min_params);
    } else {
        u.kind = UNIT_PATHS;
        fine = unit_paths(l, item, list, &u);
    }
    unit_options(l, item, &u);
    if (fine)
        vec_push(l->arena, list, u);
}

static void resolve_fully_shard(Lower *l, const Clause *c, UnitList *list)
{
    const Ident *name = &c->axis[c->naxes - 1];
    int axis = mesh_axis(l, name->name);
    if (axis < 0 || c->naxes != 1)
        return; /* check has said so */
    if (l->p->plan.tensor_axes & 1u << axis) {
        diag_error(l->diag, name->loc,
                   "fully_shard needs an axis that splits the batch; '%s' is "
                   "named by parallelize", name->name);
        return;
    }
    for (int i = 0; i < c->nitems; i++)
        resolve_unit(l, &c->item[i], axis, list);
}

/* ---- the plan ------------------------------------------------------------ */

/* Without a plan the first axis splits the batch, and nothing else is split.
 */
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
                  ? "; the other axes do the same work again" : "");
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
    StyleList styles = {0};
    UnitList units = {0};
    Frame f;
    push_frame(l, &f, plan->name, plan->loc, NULL);
    f.members = true;
    for (int i = 0; i < decl->nclauses; i++)
        if (decl->clause[i].kind == CL_PARALLELIZE)
            resolve_parallelize(l, &decl->clause[i], &styles);
    for (int i = 0; i < decl->nclauses; i++)
        if (decl->clause[i].kind == CL_FULLY_SHARD)
            resolve_fully_shard(l, &decl->clause[i], &units);
    pop_frame(l);
    plan->style = styles.at;
    plan->nstyles = styles.n;
    plan->unit = units.at;
    plan->nunits = units.n;
}
