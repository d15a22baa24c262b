/* option_call.c: reads options that are calls: the optimizer and the schedule.
 *
 *   optimizer = AdamW(lr=3e-4)   Train.optimizer, and all arguments of AdamW
 *   optimizer = SGD              a call without arguments
 */
#include <string.h>

#include "base/text.h"
#include "frontend/options/options.h"

/* ---- choices ------------------------------------------------------------- */

static const OptionWord *find_choice(Lower *l, const Option *o, const Expr *e)
{
    NameList names;
    if (e->kind != EX_CALL && e->kind != EX_NAME) {
        diag_error(l->diag, e->range, "invalid %s", o->name);
        diag_help(l->diag, "such as %s", o->example);
        return NULL;
    }
    const OptionWord *found = option_find_word(l, o, e->name, &names);
    if (found)
        return found;
    diag_error(l->diag, e->loc, "unknown %s '%s'", o->name, e->name);
    names_suggest(l->diag, &names, e->name);
    diag_help(l->diag, "the choices are %s", option_words_text(l->arena, o, "and"));
    return NULL;
}

/* The arguments of a choice, by position in the signature. */
static void find_signature(Lower *l, const Option *call, const OptionWord *w,
                           Signature *s, const Option **argument)
{
    *s = (Signature){.many = -1,
                     .what = arena_printf(l->arena, "'%s'", w->name)};
    for (const Option *o = option_rows; o < option_rows + OPTIONS; o++) {
        if (o->scope != call->args || !option_is_of(o, w->value))
            continue;
        argument[s->n] = o;
        s->optional[s->n] = true;
        s->name[s->n++] = o->name;
    }
}

/* ---- arguments ----------------------------------------------------------- */

/* Gives all arguments of a choice their defaults. */
static void begin_choice(Lower *l, const Option *o, int choice, void *to)
{
    option_store_integer(o, to, choice);
    options_init(o->args, choice, to);
    if (o->args == SCOPE_OPTIMIZER)
        l->no_decay.n = l->groups.n = 0;
    if (o->args == SCOPE_SCHEDULE)
        option_store_integer(&option_rows[OPTION_schedule_warmup], to,
                             l->warmup);
}

/* Helps with the first argument that another library has. */
static void help_foreign(Lower *l, const Option *o, const Signature *s,
                         const Expr *e)
{
    for (int i = 0; i < e->nargs; i++) {
        const char *name = e->arg[i].name;
        const char *help = name && !row_find(s->name, s->n, name)
                               ? option_foreign(l->arena, o->args, name)
                               : NULL;
        if (help) {
            diag_help(l->diag, "%s", help);
            return;
        }
    }
}

static bool read_call(Lower *l, const Option *o, const Expr *e, void *to)
{
    const OptionWord *w = find_choice(l, o, e);
    if (!w)
        return false;
    begin_choice(l, o, w->value, to);
    if (e->kind == EX_NAME)
        return true;
    const Option *argument[MAX_FORMALS];
    Signature s;
    Bound bound;
    find_signature(l, o, w, &s, argument);
    if (!bind_call(l->arena, l->diag, &s, e, &bound)) {
        help_foreign(l, o, &s, e);
        return false;
    }
    bool fine = true;
    for (int i = 0; i < s.n; i++)
        if (bound.value[i])
            fine = option_read_setting(l, argument[i], bound.value[i], to) &&
                   fine;
    return fine;
}

bool option_read_setting(Lower *l, const Option *o, const Expr *e, void *to)
{
    return o->takes == TAKES_CALL       ? read_call(l, o, e, to)
           : o->takes == TAKES_PATTERNS ? option_read_no_decay(l, o, e)
           : o->takes == TAKES_GROUPS   ? option_read_groups(l, o, e)
                                        : option_read(l, o, e, to);
}

const Option *option_find_argument(Lower *l, const Option *call,
                                   const char *name, const void *of, Loc loc)
{
    int64_t choice = option_integer(call, of);
    NameList names = {.arena = l->arena};
    for (const Option *o = option_rows; o < option_rows + OPTIONS; o++) {
        if (o->scope != call->args || !option_is_of(o, (int)choice))
            continue;
        if (strcmp(o->name, name) == 0)
            return o;
        names_add(&names, o->name, (Loc){0});
    }
    diag_error(l->diag, loc, "%s has no setting '%s'",
               option_word((OptionName)(call - option_rows), choice), name);
    const char *foreign = option_foreign(l->arena, call->args, name);
    if (foreign)
        diag_help(l->diag, "%s", foreign);
    else
        names_suggest_or_list(l->diag, &names, name);
    return NULL;
}
