/* lower_train.c: the `train` block and what -D changes of it.
 *
 * Settings are taken in order (defaults, the block, the command line), the
 * last one winning; a -D that names neither a setting nor a parameter of the
 * model is an error.
 */
#include <math.h>
#include <string.h>

#include "frontend/check.h"
#include "frontend/lower.h"

const Setting *lower_define(const Lower *l, const char *name)
{
    for (int i = l->options->ndefines - 1; i >= 0; i--)
        if (strcmp(l->options->define[i]->name.name, name) == 0)
            return l->options->define[i];
    return NULL;
}

/* ---- optimizers ---------------------------------------------------------- */

static void set_lr(Train *t, double x)
{
    t->lr = x;
}

static void set_momentum(Train *t, double x)
{
    t->momentum = x;
}

static void set_eps(Train *t, double x)
{
    t->eps = x;
}

static void set_weight_decay(Train *t, double x)
{
    t->weight_decay = x;
}

/* Numbers of optimizers and where they may lie: [low, high]. */
static const struct {
    const char *name;
    void (*set)(Train *t, double x);
    double low, high;
} optimizer_numbers[] = {
    {"lr", set_lr, 0, INFINITY},
    {"momentum", set_momentum, 0, 1},
    {"eps", set_eps, 0, INFINITY},
    {"weight_decay", set_weight_decay, 0, INFINITY},
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
        fine &= beta[i] >= 0 && beta[i] < 1;
    }
    if (!fine) {
        lower_error(l, e->range, "such as betas=(0.9, 0.95)",
                    "betas are two numbers from 0 to below 1");
        return;
    }
    l->p->train.beta1 = beta[0];
    l->p->train.beta2 = beta[1];
}

static void optimizer_setting(Lower *l, const char *name, const Expr *e)
{
    if (strcmp(name, "betas") == 0) {
        set_betas(l, e);
        return;
    }
    int n = sizeof optimizer_numbers / sizeof *optimizer_numbers;
    for (int i = 0; i < n; i++) {
        if (strcmp(name, optimizer_numbers[i].name) != 0)
            continue;
        double x;
        if (!lower_float(l, e, name, &x))
            return;
        if (!(x >= optimizer_numbers[i].low && x <= optimizer_numbers[i].high))
            lower_error(l, e->range, NULL, "'%s' cannot be %s", name,
                        datum_text(l->arena, datum_float(x)));
        else
            optimizer_numbers[i].set(&l->p->train, x);
        return;
    }
}

/* PyTorch's defaults. */
static void optimizer_defaults(Train *t, OptimizerKind kind)
{
    t->optimizer = kind;
    t->lr = 1e-3;
    t->beta1 = 0.9;
    t->beta2 = 0.999;
    t->eps = 1e-8;
    t->momentum = 0;
    t->weight_decay = kind == OPT_ADAMW ? 0.01 : 0;
}

static void set_optimizer(Lower *l, const Expr *e)
{
    const OptimizerInfo *info =
        e->kind == EX_CALL || e->kind == EX_NAME ? optimizer_find(e->name)
                                                 : NULL;
    if (!info) {
        optimizer_unknown(l->arena, l->diag, e);
        return;
    }
    optimizer_defaults(&l->p->train, info->kind);
    if (e->kind == EX_NAME)
        return;
    Signature s;
    Bound bound;
    signature_of_text(l->arena, info->name, info->signature, &s);
    if (!bind_call(l->arena, l->diag, &s, e, &bound))
        return;
    for (int i = 0; i < s.n; i++)
        if (bound.value[i])
            optimizer_setting(l, s.name[i], bound.value[i]);
}

/* -D optimizer.lr=…: only what the optimizer at hand has. */
static void define_optimizer_setting(Lower *l, const Setting *s)
{
    const char *name = s->name.name + strlen("optimizer.");
    const OptimizerInfo *info = optimizer_info(l->p->train.optimizer);
    Signature known;
    signature_of_text(l->arena, info->name, info->signature, &known);
    NameList names = {.arena = l->arena};
    for (int i = 0; i < known.n; i++) {
        if (strcmp(known.name[i], name) == 0) {
            optimizer_setting(l, name, s->value);
            return;
        }
        names_add(&names, known.name[i], (Loc){0});
    }
    diag_error(l->diag, s->name.loc, "%s has no setting '%s'", info->name,
               name);
    names_suggest(l->diag, &names, name);
}

/* ---- settings ------------------------------------------------------------ */

static void set_precision(Lower *l, const Expr *e)
{
    static const struct {
        const char *name;
        DType dtype;
    } table[] = {{"f32", DT_F32}, {"bf16", DT_BF16}, {"f16", DT_F16}};
    bool named = e->kind == EX_NAME || e->kind == EX_STRING;
    for (int i = 0; i < 3 && named; i++) {
        if (strcmp(e->name, table[i].name) == 0) {
            l->p->train.precision = table[i].dtype;
            return;
        }
    }
    lower_error(l, e->range, NULL, "the precision is f32, bf16 or f16");
}

static void set_size(Lower *l, const Setting *s, int64_t *size)
{
    int64_t x;
    if (lower_size(l, s->value, s->name.name, &x))
        *size = x;
}

static void set_setting(Lower *l, const Setting *s)
{
    Train *t = &l->p->train;
    const char *name = s->name.name;
    if (strcmp(name, "batch") == 0)
        set_size(l, s, &t->batch);
    else if (strcmp(name, "seq") == 0)
        set_size(l, s, &t->seq);
    else if (strcmp(name, "precision") == 0)
        set_precision(l, s->value);
    else if (strcmp(name, "optimizer") == 0)
        set_optimizer(l, s->value);
    else
        setting_refused(l->arena, l->diag, s);
}

static bool is_model_formal(const Lower *l, const char *name)
{
    for (int i = 0; i < l->model->nformals; i++)
        if (strcmp(l->model->formal[i].name.name, name) == 0)
            return true;
    return false;
}

static void define_setting(Lower *l, const Setting *s)
{
    const char *name = s->name.name;
    if (is_model_formal(l, name))
        return;
    if (strncmp(name, "optimizer.", strlen("optimizer.")) == 0) {
        define_optimizer_setting(l, s);
    } else if (setting_known(name)) {
        set_setting(l, s);
    } else {
        diag_error(l->diag, s->name.loc,
                   "there is no parameter of the model and no train setting "
                   "'%s'", name);
        NameList names = {.arena = l->arena};
        for (int i = 0; i < l->model->nformals; i++)
            names_add(&names, l->model->formal[i].name.name,
                      l->model->formal[i].name.loc);
        settings_add(&names);
        names_suggest(l->diag, &names, name);
    }
}

void lower_train(Lower *l)
{
    Train *t = &l->p->train;
    *t = (Train){.batch = 8, .seq = 128, .precision = DT_F32,
                 .loc = l->file->has_train ? l->file->train_loc
                                           : l->model->name.loc};
    optimizer_defaults(t, OPT_ADAMW);
    Frame f;
    push_frame(l, &f, "train", t->loc, NULL);
    f.members = true;
    for (int i = 0; i < l->file->nsettings; i++)
        set_setting(l, &l->file->setting[i]);
    for (int i = 0; i < l->options->ndefines; i++)
        define_setting(l, l->options->define[i]);
    pop_frame(l);
}
