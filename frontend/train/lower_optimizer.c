/* lower_optimizer.c: evaluates settings of `train` that are calls: the
 * optimizer and the learning-rate schedule.
 *
 * A call sets all fields of its kind; omitted arguments get the default. -D
 * optimizer.lr=… then changes a single field.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "frontend/train/train.h"

/* ---- arguments ----------------------------------------------------------- */

/* Numeric arguments, the fields that hold them, and the range [low, high]. */
static const struct Number {
    const char *name;
    size_t at;
    double low, high;
} numbers[] = {
    {"lr", offsetof(Train, lr), 0, INFINITY},
    {"momentum", offsetof(Train, momentum), 0, 1},
    {"eps", offsetof(Train, eps), 0, INFINITY},
    {"weight_decay", offsetof(Train, weight_decay), 0, INFINITY},
    {"min_lr", offsetof(Train, schedule.min_lr), 0, INFINITY},
};

static void set_betas(Lower *l, const Expr *e)
{
    double beta[2] = {0, 0};
    Datum d = lower_expr(l, e);
    if (d.kind == DATUM_POISON)
        return;
    bool fine = d.kind == DATUM_TUPLE && d.nitems == 2;
    for (int i = 0; i < 2 && fine; i++) {
        fine = datum_is_number(d.item[i]);
        beta[i] = fine ? datum_number(d.item[i]) : 0;
        fine &= beta[i] >= 0 && (float)beta[i] < 1;
    }
    if (fine && (!lower_f32(l, e->range, beta[0]) ||
                 !lower_f32(l, e->range, beta[1])))
        return;
    if (!fine) {
        lower_error(l, e->range, "such as betas=(0.9, 0.95)",
                    "betas must be two numbers of at least 0 and below 1 in "
                    "f32");
        return;
    }
    l->p->train.beta1 = beta[0];
    l->p->train.beta2 = beta[1];
}

static void set_steps(Lower *l, const Expr *e)
{
    int64_t x;
    if (lower_size(l, e, "steps", &x))
        l->p->train.schedule.steps = x;
}

static void set_warmup(Lower *l, const Expr *e)
{
    int64_t x;
    if (!lower_int(l, e, "warmup", &x))
        return;
    if (x < 0)
        lower_error(l, e->range, NULL, "'warmup' must be at least 0, not %lld",
                    (long long)x);
    else
        l->p->train.schedule.warmup = x;
}

static void set_number(Lower *l, const struct Number *n, const Expr *e)
{
    double x;
    if (!lower_float(l, e, n->name, &x))
        return;
    if (!(x >= n->low && x <= n->high))
        lower_error(l, e->range, NULL, "'%s' must be at least %g%s, not %s",
                    n->name, n->low, n->high == 1 ? " and at most 1" : "",
                    datum_text(l->arena, datum_float(x)));
    else if (lower_f32(l, e->range, x))
        *(double *)((char *)&l->p->train + n->at) = x;
}

static void set_part(Lower *l, const char *name, const Expr *e)
{
    static const struct Part {
        const char *name;
        void (*set)(Lower *l, const Expr *e);
    } table[] = {
        {"betas", set_betas},
        {"steps", set_steps},
        {"warmup", set_warmup},
        {"no_decay", lower_no_decay},
    };
    const struct Part *part = table_find(table, name);
    if (part)
        part->set(l, e);
    else
        set_number(l, table_find(numbers, name), e);
}

/* ---- choices ------------------------------------------------------------- */

void lower_optimizer_defaults(Train *t, OptimizerKind kind)
{
    t->optimizer = kind;
    t->lr = 1e-3;
    t->beta1 = 0.9;
    t->beta2 = 0.999;
    t->eps = 1e-8;
    t->momentum = 0;
    t->weight_decay = kind == OPT_ADAMW ? 0.01 : 0;
}

/* A call, or a name alone, which is a call without arguments. */
void lower_choice(Lower *l, const ChoiceSet *set, const Expr *e)
{
    const Choice *choice = choice_of(l->arena, l->diag, set, e);
    if (!choice)
        return;
    if (set == &optimizer_choices) {
        lower_optimizer_defaults(&l->p->train, (OptimizerKind)choice->kind);
        l->no_decay.n = 0;
    } else {
        l->p->train.schedule = (LrSchedule){
            .kind = (ScheduleKind)choice->kind, .warmup = l->warmup};
        l->schedule_loc = e->range;
    }
    if (e->kind == EX_NAME)
        return;
    Signature s;
    Bound bound;
    signature_of_text(l->arena, choice->name, choice->signature, &s);
    if (!bind_call(l->arena, l->diag, &s, e, &bound))
        return;
    for (int i = 0; i < s.n; i++)
        if (bound.value[i])
            set_part(l, s.name[i], bound.value[i]);
}

/* Changes one argument of the current choice. */
void lower_choice_part(Lower *l, const ChoiceSet *set, const Setting *s)
{
    const Train *t = &l->p->train;
    const char *name = strchr(s->name.name, '.') + 1;
    const Choice *choice =
        &set->at[set == &optimizer_choices ? (int)t->optimizer
                                           : (int)t->schedule.kind];
    Signature known;
    signature_of_text(l->arena, choice->name, choice->signature, &known);
    if (row_find(known.name, known.n, name)) {
        int errors = diag_error_count(l->diag);
        set_part(l, name, s->value);
        if (set == &schedule_choices && errors == diag_error_count(l->diag))
            l->schedule_loc = s->value->range;
        return;
    }
    NameList names = {.arena = l->arena};
    for (int i = 0; i < known.n; i++)
        names_add(&names, known.name[i], (Loc){0});
    diag_error(l->diag, s->name.loc, "%s has no setting '%s'", choice->name,
               name);
    names_suggest_or_list(l->diag, &names, name);
}

/* ---- schedules ----------------------------------------------------------- */

void lower_warmup(Lower *l, const Expr *e)
{
    int errors = diag_error_count(l->diag);
    set_warmup(l, e);
    if (errors != diag_error_count(l->diag))
        return;
    l->warmup = l->p->train.schedule.warmup;
    l->schedule_loc = e->range;
}

void lower_check_schedule(Lower *l)
{
    const Train *t = &l->p->train;
    const LrSchedule *s = &t->schedule;
    if (s->kind == SCHEDULE_CONSTANT)
        return;
    if (s->steps > 0 && s->warmup >= s->steps)
        lower_error(l, l->schedule_loc,
                    "'steps' includes the steps of the warm-up",
                    "no steps remain for the decay: warmup=%lld, steps=%lld",
                    (long long)s->warmup, (long long)s->steps);
    if (s->min_lr > t->lr)
        lower_error(l, l->schedule_loc, NULL,
                    "the schedule ends at min_lr=%s, above the optimizer's "
                    "lr=%s", datum_text(l->arena, datum_float(s->min_lr)),
                    datum_text(l->arena, datum_float(t->lr)));
}
