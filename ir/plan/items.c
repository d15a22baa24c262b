/* items.c: finds the item of `fully_shard` for each parameter, and the
 * item of `checkpoint` for each module; see items.h. */
#include "ir/plan/items.h"

#include <stdlib.h>
#include <string.h>

#include "ir/plan/checkpoint.h"
#include "ir/plan/user_axes.h"
#include "ir/units.h"

/* ---- units of modules ---------------------------------------------------- */

/* How specifically the item names the module: the number of indices in its
 * path; -1: it does not. */
static int unit_names(const Program *p, const Unit *u, const Module *m)
{
    int most = -1;
    switch (u->kind) {
    case UNIT_PATHS:
        for (int i = 0; i < u->npaths; i++)
            if (path_matches(u->path[i], m->path) &&
                path_index_specificity(u->path[i]) > most)
                most = path_index_specificity(u->path[i]);
        return most;
    case UNIT_EVERY:
        return strcmp(u->class, m->class) == 0 ? 0 : -1;
    case UNIT_MIN_PARAMS:
        return module_elements(p, m) >= u->min_params ? 0 : -1;
    }
    return most;
}

/* For each module, the item that names it most specifically. */
typedef struct ModuleUnits {
    const Program *p;
    const Module **sorted; /* by path */
    int *most;             /* by module: how specifically; -1: no item */
    int *unit;             /* the first of several that are as specific */
} ModuleUnits;

static int by_path(const void *x, const void *y)
{
    const Module *const *a = x, *const *b = y;
    return strcmp((*a)->path, (*b)->path);
}

/* Whether the pattern matches only the path that it spells. */
static bool is_plain(const char *pattern)
{
    return !strchr(pattern, '*') && path_numbers(pattern) == 0;
}

static void offer(ModuleUnits *m, int unit, int module)
{
    int names =
        unit_names(m->p, &m->p->plan.unit[unit], &m->p->module.at[module]);
    if (names <= m->most[module])
        return;
    m->most[module] = names;
    m->unit[module] = unit;
}

/* Offers the item to the modules of this path, found by binary search. */
static void offer_path(ModuleUnits *m, int unit, const char *path)
{
    int low = 0, high = m->p->module.n;
    while (low < high) {
        int at = (low + high) / 2;
        if (strcmp(m->sorted[at]->path, path) < 0)
            low = at + 1;
        else
            high = at;
    }
    for (; low < m->p->module.n && strcmp(m->sorted[low]->path, path) == 0;
         low++)
        offer(m, unit, (int)(m->sorted[low] - m->p->module.at));
}

static void offer_unit(ModuleUnits *m, int unit)
{
    const Unit *u = &m->p->plan.unit[unit];
    bool plain = u->kind == UNIT_PATHS;
    for (int i = 0; i < u->npaths && plain; i++)
        plain = is_plain(u->path[i]);
    for (int i = 0; i < u->npaths && plain; i++)
        offer_path(m, unit, u->path[i]);
    for (int i = 0; i < m->p->module.n && !plain; i++)
        offer(m, unit, i);
}

/* By module: the index of its item; -1: none. */
static const int *units_of_modules(const Program *p)
{
    Arena *a = p->arena;
    int n = p->module.n;
    ModuleUnits m = {.p = p, .sorted = NEW_ARRAY(a, const Module *, n + 1),
                     .most = NEW_ARRAY(a, int, n + 1),
                     .unit = NEW_ARRAY(a, int, n + 1)};
    for (int i = 0; i < n; i++) {
        m.sorted[i] = &p->module.at[i];
        m.most[i] = m.unit[i] = -1;
    }
    qsort(m.sorted, (size_t)n, sizeof *m.sorted, by_path);
    for (int i = 0; i < p->plan.nunits; i++)
        offer_unit(&m, i);
    return m.unit;
}

/* ---- units of parameters ------------------------------------------------- */

/* For each parameter, the innermost module with an item that contains it, and
 * this item; -1: none. */
typedef struct ParamUnits {
    const Program *p;
    int *unit, *module;
} ParamUnits;

static void claim_param(ParamUnits *t, int param, int module, int unit)
{
    const Module *m = t->p->module.at;
    int old = t->module[param];
    if (old >= 0 && path_depth(m[old].path) >= path_depth(m[module].path))
        return;
    t->module[param] = module;
    t->unit[param] = unit;
}

static void find_by_module(ParamUnits *t, const int *unit)
{
    for (int i = 0; i < t->p->module.n; i++) {
        const Module *m = &t->p->module.at[i];
        for (int k = 0; k < m->nparams && unit[i] >= 0; k++)
            claim_param(t, m->first_param + k, i, unit[i]);
    }
}

static void find_by_alias(ParamUnits *t, const int *unit, int param)
{
    const Param *q = &t->p->param.at[param];
    for (int name = 0; name < q->nalias && t->unit[param] < 0; name++)
        for (int i = 0; i < t->p->module.n; i++)
            if (unit[i] >= 0 &&
                path_is_below(q->alias[name], t->p->module.at[i].path))
                claim_param(t, param, i, unit[i]);
}

