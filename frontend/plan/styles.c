/* styles.c: the table of styles that a plan can name, and layouts as a plan
 * writes them. Checks the style of an item as far as it needs no modules: its
 * name and its arguments.
 *
 *   Shard(-1)   {LAYOUT_SHARD, -1}
 *   Partial     {LAYOUT_PARTIAL}
 */
#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"

static const StyleInfo style_table[] = {
    {"ColwiseParallel", STYLE_COLWISE,
     "input=, output=, input_layouts=, output_layouts=",
     "ColwiseParallel(input=Shard(1), output=Replicate)"},
    {"RowwiseParallel", STYLE_ROWWISE,
     "input=, output=, input_layouts=, output_layouts=",
     "RowwiseParallel(input=Shard(-1), output=Shard(1))"},
    {"SequenceParallel", STYLE_SEQUENCE, "layout..., sequence_dim=",
     "SequenceParallel(Shard(1))"},
    {"PrepareModuleInput", STYLE_PREPARE_INPUT,
     "layouts..., input_layouts=, desired_input_layouts=",
     "PrepareModuleInput(Shard(1) -> Replicate)"},
    {"PrepareModuleOutput", STYLE_PREPARE_OUTPUT,
     "layouts..., output_layouts=, desired_output_layouts=",
     "PrepareModuleOutput(Replicate -> Shard(1))"},
    {"PrepareModuleInputOutput", STYLE_PREPARE_INPUT_OUTPUT,
     "input=, output=, input_layouts=, desired_input_layouts=, "
     "output_layouts=, desired_output_layouts=",
     "PrepareModuleInputOutput(input=Shard(1) -> Replicate, "
     "output=Replicate -> Shard(1))"},
    {"Shard", STYLE_PARAMETER, "dim..., dim=", "Shard(0)"},
    {"Replicate", STYLE_PARAMETER, "nothing...", "Replicate"},
};
enum { STYLE_COUNT = sizeof style_table / sizeof *style_table };

const StyleInfo *style_find(const char *name)
{
    return table_find(style_table, name);
}

bool style_takes(Arena *a, const StyleInfo *style, const char *name)
{
    Signature s;
    signature_of_text(a, style->name, style->settings, &s);
    for (int i = 0; i < s.n; i++)
        if (i != s.many && strcmp(s.name[i], name) == 0)
            return true;
    return false;
}

const char *style_setting(const char *name)
{
    return strcmp(name, "input_layouts") == 0    ? "input"
           : strcmp(name, "output_layouts") == 0 ? "output"
                                                 : name;
}

/* ---- layouts ------------------------------------------------------------- */

static bool bad_layout(Lower *l, const Expr *e)
{
    diag_error(l->diag, e->range, "this is not a layout");
    if (e->kind == EX_INT)
        diag_help(l->diag, "write Shard(%lld) to split dim %lld",
                  (long long)e->integer, (long long)e->integer);
    else
        diag_help(l->diag,
                  "layouts are Replicate, Shard(dim), Partial and none");
    return false;
}

static bool shard_dim(Lower *l, const Expr *e, Layout *to)
{
    bool one = e->nargs == 1 &&
               (!e->arg[0].name || strcmp(e->arg[0].name, "dim") == 0);
    const Expr *d = one ? e->arg[0].value : NULL;
    int sign = 1;
    if (d && d->kind == EX_NEG) {
        sign = -1;
        d = d->arg[0].value;
    }
    if (!d || d->kind != EX_INT || d->integer > INT_MAX)
        return bad_layout(l, e);
    *to = layout_shard(sign * (int)d->integer);
    return true;
}

bool lower_layout(Lower *l, const Expr *e, Layout *to)
{
    static const struct Name {
        const char *name;
        LayoutKind kind;
    } table[] = {
        {"Replicate", LAYOUT_REPLICATE}, {"R", LAYOUT_REPLICATE},
        {"Partial", LAYOUT_PARTIAL},     {"P", LAYOUT_PARTIAL},
    };
    *to = (Layout){LAYOUT_NONE, 0};
    if (e->kind == EX_NONE)
        return true;
    if (e->kind != EX_NAME && e->kind != EX_CALL)
        return bad_layout(l, e);
    if (e->kind == EX_CALL && (strcmp(e->name, "Shard") == 0 ||
                               strcmp(e->name, "S") == 0))
        return shard_dim(l, e, to);
    const struct Name *row = table_find(table, e->name);
    if (!row || e->nargs > 0)
        return bad_layout(l, e);
    to->kind = row->kind;
    return true;
}

/* ---- the style of an item ------------------------------------------------- */

static void unknown_style(Lower *l, const Item *item)
{
    NameList names = {.arena = l->arena};
    for (int i = 0; i < STYLE_COUNT; i++)
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
