/* check_plan.c: checks plans as far as they need no modules: axes, styles,
 * options and their arguments. Paths and sizes are checked by lowering.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"

typedef struct PlanCheck {
    Arena *arena;
    Diag *diag;
    const PlanDecl *plan;
} PlanCheck;

/* ---- axes ---------------------------------------------------------------- */

static void check_plan_axes(PlanCheck *c)
{
    const PlanDecl *p = c->plan;
    if (p->naxes == 0)
        diag_error(c->diag, p->name.loc, "plan '%s' has no axes: declare "
                   "them, as in plan %s(dp, tp)", p->name.name, p->name.name);
    if (p->naxes > MAX_MESH_AXES)
        diag_error(c->diag, p->axis[MAX_MESH_AXES].loc,
                   "a plan has at most %d axes", MAX_MESH_AXES);
    for (int i = 0; i < p->naxes; i++)
        names_check_new(c->diag, p->axis, i, "declared");
}

static void check_axis(PlanCheck *c, const Ident *axis)
{
    NameList names = {.arena = c->arena};
    for (int i = 0; i < c->plan->naxes; i++) {
        if (strcmp(c->plan->axis[i].name, axis->name) == 0)
            return;
        names_add(&names, c->plan->axis[i].name, c->plan->axis[i].loc);
    }
    diag_error(c->diag, axis->loc, "plan '%s' has no axis '%s'",
               c->plan->name.name, axis->name);
    names_suggest_or_list(c->diag, &names, axis->name);
}

/* ---- styles -------------------------------------------------------------- */

