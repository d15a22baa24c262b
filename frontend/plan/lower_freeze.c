/* lower_freeze.c: resolves the plan's `freeze` clauses: parameters that are not
 * trained.
 *
 * A pattern names a parameter, or a module with all its parameters. Any name of
 * a tied parameter freezes it. A frozen parameter has no gradient and no
 * optimizer state.
 */
#include <string.h>

#include "frontend/plan/plan.h"
#include "ir/units.h"

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

void lower_freeze(Lower *l, const Clause *c)
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
