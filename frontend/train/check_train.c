/* check_train.c: checks the settings of a `train` block: names, duplicates, and
 * the arguments of optimizers and schedules. The tables are shared with
 * lowering.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/train/train.h"

/* ---- settings that are calls --------------------------------------------- */

static const Choice optimizers[] = {
    {"SGD", OPT_SGD, "lr=, momentum=, weight_decay=, no_decay="},
    {"Adam", OPT_ADAM, "lr=, betas=, eps=, weight_decay=, no_decay="},
    {"AdamW", OPT_ADAMW, "lr=, betas=, eps=, weight_decay=, no_decay="},
};
static const Choice schedules[] = {
    {"constant", SCHEDULE_CONSTANT, "warmup="},
    {"linear", SCHEDULE_LINEAR, "steps=, warmup=, min_lr="},
    {"cosine", SCHEDULE_COSINE, "steps=, warmup=, min_lr="},
};

const ChoiceSet optimizer_choices = {
    "optimizer", "AdamW(lr=3e-4)", "SGD, Adam and AdamW", 3, optimizers};
const ChoiceSet schedule_choices = {
    "schedule", "cosine(steps=1000, warmup=100)",
    "constant, linear and cosine", 3, schedules};

const ChoiceSet *choices_of(const char *setting)
{
    if (strcmp(setting, optimizer_choices.setting) == 0)
        return &optimizer_choices;
    return strcmp(setting, schedule_choices.setting) == 0 ? &schedule_choices
                                                          : NULL;
}

const Choice *choice_of(Arena *a, Diag *d, const ChoiceSet *set,
                        const Expr *e)
{
    NameList names = {.arena = a};
    if (e->kind != EX_CALL && e->kind != EX_NAME) {
        diag_error(d, e->range, "invalid %s", set->setting);
        diag_help(d, "such as %s", set->example);
        return NULL;
    }
    const Choice *choice = row_find(set->at, set->n, e->name);
    if (choice)
        return choice;
    for (int i = 0; i < set->n; i++)
        names_add(&names, set->at[i].name, (Loc){0});
    diag_error(d, e->loc, "unknown %s '%s'", set->setting, e->name);
    names_suggest(d, &names, e->name);
    diag_help(d, "the choices are %s", set->all);
    return NULL;
}

/* ---- settings ------------------------------------------------------------ */

static const char *const settings[] = {
    "batch", "seq", "precision", "optimizer", "accumulate", "clip", "schedule",
    "head_chunk", "warmup", "loss_scale", "reduce", "epilogues",
    "deterministic",
};
enum { SETTINGS = sizeof settings / sizeof *settings };

bool setting_known(const char *name)
{
    return table_find(settings, name) != NULL;
}

void settings_add(NameList *l)
{
    for (int i = 0; i < SETTINGS; i++)
        names_add(l, settings[i], (Loc){0});
}

const char *setting_owner(const char *name)
{
    static const ChoiceSet *const sets[] = {&optimizer_choices,
                                            &schedule_choices};
    size_t n = strlen(name);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < sets[i]->n; k++)
            for (const char *s = sets[i]->at[k].signature;
                 (s = strstr(s, name)); s++)
                if (s[n] == '=' && (s == sets[i]->at[k].signature ||
                                    s[-1] == ' '))
                    return sets[i]->setting;
    return NULL;
}

void setting_refused(Arena *a, Diag *d, const Setting *s)
{
    NameList names = {.arena = a};
    settings_add(&names);
    const char *owner = setting_owner(s->name.name);
    diag_error(d, s->name.loc, "unknown train setting '%s'", s->name.name);
    if (owner)
        diag_help(d, "it is an argument of the %s: %s = NAME(%s=…)", owner,
                  owner, s->name.name);
    else
        names_suggest(d, &names, s->name.name);
}

static void check_choice(Arena *a, Diag *d, const ChoiceSet *set,
                         const Expr *e)
{
    Signature s;
    Bound bound;
    const Choice *choice = choice_of(a, d, set, e);
    if (!choice || e->kind == EX_NAME)
        return;
    signature_of_text(a, choice->name, choice->signature, &s);
    bind_call(a, d, &s, e, &bound);
}

/* The warmup may be a setting or an argument of the schedule, not both. */
static void check_warmup(Diag *d, const File *file, const Expr *schedule)
{
    const Setting *plain = row_find(file->setting, file->nsettings, "warmup");
    for (int i = 0; plain && schedule->kind == EX_CALL && i < schedule->nargs;
         i++) {
        const Arg *arg = &schedule->arg[i];
        if (!arg->name || strcmp(arg->name, "warmup") != 0)
            continue;
        diag_error(d, plain->name.loc, "'warmup' is set twice");
        diag_note(d, arg->name_loc, "the schedule sets it too");
    }
}

void check_train(Arena *a, Diag *d, const File *file)
{
    for (int i = 0; i < file->nsettings; i++) {
        const Setting *s = &file->setting[i];
        names_check_new(d, file->setting, i, "set");
        const ChoiceSet *set = choices_of(s->name.name);
        if (!setting_known(s->name.name))
            setting_refused(a, d, s);
        else if (set)
            check_choice(a, d, set, s->value);
        if (set == &schedule_choices)
            check_warmup(d, file, s->value);
    }
}
