/* lower_train.c: evaluates the `train` block and -D.
 *
 * Settings are applied in this order: defaults, the block, -D; the last value
 * takes effect. A -D must name a setting, an argument of the optimizer or of the
 * schedule, or a parameter of the model.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/options/options.h"
#include "frontend/train/train.h"

enum { DEFAULT_LOSS_SCALE = 65536 }; /* with precision=f16 */

const Setting *lower_define(const Lower *l, const char *name)
{
    for (int i = l->options->ndefines - 1; i >= 0; i--)
        if (strcmp(l->options->define[i]->name.name, name) == 0)
            return l->options->define[i];
    return NULL;
}

/* ---- one setting --------------------------------------------------------- */

/* Reads an option, and records what the checks of all settings together need. */
static void set_option(Lower *l, const Option *o, const Expr *e)
{
    Train *t = &l->p->train;
    if (!option_read_setting(l, o, e, t))
        return;
    if (o == &option_rows[OPTION_accumulate])
        l->accumulate_loc = e->range;
    if (o == &option_rows[OPTION_loss_scale])
        l->has_loss_scale = true;
    if (o == &option_rows[OPTION_warmup])
        l->warmup = t->schedule.warmup;
    if (o == &option_rows[OPTION_schedule] ||
        o == &option_rows[OPTION_warmup] || o->scope == SCOPE_SCHEDULE)
        l->schedule_loc = e->range;
}

static void set_setting(Lower *l, const Setting *s)
{
    const char *name = s->name.name;
    const Option *o = option_find(SCOPE_TRAIN, name);
    if (o) {
        set_option(l, o, s->value);
        return;
    }
    diag_error(l->diag, s->name.loc, "unknown train setting '%s'", name);
    option_help(l, SCOPE_TRAIN, name);
}

/* The warmup may be a setting or an argument of the schedule, not both. */
static void check_warmup(Lower *l)
{
    const File *f = l->file;
    const char *name = option_name(OPTION_warmup);
    const Setting *plain = row_find(f->setting.at, f->setting.n, name);
    const Setting *schedule =
        row_find(f->setting.at, f->setting.n, option_name(OPTION_schedule));
    const Expr *e = schedule ? schedule->value : NULL;
    const Arg *arg = plain && e && e->kind == EX_CALL
                         ? row_find(e->arg, e->nargs, name) : NULL;
    if (!arg)
        return;
    diag_error(l->diag, plain->name.loc, "'%s' is set twice", name);
    diag_note(l->diag, arg->name_loc, "the schedule sets it too");
}

/* ---- -D ------------------------------------------------------------------ */

/* "optimizer.lr" for "lr"; NULL: no argument has this name. */
static const char *dotted_name(Arena *a, const char *name)
{
    static const OptionScope scopes[] = {SCOPE_OPTIMIZER, SCOPE_SCHEDULE};
    for (int i = 0; i < 2; i++)
        if (option_find(scopes[i], name))
            return arena_printf(a, "%s%s", option_prefix(scopes[i]), name);
    return NULL;
}

static void define_refused(Lower *l, const Setting *s)
{
    const char *name = s->name.name;
    const char *dotted = dotted_name(l->arena, name);
    const char *help = option_define_help(l->arena, name);
    NameList names = {.arena = l->arena};
    diag_error(l->diag, s->name.loc, "'%s' is neither a parameter of the model "
               "nor a train setting", name);
    for (int i = 0; i < l->model->nformals; i++)
        names_add(&names, l->model->formal[i].name.name,
                  l->model->formal[i].name.loc);
    options_add_names(&names, SCOPE_TRAIN);
    if (dotted)
        diag_help(l->diag, "did you mean '%s'?", dotted);
    else if (help)
        diag_help(l->diag, "%s", help);
    else
        names_suggest(l->diag, &names, name);
}

/* -D optimizer.lr=…: changes one argument of the chosen optimizer. */
static void define_argument(Lower *l, const Option *call, const Setting *s)
{
    const char *name = strchr(s->name.name, '.') + 1;
    const Option *o =
        option_find_argument(l, call, name, &l->p->train, s->name.loc);
    if (o)
        set_option(l, o, s->value);
}

static void define_setting(Lower *l, const Setting *s)
{
    const char *name = s->name.name;
    size_t head = strcspn(name, ".");
    const Option *o =
        option_find(SCOPE_TRAIN, arena_strndup(l->arena, name, head));
    if (row_find(l->model->formal, l->model->nformals, name))
        return;
    if (!o || (name[head] && o->takes != TAKES_CALL))
        define_refused(l, s);
    else if (name[head])
        define_argument(l, o, s);
    else
        set_option(l, o, s->value);
}

