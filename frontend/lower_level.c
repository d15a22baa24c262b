/* lower_level.c: brings values into the regions of loops.
 *
 *   %t = param …
 *   loop … free(%u = %t) { … add %x, %u }     lower_import(%t) is %u
 */
#include "base/bug.h"
#include "frontend/lower.h"

static Value *find_seen(const Level *at, const Value *outer)
{
    for (int i = 0; i < at->from.n; i++)
        if (at->from.at[i] == outer)
            return at->here.at[i];
    return NULL;
}

Value *lower_bring_in(Lower *l, Level *at, Value *outer, bool stacked)
{
    Value *v = find_seen(at, outer);
    if (v)
        return v;
    v = stacked ? ir_loop_add_stack(l->p, at->loop, outer)
                : ir_loop_add_free(l->p, at->loop, outer);
    vec_push(l->arena, &at->from, outer);
    vec_push(l->arena, &at->here, v);
    return v;
}

Value *lower_import(Lower *l, Level *at, Value *v)
{
    if (v->region == at->region)
        return v;
    if (!at->outer)
        bug("value %%%s is read outside of its region", v->name);
    return lower_bring_in(l, at, lower_import(l, at->outer, v), false);
}
