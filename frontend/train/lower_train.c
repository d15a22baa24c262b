/* lower_train.c: evaluates the `train` block and -D.
 *
 * Settings are applied in this order: defaults, the block, -D; the last value
 * takes effect. A -D must name a setting or a parameter of the model.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/train/train.h"

const Setting *lower_define(const Lower *l, const char *name)
{
    for (int i = l->options->ndefines - 1; i >= 0; i--)
        if (strcmp(l->options->define[i]->name.name, name) == 0)
            return l->options->define[i];
    return NULL;
}

/* ---- settings ------------------------------------------------------------ */

/* PDL's names of the element types of PyTorch. */
static const struct TorchType {
    const char *torch, *pdl;
} torch_types[] = {
    {"fp16", "f16"}, {"float16", "f16"}, {"half", "f16"}, {"bfloat16", "bf16"},
    {"fp32", "f32"}, {"float32", "f32"}, {"float", "f32"},
};

/* Sets an element type: one of the first n of the table. */
static void set_type(Lower *l, const Expr *e, int n, DType *to,
                     const char *message)
{
    static const struct Word {
        const char *name;
        DType dtype;
    } table[] = {{"f32", DT_F32}, {"bf16", DT_BF16}, {"f16", DT_F16}};
    bool named = e->kind == EX_NAME || e->kind == EX_STRING;
    const struct Word *word = named ? row_find(table, n, e->name) : NULL;
    if (word) {
        *to = word->dtype;
        return;
    }
    const struct TorchType *t = named ? table_find(torch_types, e->name) : NULL;
    lower_error(l, e->range, t ? arena_printf(l->arena, "did you mean '%s'?",
                                              t->pdl) : NULL, "%s", message);
}

static void set_epilogues(Lower *l, const Expr *e, bool *none)
{
    bool named = e->kind == EX_NAME || e->kind == EX_STRING;
    *none = e->kind == EX_NONE || (named && strcmp(e->name, "none") == 0);
    if (!*none && (!named || strcmp(e->name, "all") != 0))
        lower_error(l, e->range, NULL, "'epilogues' must be all or none");
}

static void set_flag(Lower *l, const Setting *s, bool *to)
{
    Datum d = lower_expr(l, s->value);
    if (d.kind == DATUM_BOOL)
        *to = d.integer;
    else if (d.kind != DATUM_POISON)
        lower_error(l, s->value->range, NULL, "'%s' is true or false",
                    s->name.name);
}

static void set_size(Lower *l, const Setting *s, int64_t *size)
{
    int64_t x;
    if (lower_size(l, s->value, s->name.name, &x))
        *size = x;
}

/* Sets a number above 0; `none` sets 0. */
static void set_positive(Lower *l, const Setting *s, const char *what,
                         double *to)
{
    double x = 0;
    const char *name = s->name.name;
    Datum d = lower_expr(l, s->value);
    if (d.kind == DATUM_POISON)
        return;
    if (datum_is_number(d))
        x = datum_number(d);
    if (d.kind == DATUM_NONE || x > 0) {
        if (lower_f32(l, s->value->range, x))
            *to = x;
        return;
    }
    lower_error(l, s->value->range,
                arena_printf(l->arena, "'%s = none' turns it off", name),
                "'%s' must be %s above 0, not %s", name, what,
                datum_text(l->arena, d));
}

/* Small gradients become 0 in f16 without loss scaling. */
static void default_loss_scale(Train *t)
{
    if (t->loss_scale < 0)
        t->loss_scale = t->precision == DT_F16 ? DEFAULT_LOSS_SCALE : 0;
}

static void set_accumulate(Lower *l, const Setting *s)
{
    set_size(l, s, &l->p->train.accumulate);
    l->accumulate_loc = s->value->range;
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

static void set_setting(Lower *l, const Setting *s)
{
    Train *t = &l->p->train;
    const char *name = s->name.name;
    if (strcmp(name, "batch") == 0)
        set_size(l, s, &t->batch);
    else if (strcmp(name, "seq") == 0)
        set_size(l, s, &t->seq);
    else if (strcmp(name, "head_chunk") == 0)
        set_size(l, s, &t->head_chunk);
    else if (strcmp(name, "epilogues") == 0)
        set_epilogues(l, s->value, &t->bare_matmuls);
    else if (strcmp(name, "deterministic") == 0)
        set_flag(l, s, &t->deterministic);
    else if (strcmp(name, "accumulate") == 0)
        set_accumulate(l, s);
    else if (strcmp(name, "precision") == 0)
        set_type(l, s->value, 3, &t->precision,
                 "'precision' must be f32, bf16 or f16");
    else if (strcmp(name, "reduce") == 0)
        set_type(l, s->value, 2, &t->reduce,
                 "'reduce' must be f32 or bf16");
    else if (strcmp(name, "clip") == 0)
        set_positive(l, s, "a norm", &t->clip);
    else if (strcmp(name, "loss_scale") == 0)
        set_positive(l, s, "a factor", &t->loss_scale);
    else if (strcmp(name, "warmup") == 0)
        lower_warmup(l, s->value);
    else if (choices_of(name))
        lower_choice(l, choices_of(name), s->value);
    else
        setting_refused(l->arena, l->diag, s);
}

static void define_setting(Lower *l, const Setting *s)
{
    const char *name = s->name.name;
    if (row_find(l->model->formal, l->model->nformals, name))
        return;
    const char *dot = strchr(name, '.');
    const ChoiceSet *set =
        dot ? choices_of(arena_strndup(l->arena, name, (size_t)(dot - name)))
            : NULL;
    if (set) {
        lower_choice_part(l, set, s);
    } else if (setting_known(name)) {
        set_setting(l, s);
    } else {
        diag_error(l->diag, s->name.loc,
                   "'%s' is neither a parameter of the model nor a train "
                   "setting", name);
        NameList names = {.arena = l->arena};
        for (int i = 0; i < l->model->nformals; i++)
            names_add(&names, l->model->formal[i].name.name,
                      l->model->formal[i].name.loc);
        settings_add(&names);
        const char *owner = setting_owner(name);
        if (owner)
            diag_help(l->diag, "did you mean '%s.%s'?", owner, name);
        else
            names_suggest(l->diag, &names, name);
    }
}

void lower_train(Lower *l)
{
    Train *t = &l->p->train;
    *t = (Train){.batch = DEFAULT_BATCH, .seq = DEFAULT_SEQ,
                 .precision = DT_F32, .loss_scale = -1,
                 .loc = l->file->has_train ? l->file->train_loc
                                           : l->model->name.loc};
    lower_optimizer_defaults(t, OPT_ADAMW);
    Frame f;
    push_frame(l, &f, "train", t->loc, NULL);
    f.members = f.settings = true;
    for (int i = 0; i < l->file->nsettings; i++)
        set_setting(l, &l->file->setting[i]);
    for (int i = 0; i < l->options->ndefines; i++)
        define_setting(l, l->options->define[i]);
    lower_check_schedule(l);
    default_loss_scale(t);
    check_accumulate(l);
    pop_frame(l);
    if (l->p->purpose == FOR_OUTPUTS && diag_error_count(l->diag) == 0) {
        t->batch /= t->accumulate > 1 ? t->accumulate : 1;
        t->accumulate = 1;
        t->head_chunk = 0;
    }
}