/* ---- all settings together ----------------------------------------------- */

/* Small gradients become 0 in f16 without loss scaling. */
static void default_loss_scale(Lower *l)
{
    if (!l->has_loss_scale && l->p->train.precision == DT_F16)
        l->p->train.loss_scale = DEFAULT_LOSS_SCALE;
}

static void check_coefficients(Lower *l)
{
    int n = l->p->train.ns_coefficients.n;
    const char *name = option_name(OPTION_ns_coefficients);
    if (n != 0 && n != 3)
        lower_error(l, l->p->train.loc,
                    arena_printf(l->arena, "such as %s=%s", name,
                                 option_rows[OPTION_ns_coefficients].example),
                    "'%s' must be three numbers, not %d", name, n);
}

/* The microbatches must have equal sizes. */
static void check_accumulate(Lower *l)
{
    const Train *t = &l->p->train;
    if (t->accumulate < 2 || t->batch % t->accumulate == 0)
        return;
    diag_error(l->diag, l->accumulate_loc,
               "a batch of %lld does not divide into %lld equal microbatches",
               (long long)t->batch, (long long)t->accumulate);
    diag_help(l->diag, "choose an accumulate that divides the batch");
}

/* Each change of the rate has a step, after the warm-up. */
static void check_pieces(Lower *l, const LrSchedule *s)
{
    const char *help = "one rate for each step: after=(1000, 2000), rates="
                       "(1e-3, 1e-4)";
    if (s->after.n == 0 || s->rates.n == 0)
        lower_error(l, l->schedule_loc, help,
                    "piecewise needs '%s' and '%s'", option_name(OPTION_after),
                    option_name(OPTION_rates));
    else if (s->after.n != s->rates.n)
        lower_error(l, l->schedule_loc, help,
                    "'%s' and '%s' must have equal lengths, not %d and %d",
                    option_name(OPTION_after), option_name(OPTION_rates),
                    s->after.n, s->rates.n);
    else if ((double)s->warmup > s->after.v[0])
        lower_error(l, l->schedule_loc,
                    "the first change is at the end of the warm-up, or later",
                    "the learning rate changes after step %.0f, during the "
                    "warm-up: warmup=%lld", s->after.v[0],
                    (long long)s->warmup);
}

/* A schedule without a location has errors of its own. Without `decay` the decay
 * has one step at least. */
static void check_schedule(Lower *l)
{
    const Train *t = &l->p->train;
    const LrSchedule *s = &t->schedule;
    if (s->kind == SCHEDULE_CONSTANT || l->schedule_loc.line == 0)
        return;
    if (s->kind == SCHEDULE_PIECEWISE) {
        check_pieces(l, s);
        return;
    }
    if (s->decay > 0 && s->steps > 0 && s->warmup + s->decay > s->steps)
        lower_error(l, l->schedule_loc,
                    "'steps' includes the steps of the warm-up and of the decay",
                    "too few steps: warmup=%lld, decay=%lld, steps=%lld",
                    (long long)s->warmup, (long long)s->decay,
                    (long long)s->steps);
    else if (s->steps > 0 && s->warmup >= s->steps)
        lower_error(l, l->schedule_loc,
                    "'steps' includes the steps of the warm-up",
                    "no steps remain for the decay: warmup=%lld, steps=%lld",
                    (long long)s->warmup, (long long)s->steps);
    if (s->min_lr > t->lr)
        lower_error(l, l->schedule_loc, NULL,
                    "the schedule ends at min_lr=%s, above "
                    "the optimizer's lr=%s", datum_text(l->arena, datum_float(s->min_lr)),
                    datum_text(l->arena, datum_float(t->lr)));
}

void lower_train(Lower *l)
{
    const File *file = l->file;
    Train *t = &l->p->train;
    *t = (Train){.loc = file->has_train ? file->train_loc
                        : l->model      ? l->model->name.loc
                                        : (Loc){0}};
    options_init(SCOPE_TRAIN, 0, t);
    Frame f;
    push_frame(l, &f, "train", t->loc, NULL);
    f.members = f.settings = true;
    for (int i = 0; i < file->setting.n; i++) {
        names_check_new(l->diag, file->setting.at, i, "set");
        set_setting(l, &file->setting.at[i]);
    }
    check_warmup(l);
    for (int i = 0; i < l->options->ndefines && l->model; i++)
        define_setting(l, l->options->define[i]);
    check_schedule(l);
    default_loss_scale(l);
    check_accumulate(l);
    check_coefficients(l);
    pop_frame(l);
}
