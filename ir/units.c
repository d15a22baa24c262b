/* units.c: finds the FSDP unit of a parameter; see units.h. */
#include "ir/units.h"

#include <stdlib.h>
#include <string.h>

/* The number of arrays that contain a module: the indices in its path. */
static int arrays_above(const Module *m)
{
    int n = path_numbers(m->path);
    for (int i = 0; i < path_depth(m->path); i++) {
        size_t size;
        n += *path_segment(m->path, i, &size) == '*';
    }
    return n;
}

int64_t module_elements(const Program *p, const Module *m)
{
    int64_t n = 0;
    int outer = arrays_above(m);
    for (int i = 0; i < m->nparams; i++) {
        const Param *q = &p->param.at[m->first_param + i];
        if (q->state_of >= 0)
            continue;
        Type t = param_shape(q);
        for (int k = 0; k < outer && k < t.nstack; k++)
            t.stack[k] = 1;
        if (__builtin_add_overflow(n, type_elements(&t), &n))
            return INT64_MAX; /* ir_check_total will refuse the model */
    }
    return n;
}

/* How specifically the item names the module: the number of indices in its
 * path; -1: it does not. */
static int unit_takes_module(const Program *p, const Unit *u, const Module *m)
{
    int most = -1;
    switch (u->kind) {
    case UNIT_PATHS:
        for (int i = 0; i < u->npaths; i++)
            if (path_matches(u->path[i], m->path) &&
                path_index_rank(u->path[i]) > most)
                most = path_index_rank(u->path[i]);
        return most;
    case UNIT_EVERY:
        return strcmp(u->class, m->class) == 0 ? 0 : -1;
    case UNIT_MIN_PARAMS:
        return module_elements(p, m) >= u->min_params ? 0 : -1;
    }
    return most;
}

/* For each parameter, the item and the module that names it: indices into
 * PlanSpec.unit and Program.module; -1: none. */
struct UnitTable {
    int n;
    int *unit, *module;
};

