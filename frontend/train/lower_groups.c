/* lower_groups.c: gives parameters the settings of the optimizer's groups.
 *
 *   no_decay="*.bias"                          Param.decay = false
 *   groups=group("embed.*", lr_factor=0.1)     Param.group.lr_factor = 0.1
 *
 * A pattern is matched against the whole name of a parameter, such as
 * layers.*.attention.wq.weight; its '*' matches any characters, including dots
 * and the empty string. A tied parameter is matched by each of its names. All
 * elements of an array are matched together, even if the plan has split it into
 * runs: a plan does not change the results.
 *
 * `no_decay` is a group with weight_decay=0. If several patterns match a
 * parameter and set the same setting, the most specific one applies.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/options/options.h"
#include "frontend/train/train.h"

/* ---- patterns ------------------------------------------------------------ */

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
static void no_match(Lower *l, const GroupPattern *pattern)
{
    NameList names = {.arena = l->arena};
    const char *whole = path_all_elements(l->arena, pattern->text);
    const char *inside = arena_printf(l->arena, "%s.*", pattern->text);
    diag_error(l->diag, pattern->loc, "'%s' matches no parameter",
               pattern->text);
    if (strcmp(whole, pattern->text) != 0) {
        diag_help(l->diag, "name all elements of an array: '%s'", whole);
        return;
    }
    for (int i = 0; i < l->p->param.n; i++) {
        const char *name = path_all_elements(l->arena, l->p->param.at[i].name);
        const char *dot = strrchr(name, '.');
        if (pattern_matches_param(l->arena, inside, &l->p->param.at[i])) {
            diag_help(l->diag, "it is a module: '%s' matches its parameters",
                      inside);
            return;
        }
        names_add(&names, name, (Loc){0});
        if (dot)
            names_add(&names, arena_printf(l->arena, "*%s", dot), (Loc){0});
    }
    names_suggest(l->diag, &names, pattern->text);
}

static void check_patterns(Lower *l, const GroupPatterns *list)
{
    for (int i = 0; i < list->n; i++) {
        bool found = false;
        for (int k = 0; k < l->p->param.n; k++)
            found = found || pattern_matches_param(l->arena, list->at[i].text,
                                                   &l->p->param.at[k]);
        if (!found)
            no_match(l, &list->at[i]);
    }
}

/* ---- settings ------------------------------------------------------------ */

static double group_value(const Option *o, const ParamGroup *group)
{
    return option_is_number(o) ? option_number(o, group, 0)
                               : (double)option_integer(o, group);
}

static void report_tie(Lower *l, const Option *o, const GroupPattern *one,
                       const GroupPattern *other, const Param *p)
{
    diag_error(l->diag, other->loc, "'%s' and '%s' are equally specific and set "
               "different values of '%s' for '%s'", one->text, other->text,
               o->name, path_all_elements(l->arena, p->name));
    diag_note(l->diag, one->loc, "the other pattern");
    diag_help(l->diag, "of several patterns the one with the most whole names "
              "between dots applies: write a group for '%s'",
              path_all_elements(l->arena, p->name));
}

/* The most specific pattern that sets the option for the parameter; NULL: none.
 * *tie: an equally specific one with another value, or NULL. */
static const GroupPattern *choose(Lower *l, const GroupPatterns *list, int n,
                                  const Option *o, const Param *p,
                                  const GroupPattern **tie)
{
    const GroupPattern *best = NULL;
    *tie = NULL;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < list[i].n; k++) {
            const GroupPattern *g = &list[i].at[k];
            if (!g->given[o - option_rows] ||
                !pattern_matches_param(l->arena, g->text, p))
                continue;
            int more = best ? path_specificity(g->text) -
                                  path_specificity(best->text)
                            : 1;
            if (more > 0) {
                best = g;
                *tie = NULL;
            } else if (more == 0 && group_value(o, &g->group) !=
                                        group_value(o, &best->group)) {
                *tie = g;
            }
        }
    return best;
}

static void set_lr_factor(const Train *t, Param *p, double x)
{
    (void)t;
    p->group.lr_factor = x == 1 ? 0 : x;
}

static void set_weight_decay(const Train *t, Param *p, double x)
{
    p->decay = x > 0;
    p->group.weight_decay = x == t->weight_decay ? 0 : x;
}

static void set_optimizer(const Train *t, Param *p, double x)
{
    (void)t;
    p->group.adamw = x != 0;
}

/* The settings of a group. */
static const struct GroupSetting {
    OptionName id;
    void (*set)(const Train *t, Param *p, double x);
} group_settings[] = {
    {OPTION_lr_factor, set_lr_factor},
    {OPTION_group_decay, set_weight_decay},
    {OPTION_group_optimizer, set_optimizer},
};
enum { GROUP_SETTINGS = sizeof group_settings / sizeof *group_settings };

/* Only Muon has groups with another optimizer. */
static void check_optimizers(Lower *l)
{
    const Train *t = &l->p->train;
    for (int i = 0; i < l->groups.n && t->optimizer != OPT_MUON; i++) {
        const GroupPattern *g = &l->groups.at[i];
        if (!g->given[OPTION_group_optimizer])
            continue;
        diag_error(l->diag, g->loc, "a group of %s has no optimizer of its own",
                   option_word(OPTION_optimizer, t->optimizer));
        diag_help(l->diag, "only groups of %s have: %s=%s or %s",
                  option_word(OPTION_optimizer, OPT_MUON),
                  option_name(OPTION_group_optimizer),
                  option_word(OPTION_group_optimizer, true),
                  option_word(OPTION_group_optimizer, false));
        return;
    }
}

/* Muon updates matrices only. */
static void check_matrices(Lower *l)
{
    Program *p = l->p;
    const Param *first = NULL;
    int n = 0;
    for (int i = 0; i < p->param.n; i++) {
        const Param *q = &p->param.at[i];
        if (param_optimizer(&p->train, q) != OPT_MUON || q->type.ndim == 2)
            continue;
        first = first ? first : q;
        n++;
    }
    if (!first)
        return;
    diag_error(l->diag, first->loc,
               "Muon updates matrices, and '%s' has %d dim%s%s",
               path_all_elements(l->arena, first->name), first->type.ndim,
               first->type.ndim == 1 ? "" : "s",
               n > 1 ? arena_printf(l->arena, "; so do %d other parameters "
                                    "without two dims", n - 1) : "");
    diag_help(l->diag, "AdamW can update it: groups=group(\"%s\", %s=%s); "
              "a table of embeddings and the head belong to this group too",
              path_all_elements(l->arena, first->name),
              option_name(OPTION_group_optimizer),
              option_word(OPTION_group_optimizer, true));
}

void lower_groups(Lower *l)
{
    const GroupPatterns lists[] = {l->no_decay, l->groups};
    Program *program = l->p;
    for (int i = 0; i < 2; i++)
        check_patterns(l, &lists[i]);
    check_optimizers(l);
    for (int s = 0; s < GROUP_SETTINGS; s++) {
        const Option *o = &option_rows[group_settings[s].id];
        for (int i = 0; i < program->param.n; i++) {
            const GroupPattern *tie;
            Param *p = &program->param.at[i];
            const GroupPattern *g = choose(l, lists, 2, o, p, &tie);
            if (g)
                group_settings[s].set(&program->train, p,
                                      option_number(o, &g->group, 0));
            if (tie) {
                report_tie(l, o, g, tie, p);
                break;
            }
        }
    }
    check_matrices(l);
}
