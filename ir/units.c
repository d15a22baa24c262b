/* units.c: which FSDP unit a parameter belongs to; see units.h. */
#include "ir/units.h"

#include <string.h>

bool path_matches(const char *pattern, const char *path)
{
    while (*pattern && *path) {
        size_t n = strcspn(pattern, "."), k = strcspn(path, ".");
        bool any = n == 1 && *pattern == '*';
        if (!any && (n != k || memcmp(pattern, path, n) != 0))
            return false;
        pattern += n;
        path += k;
        if ((*pattern == '.') != (*path == '.'))
            return false;
        pattern += *pattern == '.';
        path += *path == '.';
    }
    return !*pattern && !*path;
}

/* How deep a module lies; the model itself has depth 0. */
static int depth_of(const char *path)
{
    int depth = *path != 0;
    for (; *path; path++)
        depth += *path == '.';
    return depth;
}

int64_t module_elements(const Program *p, const Module *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->nparams; i++) {
        const Param *q = &p->param.at[m->first_param + i];
        if (q->state_of < 0)
            n += type_elements(&q->type);
    }
    return n;
}

static bool unit_takes_module(const Program *p, const Unit *u,
                              const Module *m)
{
    switch (u->kind) {
    case UNIT_PATHS:
        for (int i = 0; i < u->npaths; i++)
            if (path_matches(u->path[i], m->path))
                return true;
        return false;
    case UNIT_EVERY:
        return strcmp(u->class, m->class) == 0;
    case UNIT_MIN_PARAMS:
        return module_elements(p, m) >= u->min_params;
    }
    return false;
}

/* The innermost module above the parameter that an item names. */
static const Unit *find_unit(const Program *p, int param,
                             const Module **module)
{
    const Param *q = &p->param.at[param];
    if (q->state_of >= 0)
        param = q->state_of;
    const Unit *best = NULL;
    int best_depth = -1;
    for (int i = 0; i < p->module.n; i++) {
        const Module *m = &p->module.at[i];
        int depth = depth_of(m->path);
        if (depth <= best_depth || param < m->first_param ||
            param >= m->first_param + m->nparams)
            continue;
        for (int k = 0; k < p->plan.nunits; k++)
            if (unit_takes_module(p, &p->plan.unit[k], m)) {
                best = &p->plan.unit[k];
                best_depth = depth;
                *module = m;
                break;
            }
    }
    return best;
}

const Unit *unit_of_param(const Program *p, int param)
{
    const Module *m;
    return find_unit(p, param, &m);
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
