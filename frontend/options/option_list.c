/* option_list.c: reads the options after the colon of a plan's item.
 *
 *   layers.*: prefetch=2, reshard=false    Unit.prefetch 2, Unit.reshard 0
 */
#include <string.h>

#include "frontend/options/options.h"

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
        if (!o || o->selects) {
            diag_error(l->diag, arg->name_loc, "%s has no option%s%s%s",
                       clause_name(clause), scope == NO_OPTIONS ? "s" : " '",
                       scope == NO_OPTIONS ? "" : arg->name,
                       scope == NO_OPTIONS ? "" : "'");
            if (scope != NO_OPTIONS)
                option_help(l, scope, arg->name);
            continue;
        }
        const Arg **slot = &given->at[o - option_rows];
        if (*slot)
            diag_error(l->diag, arg->name_loc, "'%s' is given twice", o->name);
        if (option_read(l, o, arg->value, to))
            *slot = arg;
    }
}