static void unknown_style(PlanCheck *c, const Item *item)
{
    NameList names = {.arena = c->arena};
    for (int i = 0; i < style_count; i++)
        names_add(&names, style_table[i].name, (Loc){0});
    diag_error(c->diag, item->style_loc, "unknown style '%s'", item->style);
    names_suggest_or_list(c->diag, &names, item->style);
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

static void unknown_arg(PlanCheck *c, const StyleInfo *info,
                        const Signature *s, const StyleArg *arg)
{
    NameList names = {.arena = c->arena};
    diag_error(c->diag, arg->name_loc, "%s has no argument '%s'", s->what,
               arg->name);
    const struct ForeignArg *foreign = table_find(foreign_args, arg->name);
    if (foreign) {
        diag_help(c->diag, "%s", foreign->help);
        return;
    }
    for (int i = 0; i < s->n; i++)
        if (i != s->many)
            names_add(&names, s->name[i], (Loc){0});
    names_suggest(c->diag, &names, arg->name);
    diag_help(c->diag, "write the style as in %s", info->form);
}

/* input and input_layouts are the same argument. */
static void check_repeated_argument(PlanCheck *c, const Item *item, int i)
{
    const StyleArg *arg = &item->arg[i];
    for (int j = 0; j < i; j++) {
        const StyleArg *other = &item->arg[j];
        if (other->name &&
            strcmp(style_setting(other->name), style_setting(arg->name)) == 0) {
            diag_twice(c->diag, arg->name_loc, other->name_loc,
                       "'%s' is given twice", style_setting(arg->name));
            return;
        }
    }
}

/* The PrepareModule styles have no default layouts. */
static void check_layouts_given(PlanCheck *c, const Item *item,
                                const StyleInfo *info)
{
    bool prepares = info->kind == STYLE_PREPARE_INPUT ||
                    info->kind == STYLE_PREPARE_OUTPUT ||
                    info->kind == STYLE_PREPARE_INPUT_OUTPUT;
    if (item->nargs > 0 || !prepares)
        return;
    diag_error(c->diag, item->style_loc, "'%s' needs the layouts of the "
               "module's tensors", item->style);
    diag_help(c->diag, "write the style as in %s", info->form);
}

/* PrepareModuleInput and PrepareModuleOutput accept layouts by position; other
 * arguments need a name. */
static void check_style(PlanCheck *c, const Item *item)
{
    const StyleInfo *info = style_find(item->style);
    if (!info) {
        unknown_style(c, item);
        return;
    }
    Signature s;
    signature_of_text(c->arena, info->name, info->settings, &s);
    check_layouts_given(c, item, info);
    for (int i = 0; i < item->nargs; i++) {
        const StyleArg *arg = &item->arg[i];
        if (!arg->name && s.many < 0)
            diag_error(c->diag, arg->from->loc, "%s takes its arguments by "
                       "name: write %s=…", s.what, s.name[0]);
        if (!arg->name)
            continue;
        if (style_takes(c->arena, info, arg->name))
            check_repeated_argument(c, item, i);
        else
            unknown_arg(c, info, &s, arg);
    }
}

static void check_parallelize(PlanCheck *c, const Clause *clause)
{
    check_axis(c, &clause->axis[0]);
    for (int i = 0; i < clause->nitems; i++)
        if (clause->item[i].style)
            check_style(c, &clause->item[i]);
}

static void check_fully_shard(PlanCheck *c, const Clause *clause)
{
    for (int i = 0; i < clause->naxes; i++)
        check_axis(c, &clause->axis[i]);
    if (clause->naxes == 2 &&
        strcmp(clause->axis[0].name, clause->axis[1].name) == 0)
        diag_error(c->diag, clause->axis[1].loc,
                   "replicas and shards need two different axes");
    for (int i = 0; i < clause->nitems; i++)
        check_unit(c->arena, c->diag, clause, &clause->item[i]);
}

/* ---- parameters that are not trained ------------------------------------- */

static void check_freeze(PlanCheck *c, const Clause *clause)
{
    for (int i = 0; i < clause->nitems; i++) {
        const Item *item = &clause->item[i];
        for (int j = 0; j < item->noptions; j++)
            diag_error(c->diag, item->option[j].name_loc,
                       "freeze has no options");
        if (!item->min_params)
            continue;
        diag_error(c->diag, item->loc, "freeze does not support min_params");
        diag_help(c->diag, "name paths, or 'every Module'");
    }
}

/* ---- plans --------------------------------------------------------------- */

static void check_clause(PlanCheck *c, const Clause *clause)
{
    if (clause->kind == CL_PARALLELIZE)
        check_parallelize(c, clause);
    else if (clause->kind == CL_FULLY_SHARD)
        check_fully_shard(c, clause);
    else if (clause->kind == CL_FREEZE)
        check_freeze(c, clause);
    else if (clause->kind == CL_CHECKPOINT)
        check_checkpoint(c->arena, c->diag, clause);
    else
        check_offload(c->arena, c->diag, clause);
}

static void check_plan(PlanCheck *c, const File *file)
{
    const PlanDecl *p = c->plan;
    const PlanDecl *first = file_find_plan(file, p->name.name);
    if (first != p)
        diag_twice(c->diag, p->name.loc, first->name.loc,
                   "'%s' is declared twice", p->name.name);
    check_plan_axes(c);
    for (int k = 0; k < p->nclauses; k++)
        check_clause(c, &p->clause[k]);
}

/* An error in a plan does not stop the compilation of another plan. Without a
 * valid --plan, errors in every plan count. */
void check_plans(Arena *a, Diag *d, const File *file, const char *plan)
{
    bool selected = file_find_plan(file, plan);
    for (int i = 0; i < file->nplans; i++) {
        PlanCheck c = {a, d, file->plan[i]};
        const Ident *name = &file->plan[i]->name;
        bool other = selected && strcmp(name->name, plan) != 0;
        int before = diag_warning_count(d);
        diag_demote(d, other);
        check_plan(&c, file);
        diag_demote(d, false);
        if (other && diag_warning_count(d) > before)
            diag_note(d, name->loc, "plan '%s' is not selected: --plan "
                      "selects '%s'", name->name, plan);
    }
}
