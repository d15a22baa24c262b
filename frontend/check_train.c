/* check_train.c: the names that a `train` block may have. */
#include <string.h>

#include "frontend/check.h"

/* ---- optimizers ---------------------------------------------------------- */

static const OptimizerInfo optimizer_table[] = {
    {"SGD", OPT_SGD, "lr=, momentum=, weight_decay="},
    {"Adam", OPT_ADAM, "lr=, betas=, eps=, weight_decay="},
    {"AdamW", OPT_ADAMW, "lr=, betas=, eps=, weight_decay="},
};
enum { OPTIMIZERS = sizeof optimizer_table / sizeof *optimizer_table };

const OptimizerInfo *optimizer_find(const char *name)
{
    for (int i = 0; i < OPTIMIZERS; i++)
        if (strcmp(optimizer_table[i].name, name) == 0)
            return &optimizer_table[i];
    return NULL;
}

const OptimizerInfo *optimizer_info(OptimizerKind kind)
{
    return &optimizer_table[kind];
}

void optimizer_unknown(Arena *a, Diag *d, const Expr *e)
{
    NameList names = {.arena = a};
    for (int i = 0; i < OPTIMIZERS; i++)
        names_add(&names, optimizer_table[i].name, (Loc){0});
    if (e->kind != EX_CALL && e->kind != EX_NAME) {
        diag_error(d, e->range, "this is no optimizer");
        diag_help(d, "such as AdamW(lr=3e-4)");
        return;
    }
    diag_error(d, e->loc, "unknown optimizer '%s'", e->name);
    names_suggest(d, &names, e->name);
    diag_help(d, "there are SGD, Adam and AdamW");
}

/* ---- settings ------------------------------------------------------------ */

static const struct {
    const char *name;
    bool supported;
} setting_table[] = {
    {"batch", true},       {"seq", true},     {"precision", true},
    {"optimizer", true},   {"accumulate", false}, {"clip", false},
    {"schedule", false},   {"head_chunk", false}, {"warmup", false},
    {"loss_scale", false}, {"reduce", false}, {"dropout", false},
};
enum { SETTINGS = sizeof setting_table / sizeof *setting_table };

bool setting_known(const char *name)
{
    for (int i = 0; i < SETTINGS; i++)
        if (strcmp(setting_table[i].name, name) == 0)
            return true;
    return false;
}

void settings_add(NameList *l)
{
    for (int i = 0; i < SETTINGS; i++)
        if (setting_table[i].supported)
            names_add(l, setting_table[i].name, (Loc){0});
}

void setting_refused(Arena *a, Diag *d, const Setting *s)
{
    if (setting_known(s->name.name)) {
        diag_error(d, s->name.loc, "'%s' is not supported yet", s->name.name);
        return;
    }
    NameList names = {.arena = a};
    settings_add(&names);
    diag_error(d, s->name.loc, "unknown train setting '%s'", s->name.name);
    names_suggest(d, &names, s->name.name);
}

static bool supported(const char *name)
{
    for (int i = 0; i < SETTINGS; i++)
        if (strcmp(setting_table[i].name, name) == 0)
            return setting_table[i].supported;
    return false;
}

static void check_optimizer(Arena *a, Diag *d, const Expr *e)
{
    const OptimizerInfo *info =
        e->kind == EX_CALL || e->kind == EX_NAME ? optimizer_find(e->name)
                                                 : NULL;
    if (!info) {
        optimizer_unknown(a, d, e);
        return;
    }
    if (e->kind == EX_NAME)
        return;
    Signature s;
    Bound bound;
    signature_of_text(a, info->name, info->signature, &s);
    bind_call(a, d, &s, e, &bound);
}

void check_train(Arena *a, Diag *d, const File *file)
{
    for (int i = 0; i < file->nsettings; i++) {
        const Setting *s = &file->setting[i];
        for (int j = 0; j < i; j++) {
            const Setting *t = &file->setting[j];
            if (strcmp(s->name.name, t->name.name) != 0)
                continue;
            diag_error(d, s->name.loc, "'%s' is set twice", s->name.name);
            diag_note(d, t->name.loc, "the first is here");
            break;
        }
        if (!supported(s->name.name))
            setting_refused(a, d, s);
        else if (strcmp(s->name.name, "optimizer") == 0)
            check_optimizer(a, d, s->value);
    }
}
