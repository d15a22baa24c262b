/* lower_path.c: checks that the patterns of a plan name modules or parameters of
 * the model.
 *
 *   layers.*.attention.wq     matches a module
 *   layers.40                 error: 'layers' has 32 elements, numbered from 0
 */
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"
#include "ir/plan/items.h"

/* ---- patterns ------------------------------------------------------------ */

int lower_mesh_axis(const Lower *l, const char *name)
{
    return row_index(l->p->mesh.name, l->p->mesh.n, name);
}

/* The array that is too short for the element that a pattern names, or too long
 * for a pattern that names elements; NULL if no array is. */
static const Instance *unfit_array(Lower *l, const char *pattern)
{
    for (int i = 0; i < l->instance.n; i++) {
        const Instance *m = l->instance.at[i];
        int last = path_depth(m->path) - 1;
        size_t size;
        PathRange r;
        if (!m->is_array || path_depth(pattern) <= last)
            continue;
        const char *index = path_segment(pattern, last, &size);
        const char *above =
            arena_strndup(l->arena, pattern, (size_t)(index - pattern));
        if (path_range(index, size, &r) &&
            (r.last >= m->length || m->length > MAX_CUT_ELEMENTS) &&
            path_matches(arena_printf(l->arena, "%s*", above), m->path))
            return m;
    }
    return NULL;
}

/* Arrays are cut as the selected plan needs them: for another plan, an element
 * is like all elements. */
static const char *own_path(const Lower *l, const char *path)
{
    return l->uncut ? path_all_elements(l->arena, path) : path;
}

static bool matches(const Lower *l, const char *pattern, const char *path)
{
    return path_matches(own_path(l, pattern), own_path(l, path));
}

static bool matches_module(const Lower *l, const char *pattern)
{
    for (int i = 0; i < l->p->module.n; i++)
        if (matches(l, pattern, l->p->module.at[i].path))
            return true;
    return false;
}

static bool matches_some_param(const Lower *l, const char *pattern)
{
    for (int i = 0; i < l->p->param.n; i++) {
        const Param *q = &l->p->param.at[i];
        if (matches(l, pattern, q->name))
            return true;
        for (int k = 0; k < q->nalias; k++)
            if (matches(l, pattern, q->alias[k]))
                return true;
    }
    return false;
}

static void no_path_match(Lower *l, const Path *path, const Instance *array,
                          bool params)
{
    NameList names = {.arena = l->arena};
    for (int i = 0; i < l->p->module.n && !array; i++)
        names_add(&names, own_path(l, l->p->module.at[i].path),
                  l->p->module.at[i].loc);
    for (int i = 0; params && i < l->p->param.n && !array; i++)
        names_add(&names, own_path(l, l->p->param.at[i].name),
                  l->p->param.at[i].loc);
    diag_error(l->diag, path->loc, "no module%s matches '%s'",
               params ? " or parameter" : "", path->text);
    if (!params && !array && matches_some_param(l, path->text)) {
        diag_help(l->diag, "'%s' is a parameter: in 'parallelize' it takes "
                  "Shard(dim) or Replicate", path->text);
        return;
    }
    if (array)
        diag_note(l->diag, array->loc, "'%s' has %lld elements, numbered "
                  "from 0", array->name, (long long)array->length);
    else
        names_suggest(l->diag, &names, path->text);
}

static void too_long(Lower *l, const Path *path, const Instance *array)
{
    diag_error(l->diag, path->loc, "'%s' names elements of an array of more "
               "than %d elements", path->text, MAX_CUT_ELEMENTS);
    diag_note(l->diag, array->loc, "'%s' has %lld elements", array->name,
              (long long)array->length);
    diag_help(l->diag, "name all elements: %s", array->path);
}

/* Whether a pattern names a child without an instance, or a module below it. */
static bool is_below_broken(Lower *l, const char *pattern)
{
    for (int i = 0; i < l->broken.n; i++) {
        int depth = path_depth(l->broken.at[i]);
        size_t size;
        if (path_depth(pattern) < depth)
            continue;
        const char *last = path_segment(pattern, depth - 1, &size);
        const char *above = arena_strndup(l->arena, pattern,
                                          (size_t)(last - pattern) + size);
        if (path_matches(above, l->broken.at[i]))
            return true;
    }
    return false;
}

/* An error of the model explains that a path has no match. */
bool lower_path_known(Lower *l, const Path *path, bool params)
{
    if (is_below_broken(l, path->text))
        return false;
    const Instance *array = unfit_array(l, path->text);
    if (!array && (matches_module(l, path->text) ||
                   (params && matches_some_param(l, path->text))))
        return true;
    if (array && array->length > MAX_CUT_ELEMENTS)
        too_long(l, path, array);
    else
        no_path_match(l, path, array, params);
    return false;
}

bool lower_class_known(Lower *l, const Item *item)
{
    NameList names = {.arena = l->arena};
    for (int i = 0; i < l->p->module.n; i++) {
        const Module *m = &l->p->module.at[i];
        if (strcmp(m->class, item->class_name) == 0)
            return true;
        names_add(&names, m->class, (Loc){0});
    }
    diag_error(l->diag, item->loc, "the model has no module of class '%s'",
               item->class_name);
    names_suggest(l->diag, &names, item->class_name);
    return false;
}
