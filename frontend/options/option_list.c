/* option_list.c: reads the options after the colon of a plan's item.
 *
 *   layers.*: prefetch=2, reshard=false    Unit.prefetch 2, Unit.reshard 0
 */
#include <string.h>

#include "frontend/options/options.h"

static void refuse(Lower *l, ClauseKind clause, const Arg *arg, const Option *o)
{
    OptionScope scope = clause_rows[clause].scope;
    if (scope == NO_OPTIONS) {
        diag_error(l->diag, arg->name_loc, "%s has no options",
                   clause_name(clause));
    } else if (o && o->instead) {
        diag_error(l->diag, arg->name_loc, "the option '%s' of %s is not "
                   "supported yet", o->name, clause_name(clause));
        diag_help(l->diag, "%s", o->instead);
    } else {
        diag_error(l->diag, arg->name_loc, "%s has no option '%s'",
                   clause_name(clause), arg->name);
        option_help(l, scope, arg->name);
    }
}

void options_read(Lower *l, ClauseKind clause, const Item *item, void *to,
                  GivenOptions *given)
{
    OptionScope scope = clause_rows[clause].scope;
    *given = (GivenOptions){{NULL}};
    options_init(scope, 0, to);
    for (int i = 0; i < item->noptions; i++) {
        const Arg *arg = &item->option[i];
        const Option *o =
            scope == NO_OPTIONS ? NULL : option_find(scope, arg->name);
        if (!o || !option_is_usable(o)) {
            refuse(l, clause, arg, o);
            continue;
        }
        const Arg **at = &given->at[o - option_rows];
        if (*at)
            diag_error(l->diag, arg->name_loc, "'%s' is given twice", o->name);
        if (option_read(l, o, arg->value, to))
            *at = arg;
    }
}
