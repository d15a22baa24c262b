/* check_checkpoint.c: checks the options of `checkpoint` items.
 *
 * Only lowering knows the modules; paths are checked there.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"
#include "ir/plan_spec.h"

enum { MAX_EVERY = 1 << 30 };

static void check_keep(Arena *a, Diag *d, const Expr *e)
{
    bool named = e->kind == EX_NAME || e->kind == EX_STRING;
    NameList names = {.arena = a};
    const char *all = "";

    for (int k = 0; keep_words[k]; k++) {
        if (named && strcmp(keep_words[k], e->name) == 0)
            return;
        names_add(&names, keep_words[k], (Loc){0});
        all = arena_printf(a, "%s%s%s", all, k ? ", " : "", keep_words[k]);
    }
    diag_error(d, e->range, "invalid value%s%s%s for 'keep'",
               named ? " '" : "", named ? e->name : "", named ? "'" : "");
    if (named)
        names_suggest(d, &names, e->name);
    diag_help(d, "use one of %s, or several: keep=(%s)", all, all);
}

static void check_option(Arena *a, Diag *d, const Arg *option)
{
    const Expr *e = option->value;

    if (strcmp(option->name, "keep") == 0) {
        for (int i = 0; e->kind == EX_TUPLE && i < e->nargs; i++)
            check_keep(a, d, e->arg[i].value);
        if (e->kind != EX_TUPLE)
            check_keep(a, d, e);
        return;
    }
    if (strcmp(option->name, "every") == 0) {
        if (e->kind == EX_INT && e->integer > 0 && e->integer <= MAX_EVERY)
            return;
        diag_error(d, e->range, "'every' must be a positive integer: every=2 "
                   "takes every second element of an array");
        return;
    }
    NameList names = {.arena = a};
    names_add(&names, "keep", (Loc){0});
    names_add(&names, "every", (Loc){0});
    diag_error(d, option->name_loc, "checkpoint has no option '%s'",
               option->name);
    names_suggest_or_list(d, &names, option->name);
}

void check_checkpoint(Arena *a, Diag *d, const Clause *clause)
{
    for (int i = 0; i < clause->nitems; i++) {
        const Item *item = &clause->item[i];
        if (item->min_params) {
            diag_error(d, item->loc, "checkpoint takes paths and 'every "
                       "Module', not sizes");
            diag_help(d, "such as 'layers.*' or 'every TransformerBlock'");
        }
        for (int k = 0; k < item->noptions; k++) {
            const Arg *option = &item->option[k];
            check_option(a, d, option);
            if (row_find(item->option, k, option->name))
                diag_error(d, option->name_loc, "'%s' is given twice",
                           option->name);
        }
    }
}