/* For each module, the item that names it most specifically. */
typedef struct ModuleUnits {
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

static void offer(const Program *p, ModuleUnits *m, int unit, int module)
{
    int takes =
        unit_takes_module(p, &p->plan.unit[unit], &p->module.at[module]);
    if (takes <= m->most[module])
        return;
    m->most[module] = takes;
    m->unit[module] = unit;
}

/* Offers the item to the modules of this path, found by binary search. */
static void offer_path(const Program *p, ModuleUnits *m, int unit,
                       const char *path)
{
    int low = 0, high = p->module.n;
    while (low < high) {
        int at = (low + high) / 2;
        if (strcmp(m->sorted[at]->path, path) < 0)
            low = at + 1;
        else
            high = at;
    }
    for (; low < p->module.n && strcmp(m->sorted[low]->path, path) == 0; low++)
        offer(p, m, unit, (int)(m->sorted[low] - p->module.at));
}

static void offer_unit(const Program *p, ModuleUnits *m, int unit)
{
    const Unit *u = &p->plan.unit[unit];
    bool plain = u->kind == UNIT_PATHS;
    for (int i = 0; i < u->npaths && plain; i++)
        plain = is_plain(u->path[i]);
    for (int i = 0; i < u->npaths && plain; i++)
        offer_path(p, m, unit, u->path[i]);
    for (int i = 0; i < p->module.n && !plain; i++)
        offer(p, m, unit, i);
}

/* The item that names each module most specifically. */
static int *units_of_modules(const Program *p)
{
    Arena *a = p->arena;
    int n = p->module.n;
    ModuleUnits m = {.sorted = NEW_ARRAY(a, const Module *, n + 1),
                     .most = NEW_ARRAY(a, int, n + 1),
                     .unit = NEW_ARRAY(a, int, n + 1)};
    for (int i = 0; i < n; i++) {
        m.sorted[i] = &p->module.at[i];
        m.most[i] = m.unit[i] = -1;
    }
    qsort(m.sorted, (size_t)n, sizeof *m.sorted, by_path);
    for (int i = 0; i < p->plan.nunits; i++)
        offer_unit(p, &m, i);
    return m.unit;
}

static bool lies_in(const Module *m, const char *name)
{
    size_t n = strlen(m->path);
    return n == 0 || (strncmp(name, m->path, n) == 0 && name[n] == '.');
}

/* Enters the module for the parameter, unless a deeper one is known. */
static void enter(const Program *p, struct UnitTable *t, int param, int module,
                  int unit)
{
    int old = t->module[param];
    if (old >= 0 && path_depth(p->module.at[old].path) >=
                        path_depth(p->module.at[module].path))
        return;
    t->module[param] = module;
    t->unit[param] = unit;
}

/* The item for the innermost module that contains the parameter: by its own
 * name, else by one of the names that ties replaced. */
static const struct UnitTable *table_of(const Program *p)
{
    Arena *a = p->arena;
    struct UnitTable *t = NEW(a, struct UnitTable);
    *t = (struct UnitTable){p->param.n, NEW_ARRAY(a, int, p->param.n + 1),
                            NEW_ARRAY(a, int, p->param.n + 1)};
    memset(t->unit, -1, sizeof *t->unit * (size_t)t->n);
    memset(t->module, -1, sizeof *t->module * (size_t)t->n);
    if (p->plan.nunits == 0)
        return t;
    const int *unit = units_of_modules(p);
    for (int i = 0; i < p->module.n; i++) {
        const Module *m = &p->module.at[i];
        for (int k = 0; k < m->nparams && unit[i] >= 0; k++)
            enter(p, t, m->first_param + k, i, unit[i]);
    }
    for (int k = 0; k < t->n; k++) {
        const Param *q = &p->param.at[k];
        for (int name = 0; name < q->nalias && t->unit[k] < 0; name++)
            for (int i = 0; i < p->module.n; i++)
                if (unit[i] >= 0 && lies_in(&p->module.at[i], q->alias[name]))
                    enter(p, t, k, i, unit[i]);
    }
    return t;
}

void units_index(Program *p)
{
    p->units = table_of(p);
}

static const Unit *find_unit(const Program *p, int param,
                             const Module **module)
{
    const struct UnitTable *t = p->units ? p->units : table_of(p);
    if (p->param.at[param].state_of >= 0)
        param = p->param.at[param].state_of;
    if (t->unit[param] < 0)
        return NULL;
    *module = &p->module.at[t->module[param]];
    return &p->plan.unit[t->unit[param]];
}

const Unit *unit_of_param(const Program *p, int param)
{
    const Module *m;
    return find_unit(p, param, &m);
}

uint32_t unit_axes(const Program *p, const Unit *u)
{
    uint32_t axes = u->axes;
    for (int a = 0; a < p->mesh.n; a++)
        if (p->mesh.size[a] == 1)
            axes &= ~(1u << a);
    return axes;
}

const Unit *sharding_unit(const Program *p, int param)
{
    const Unit *u = unit_of_param(p, param);
    return u && !u->replicas && unit_axes(p, u) ? u : NULL;
}

const char *unit_name_of_param(const Program *p, int param)
{
    const Module *m = NULL;
    const Unit *u = find_unit(p, param, &m);
    if (!u)
        return NULL;
    if (u->kind != UNIT_PATHS || u->npaths == 1)
        return *m->path ? m->path : p->model;
    Out o;
    out_init(&o, p->arena);
    for (int i = 0; i < u->npaths; i++)
        out(&o, "%s%s", i ? "+" : "", u->path[i]);
    return o.text;
}

static const Unit *unit_named(const Program *p, const char *name)
{
    for (int i = 0; i < p->param.n; i++) {
        const char *unit = p->param.at[i].unit;
        if (unit && strcmp(unit, name) == 0)
            return unit_of_param(p, i);
    }
    return NULL;
}

int unit_prefetch_of(const Program *p, const char *name, int otherwise)
{
    const Unit *u = unit_named(p, name);
    return u && u->prefetch >= 0 ? u->prefetch : otherwise;
}

bool unit_stays_gathered(const Program *p, const char *name)
{
    const Unit *u = unit_named(p, name);
    return u && u->reshard == 0;
}
