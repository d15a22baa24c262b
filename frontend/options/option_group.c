/* option_group.c: reads the optimizer's groups of parameters and their patterns.
 *
 *   no_decay="*.bias"                             a pattern of Lower.no_decay
 *   groups=group("embed.*", lr_factor=0.1)        a pattern of Lower.groups
 *   groups=(group(("a.*", "b.*"), lr_factor=0.1), group("*norm*", …))
 *
 * frontend/train/lower_groups.c matches the patterns with parameters.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/options/options.h"

static const char group_word[] = "group";

/* ---- patterns ------------------------------------------------------------ */

static bool add_pattern(Lower *l, const Option *o, const Expr *e,
                        const GroupPattern *group, GroupPatterns *to)
{
    Datum d = lower_expr(l, e);
    if (d.kind == DATUM_POISON)
        return false;
    if (e->kind != EX_STRING)
        return lower_error(l, e->range,
                           arena_printf(l->arena, "such as %s=%s", o->name,
                                        o->example),
                           "a pattern must be a string, not %s",
                           datum_text(l->arena, d));
    GroupPattern pattern = *group;
    pattern.text = d.text;
    pattern.loc = e->range;
    vec_push(l->arena, to, pattern);
    return true;
}

static bool read_patterns(Lower *l, const Option *o, const Expr *e,
                          const GroupPattern *group, GroupPatterns *to)
{
    bool fine = true;
    if (e->kind != EX_TUPLE)
        return add_pattern(l, o, e, group, to);
    for (int i = 0; i < e->nargs; i++)
        fine = add_pattern(l, o, e->arg[i].value, group, to) && fine;
    return fine;
}

bool option_read_no_decay(Lower *l, const Option *o, const Expr *e)
{
    static const GroupPattern group = {
        .given = {[OPTION_group_decay] = true}};
    l->no_decay.n = 0;
    return read_patterns(l, o, e, &group, &l->no_decay);
}

/* ---- groups -------------------------------------------------------------- */

/* The arguments of `group`: first the patterns, then its settings. */
static Signature group_signature(OptionName *argument)
{
    Signature s = {.many = -1, .what = "'group'"};
    for (int i = 0; i < OPTIONS; i++) {
        if (option_rows[i].scope != SCOPE_GROUP)
            continue;
        argument[s.n] = (OptionName)i;
        s.optional[s.n] = option_rows[i].size > 0;
        s.name[s.n++] = option_rows[i].name;
    }
    return s;
}

/* Helps with the first argument that is none of `group`. */
static void help_argument(Lower *l, const Signature *s, const Expr *e)
{
    for (int i = 0; i < e->nargs; i++) {
        const char *name = e->arg[i].name;
        if (!name || row_find(s->name, s->n, name))
            continue;
        const char *help =
            strcmp(name, option_name(OPTION_lr)) == 0
                ? arena_printf(l->arena, "write %s=…: the group's learning rate "
                               "divided by the optimizer's",
                               option_name(OPTION_lr_factor))
                : option_foreign(l->arena, SCOPE_GROUP, name);
        if (help)
            diag_help(l->diag, "%s", help);
        return;
    }
}

static bool read_group(Lower *l, const Option *o, const Expr *e)
{
    OptionName argument[MAX_FORMALS];
    Signature s = group_signature(argument);
    Bound bound;
    GroupPattern group = {0};
    bool fine = true, any = false;
    if (e->kind != EX_CALL || strcmp(e->name, group_word) != 0)
        return lower_error(l, e->range,
                           arena_printf(l->arena, "write %s=%s, or several "
                                        "groups in parentheses", o->name,
                                        o->example),
                           "'%s' must be calls of '%s'", o->name, group_word);
    if (!bind_call(l->arena, l->diag, &s, e, &bound)) {
        help_argument(l, &s, e);
        return false;
    }
    for (int i = 0; i < s.n; i++)
        if (s.optional[i] && bound.value[i]) {
            any = group.given[argument[i]] = true;
            fine = option_read(l, &option_rows[argument[i]], bound.value[i],
                               &group.group) && fine;
        }
    if (!any)
        fine = lower_error(l, e->range,
                           arena_printf(l->arena, "such as %s", o->example),
                           "the group changes no setting");
    return read_patterns(l, &option_rows[OPTION_patterns], bound.value[0],
                         &group, &l->groups) && fine;
}

bool option_read_groups(Lower *l, const Option *o, const Expr *e)
{
    bool fine = true;
    l->groups.n = 0;
    if (e->kind != EX_TUPLE)
        return read_group(l, o, e);
    for (int i = 0; i < e->nargs; i++)
        fine = read_group(l, o, e->arg[i].value) && fine;
    return fine;
}
