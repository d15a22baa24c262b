/* lower_checkpoint.c: resolves the plan's `checkpoint` clauses against the
 * modules of the model.
 *
 * The backward pass recomputes the values of the named modules; `keep` names
 * results to save instead.
 *
 * before   checkpoint { layers.*: keep=attention, every=2 }
 * after    PlanSpec.checkpoint: paths {"layers.*"}, every 2, KEEP_ATTENTION
 */
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"
#include "ir/plan/checkpoint.h"
#include "ir/units.h"

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

static bool find_paths(Lower *l, const Item *item, Checkpoint *c)
{
    const char **path = NEW_ARRAY(l->arena, const char *, item->npaths);
    bool fine = true;

    for (int i = 0; i < item->npaths; i++) {
        path[i] = item->path[i].text;
        fine = lower_path_known(l, &item->path[i], false) && fine;
    }
    c->path = path;
    c->npaths = item->npaths;
    return fine;
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

void lower_checkpoints(Lower *l)
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
        bool fine = item->class_name ? lower_class_known(l, item)
                                     : find_paths(l, item, &c);
        if (fine && check_every(l, item, &c) &&
            check_not_repeated(l, item, &c, &list))
            vec_push(l->arena, &list, c);
    }
    l->p->plan.checkpoint = list.at;
    l->p->plan.ncheckpoints = list.n;
}
