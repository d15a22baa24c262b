/* read_style.c: checks the style of an item of `parallelize` as far as it needs
 * no modules: its name and its arguments. lower_style.c evaluates the layouts.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"

static void unknown_style(Lower *l, const Item *item)
{
    NameList names = {.arena = l->arena};
    for (int i = 0; i < style_count; i++)
        names_add(&names, style_table[i].name, (Loc){0});
    diag_error(l->diag, item->style_loc, "unknown style '%s'", item->style);
    names_suggest_or_list(l->diag, &names, item->style);
}

/* Arguments of PyTorch's styles that have no counterpart. */
static const struct ForeignArg {
    const char *name, *help;
} foreign_args[] = {
    {"use_local_output", "omit it: a tensor of PDL is the global tensor, never "
                         "a rank's part of it"},
    {"use_local_input", "omit it: a tensor of PDL is the global tensor, never "
                        "a rank's part of it"},
    {"input_kwarg_layouts", "inputs have positions only: give the layouts of "
                            "all inputs in order"},
    {"desired_input_kwarg_layouts", "inputs have positions only: give the "
                                    "layouts of all inputs in order"},
};

static void unknown_arg(Lower *l, const StyleInfo *info,
                        const Signature *s, const StyleArg *arg)
{
    NameList names = {.arena = l->arena};
    diag_error(l->diag, arg->name_loc, "%s has no argument '%s'", s->what,
               arg->name);
    const struct ForeignArg *foreign = table_find(foreign_args, arg->name);
    if (foreign) {
        diag_help(l->diag, "%s", foreign->help);
        return;
    }
    for (int i = 0; i < s->n; i++)
        if (i != s->many)
            names_add(&names, s->name[i], (Loc){0});
    names_suggest(l->diag, &names, arg->name);
    diag_help(l->diag, "write the style as in %s", info->form);
}

/* input and input_layouts are the same argument. */
static void check_repeated_argument(Lower *l, const Item *item, int i)
{
    const StyleArg *arg = &item->arg[i];
    for (int j = 0; j < i; j++) {
        const StyleArg *other = &item->arg[j];
        if (other->name &&
            strcmp(style_setting(other->name), style_setting(arg->name)) == 0) {
            diag_twice(l->diag, arg->name_loc, other->name_loc,
                       "'%s' is given twice", style_setting(arg->name));
            return;
        }
    }
}

/* The PrepareModule styles have no default layouts. */
static void check_layouts_given(Lower *l, const Item *item,
                                const StyleInfo *info)
{
    bool prepares = info->kind == STYLE_PREPARE_INPUT ||
                    info->kind == STYLE_PREPARE_OUTPUT ||
                    info->kind == STYLE_PREPARE_INPUT_OUTPUT;
    if (item->nargs > 0 || !prepares)
        return;
    diag_error(l->diag, item->style_loc, "'%s' needs the layouts of the "
               "module's tensors", item->style);
    diag_help(l->diag, "write the style as in %s", info->form);
}

/* PrepareModuleInput and PrepareModuleOutput accept layouts by position; other
 * arguments need a name. */
void read_style(Lower *l, const Item *item)
{
    const StyleInfo *info = style_find(item->style);
    if (!info) {
        unknown_style(l, item);
        return;
    }
    Signature s;
    signature_of_text(l->arena, info->name, info->settings, &s);
    check_layouts_given(l, item, info);
    for (int i = 0; i < item->nargs; i++) {
        const StyleArg *arg = &item->arg[i];
        if (!arg->name && s.many < 0)
            diag_error(l->diag, arg->from->loc, "%s takes its arguments by "
                       "name: write %s=…", s.what, s.name[0]);
        if (!arg->name)
            continue;
        if (style_takes(l->arena, info, arg->name))
            check_repeated_argument(l, item, i);
        else
            unknown_arg(l, info, &s, arg);
    }
}