/* The unit's name: the module's path, joined paths as "norm+output". */
static const char *unit_name(const Program *p, const Unit *u, const Module *m)
{
    if (u->kind != UNIT_PATHS || u->npaths == 1)
        return *m->path ? m->path : p->model;
    Out o;
    out_init(&o, p->arena);
    for (int i = 0; i < u->npaths; i++)
        out(&o, "%s%s", i ? "+" : "", u->path[i]);
    return o.text;
}

static void set_units(Program *p)
{
    int n = p->param.n;
    const int *unit = units_of_modules(p);
    ParamUnits t = {p, NEW_ARRAY(p->arena, int, n + 1),
                    NEW_ARRAY(p->arena, int, n + 1)};
    for (int i = 0; i < n; i++)
        t.unit[i] = t.module[i] = -1;
    find_by_module(&t, unit);
    for (int i = 0; i < n; i++) {
        Param *q = &p->param.at[i];
        find_by_alias(&t, unit, i);
        if (t.unit[i] < 0 || q->module_state)
            continue;
        q->item = t.unit[i] + 1;
        q->unit = unit_name(p, &p->plan.unit[t.unit[i]],
                            &p->module.at[t.module[i]]);
    }
}

/* ---- parameters that styles split ---------------------------------------- */

/* The axes of the styles that split a parameter. */
static uint32_t split_axes(const Program *p, const Param *q)
{
    uint32_t axes = 0;
    for (int i = 0; i < p->plan.nstyles; i++) {
        const Style *s = &p->plan.style[i];
        if (s->kind == STYLE_PARAMETER && s->in_to[0].kind == LAYOUT_SHARD &&
            strcmp(s->path, q->name) == 0)
            axes |= 1u << s->axis;
    }
    return axes;
}

/* The number of the unit with the items of unit `of` that shards over these axes. */
static int unit_over(Program *p, int of, uint32_t axes)
{
    PlanSpec *plan = &p->plan;
    Unit u = plan->unit[of];
    for (int i = 0; i < plan->nunits; i++)
        if (plan->unit[i].path == u.path && plan->unit[i].class == u.class &&
            plan->unit[i].min_params == u.min_params && plan->unit[i].axes == axes)
            return i;
    u.axes = axes;
    Unit *all = NEW_ARRAY(p->arena, Unit, plan->nunits + 1);
    memcpy(all, plan->unit, sizeof *all * (size_t)plan->nunits);
    all[plan->nunits] = u;
    plan->unit = all;
    return plan->nunits++;
}

/* A unit does not shard a parameter over an axis that splits it already, as experts
 * over the ranks of `expert_parallel`: the parameter is in a unit of its own. */
static void part_units(Program *p)
{
    for (int i = 0; i < p->param.n; i++) {
        Param *q = &p->param.at[i];
        const Unit *u = q->item ? &p->plan.unit[q->item - 1] : NULL;
        uint32_t split = u ? split_axes(p, q) & u->axes : 0;
        if (!split)
            continue;
        uint32_t rest = u->axes & ~split;
        q->unit = rest ? arena_printf(p->arena, "%s/%s", q->unit, user_axes_text(p, rest))
                       : NULL;
        q->item = rest ? unit_over(p, q->item - 1, rest) + 1 : 0;
    }
}

/* ---- checkpoints of modules ---------------------------------------------- */

/* The segment of a path whose index `every` counts: where the pattern has its
 * last '*', or the last segment; -1: none. */
static int counted_segment(const char *pattern, const char *path)
{
    int depth = path_depth(path), found = pattern ? -1 : depth - 1;
    for (int i = 0; pattern && i < depth; i++) {
        size_t size;
        const char *segment = path_segment(pattern, i, &size);
        if (size == 1 && *segment == '*')
            found = i;
    }
    return found;
}

/* Whether the module's index is a multiple of `every`. Arrays were split so
 * that a range has one remainder; an array that was not split has one
 * element. */
static bool is_counted(const Checkpoint *c, const char *pattern,
                       const char *path)
{
    if (c->every <= 1)
        return true;
    int i = counted_segment(pattern, path);
    PathRange r = {0, 0, 1};
    size_t size = 0;
    const char *segment = i < 0 ? "" : path_segment(path, i, &size);
    return (path_range(segment, size, &r) || *segment == '*') &&
           r.first % c->every == 0;
}

/* As unit_names. */
static int checkpoint_names(const Checkpoint *c, const Module *m)
{
    int most = -1;
    if (c->class)
        return strcmp(c->class, m->class) == 0 && is_counted(c, NULL, m->path)
                   ? 0 : -1;
    for (int i = 0; i < c->npaths; i++)
        if (path_matches(c->path[i], m->path) &&
            is_counted(c, c->path[i], m->path) &&
            path_index_specificity(c->path[i]) > most)
            most = path_index_specificity(c->path[i]);
    return most;
}

static void set_checkpoint(const PlanSpec *plan, Module *m)
{
    int most = -1;
    for (int i = 0; i < plan->ncheckpoints; i++) {
        int names = checkpoint_names(&plan->checkpoint[i], m);
        if (names <= most)
            continue;
        most = names;
        m->checkpoint = i + 1;
    }
}

void items_attach(Program *p)
{
    if (p->plan.nunits) {
        set_units(p);
        part_units(p);
    }
    for (int i = 0; i < p->module.n; i++)
        set_checkpoint(&p->plan, &p->module.at[i]);
}
