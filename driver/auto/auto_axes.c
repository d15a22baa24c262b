/* auto_axes.c: reads the axes of --mesh for --plan auto; see auto_axes.h. */
#include "driver/auto/auto_axes.h"

#include <stdlib.h>
#include <string.h>

/* The axes of a mesh without names, by their number. */
enum { MOST_UNNAMED = 3 };
static const char *const unnamed[MOST_UNNAMED + 1][MOST_UNNAMED] = {
    {NULL}, {"dp"}, {"dp", "tp"}, {"pp", "dp", "tp"}};

static bool add_axis(Diag *d, Loc loc, PlanAxes *axes, const char *name)
{
    for (int i = 0; i < axes->n; i++)
        if (strcmp(axes->name[i], name) == 0)
            return diag_error(d, loc, "axis '%s' is given twice", name);
    bool tensor = strcmp(name, "tp") == 0, stages = strcmp(name, "pp") == 0;
    if (!tensor && !stages && axes->ndata == MAX_DATA_AXES) {
        diag_error(d, loc, "--plan auto has at most %d axes that split the batch",
                   MAX_DATA_AXES);
        return diag_help(d, "it calls the axis that splits tensors 'tp', and that of a "
                            "pipeline 'pp'");
    }
    axes->name[axes->n++] = name;
    if (tensor)
        axes->tensor = name;
    else if (stages)
        axes->stages = name;
    else
        axes->data[axes->ndata++] = name;
    if (strcmp(name, "ep") == 0)
        axes->experts = axes->ndata - 1;
    return true;
}

/* Whether a plan can have an axis of this name. */
static bool is_name(Arena *a, Diag *d, const char *name)
{
    const char *plan = arena_printf(a, "plan p(%s) { }\n", name);
    const File *f = pdl_parse(a, diag_quiet(a, d), diag_source(d, "axis", plan, strlen(plan)));
    return f && f->plan.n == 1 && f->plan.at[0]->naxes == 1;
}

static bool read_names(Arena *a, Diag *d, const Argument *mesh, PlanAxes *axes)
{
    for (const char *at = mesh->text; *at;) {
        size_t n = strcspn(at, "=,");
        const char *name = arena_strndup(a, at, n);
        if (at[n] != '=' || !is_name(a, d, name)) {
            diag_error(d, mesh->loc, "'%s' is not an axis with a size", name);
            return diag_help(d, "write --mesh dp=8,tp=8");
        }
        if (!add_axis(d, mesh->loc, axes, name))
            return false;
        at += n + strcspn(at + n, ",");
        at += *at == ',';
    }
    return true;
}

bool plan_axes_read(Arena *a, Diag *d, const Argument *mesh, PlanAxes *axes)
{
    const char *text = mesh->text;
    *axes = (PlanAxes){.experts = -1};
    if (text && strchr(text, '='))
        return read_names(a, d, mesh, axes);
    int n = 1;
    for (const char *at = text; at && (at = strchr(at, 'x')); at++)
        n++;
    if (text && strcmp(text, "auto") == 0)
        n = 2;
    if (n > MOST_UNNAMED)
        return diag_error(d, mesh->loc, "--plan auto needs the names of %d axes: write "
                          "pp=2,replicate=2,dp=4,tp=8", n);
    for (int i = 0; i < n; i++)
        add_axis(d, mesh->loc, axes, unnamed[n][i]);
    return true;
}

int64_t plan_axis_size(const PlanAxes *axes, const char *mesh, const char *axis)
{
    bool named = mesh && strchr(mesh, '=');
    int at = 0;
    for (const char *part = mesh; part && *part; at++) {
        size_t n = strcspn(part, "="), end = strcspn(part, named ? "," : "x");
        bool found = named ? strlen(axis) == n && strncmp(part, axis, n) == 0
                           : at < axes->n && strcmp(axes->name[at], axis) == 0;
        if (found)
            return strtoll(named ? part + n + 1 : part, NULL, 10);
        part += end;
        part += *part != 0;
    }
    return 1;
}

bool plan_axes_equal(const PlanAxes *axes, const PlanDecl *plan)
{
    bool equal = axes->n == plan->naxes;
    for (int i = 0; equal && i < axes->n; i++)
        equal = strcmp(axes->name[i], plan->axis[i].name) == 0;
    return equal;
}
