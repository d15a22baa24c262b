/* units.c: finds the FSDP unit of a parameter; see units.h. */
#include "ir/units.h"

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

/* The item that names the module most specifically, the first of several; NULL:
 * none. */
static const Unit *unit_of_module(const Program *p, const Module *m)
{
    const Unit *best = NULL;
    int most = -1;
    for (int i = 0; i < p->plan.nunits; i++) {
        int takes = unit_takes_module(p, &p->plan.unit[i], m);
        if (takes <= most)
            continue;
        most = takes;
        best = &p->plan.unit[i];
    }
    return best;
}

/* Whether the parameter is declared in the module or in a child. */
static bool declares(const Module *m, int param)
{
    return param >= m->first_param && param < m->first_param + m->nparams;
}

static bool lies_in(const Module *m, const char *name)
{
    size_t n = strlen(m->path);
    return n == 0 || (strncmp(name, m->path, n) == 0 && name[n] == '.');
}

/* The item for the innermost module that contains the parameter: by its own
 * name, else by one of the names that ties replaced. */
static const Unit *find_unit(const Program *p, int param,
                             const Module **module)
{
    if (p->param.at[param].state_of >= 0)
        param = p->param.at[param].state_of;
    const Param *q = &p->param.at[param];
    const Unit *best = NULL;
    int best_depth = -1;
    for (int name = -1; name < q->nalias && !best; name++)
        for (int i = 0; i < p->module.n; i++) {
            const Module *m = &p->module.at[i];
            if (path_depth(m->path) <= best_depth ||
                !(name < 0 ? declares(m, param)
                           : lies_in(m, q->alias[name])))
                continue;
            const Unit *u = unit_of_module(p, m);
            if (!u)
                continue;
            best = u;
            best_depth = path_depth(m->path);
            *module = m;
        }
    return best;
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
