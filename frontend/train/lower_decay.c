/* lower_decay.c: resolves no_decay=("*.bias", "*norm*"): parameters without
 * weight decay.
 *
 * A pattern is matched against the whole name of a parameter, such as
 * layers.*.attention.wq.weight; its '*' matches any characters, including dots
 * and the empty string. A tied parameter is matched by each of its names. All
 * elements of an array are matched together, even if the plan has split it into
 * runs: a plan does not change the results.
 */
#include <string.h>

#include "frontend/train/train.h"

/* Whether a pattern matches the whole name in the model, without runs:
 * "layers.*.weight" for "layers.2-3.weight". */
static bool matches(Arena *a, const char *pattern, const char *name)
{
    const char *whole = path_all_elements(a, name);
    return path_glob(pattern, strlen(pattern), whole, strlen(whole));
}

static bool pattern_matches_param(Arena *a, const char *pattern, const Param *p)
{
    bool found = matches(a, pattern, p->name);
    for (int i = 0; i < p->nalias; i++)
        found = found || matches(a, pattern, p->alias[i]);
    return found;
}

/* Reports a pattern that matches nothing. The suggestions are the parameters'
 * names and patterns such as "*.bias". */
static void no_decay_match(Lower *l, const DecayPattern *pattern)
{
    NameList names = {.arena = l->arena};
    const char *whole = path_all_elements(l->arena, pattern->text);
    diag_error(l->diag, pattern->loc, "'%s' matches no parameter",
               pattern->text);
    if (strcmp(whole, pattern->text) != 0) {
        diag_help(l->diag, "name all elements of an array: '%s'", whole);
        return;
    }
    for (int i = 0; i < l->p->param.n; i++) {
        const char *name = path_all_elements(l->arena, l->p->param.at[i].name);
        const char *dot = strrchr(name, '.');
        names_add(&names, name, (Loc){0});
        if (dot)
            names_add(&names, arena_printf(l->arena, "*%s", dot), (Loc){0});
    }
    names_suggest(l->diag, &names, pattern->text);
}

void lower_decay(Lower *l)
{
    for (int i = 0; i < l->no_decay.n; i++) {
        bool found = false;
        for (int k = 0; k < l->p->param.n; k++) {
            Param *p = &l->p->param.at[k];
            if (!pattern_matches_param(l->arena, l->no_decay.at[i].text, p))
                continue;
            found = true;
            p->decay = false;
        }
        if (!found)
            no_decay_match(l, &l->no_decay.at[i]);
    }
}
