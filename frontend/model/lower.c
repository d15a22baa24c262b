/* lower.c: lowers a checked file to the global forward program.
 *
 * Settings, mesh and plan are read once, and the plan is resolved once, for the
 * training step. The model is lowered once for the training step and once for
 * each side program, in which `training` is false: dropout and attention draw
 * no random numbers. The last step of each removes
 * what its outputs do not need:
 *
 *   return loss, logits    training step and FOR_LOSS: output "loss";
 *                          FOR_OUTPUTS: output "logits", one microbatch
 *
 * The order: settings and sizes (train, model parameters, mesh), instances of
 * modules with their parameters, the model's forward, and the plan, whose
 * patterns are matched against the modules. Each part continues after an error:
 * poison prevents consequential errors.
 */
#include <string.h>

#include "frontend/names/names.h"
#include "frontend/plan/plan.h"
#include "frontend/train/train.h"
#include "ir/analysis/choices.h"
#include "ir/plan/items.h"
#include "ir/plan/styles.h"

/* ---- model parameters ---------------------------------------------------- */

/* -D and --config must keep the kind of a value: an integer may be a size. */
static Datum defined_value(Lower *l, const Setting *define, Datum plain)
{
    /* A word needs no quotes on the command line. */
    if (define->value->kind == EX_NAME &&
        (plain.kind == DATUM_WORD ||
         (plain.kind == DATUM_NONE && !lower_is_known(l, define->value->name))))
        return datum_word(define->value->name);
    Datum d = lower_expr(l, define->value);
    if (plain.kind == DATUM_FLOAT && d.kind == DATUM_INT)
        return datum_float((double)d.integer);
    bool fits = d.kind == plain.kind || plain.kind == DATUM_POISON ||
                plain.kind == DATUM_NONE || d.kind == DATUM_POISON;
    if (!fits)
        return lower_poison(l, define->value->range, NULL, "'%s' is %s, but "
                            "its default is %s: it must keep the kind of "
                            "value", define->name.name, datum_text(l->arena, d),
                            datum_text(l->arena, plain));
    return d;
}

static Binding *model_formals(Lower *l)
{
    Frame f;
    push_frame(l, &f, l->model->name.name, l->model->name.loc, NULL);
    f.members = true;
    for (int i = 0; i < l->model->nformals; i++) {
        const Formal *formal = &l->model->formal[i];
        const Setting *define = lower_define(l, formal->name.name);
        Datum d = datum_poison();
        if (formal->value)
            d = lower_expr(l, formal->value);
        if (define)
            d = defined_value(l, define, d);
        else if (!formal->value)
            lower_error(l, formal->name.loc,
                        arena_printf(l->arena, "give it a default, or use -D "
                                     "%s=VALUE", formal->name.name),
                        "the model's parameter '%s' has no value",
                        formal->name.name);
        f.locals = bind_name(l, f.locals, formal->name.name, formal->name.loc,
                             d);
    }
    pop_frame(l);
    return f.locals;
}

/* ---- the model's inputs and its loss ------------------------------------- */

static Type input_type(Lower *l, const InputDecl *in, bool *fine)
{
    Type t = {.dtype = in->is_int ? DT_I32 : DT_F32};
    *fine = in->has_shape && !in->open && in->ndims <= MAX_DIMS;
    if (!in->has_shape || in->open)
        lower_error(l, in->name.loc,
                    "such as 'tokens: int(vocab)[batch, seq]'",
                    "the model's input '%s' needs a complete shape",
                    in->name.name);
    else if (in->ndims > MAX_DIMS)
        lower_error(l, in->name.loc, NULL, "a tensor has at most %d dims",
                    MAX_DIMS);
    for (int i = 0; i < in->ndims && *fine; i++)
        *fine &= lower_size(l, in->dim[i], "a dimension",
                            &t.dim[t.ndim++]);
    const char *fault = *fine ? type_check(l->arena, &t, &l->p->mesh) : NULL;
    if (fault) {
        lower_error(l, in->name.loc, "reduce the batch or another dimension",
                    "input '%s' is too large: %s",
                    in->name.name, fault);
        *fine = false;
    }
    if (*fine && (t.ndim == 0 || t.dim[0] != l->p->train.batch)) {
        lower_error(l, in->name.loc, "such as x: [batch, dim]",
                    "the first dimension of input '%s' must be the batch",
                    in->name.name);
        *fine = false;
    }
    return t;
}

/* A value that no class has. It is compared as f32. */
static bool set_ignored(Lower *l, const InputDecl *in, Input *input)
{
    enum { EXACT = 1 << 24 };
    if (!lower_int(l, in->ignored, "the value of ignore", &input->ignored))
        return false;
    input->has_ignored = true;
    if ((input->ignored >= 0 && input->ignored < input->below) ||
        input->ignored < -EXACT || input->ignored > EXACT)
        return lower_error(l, in->ignored->loc, "such as ignore=-100",
                           "the ignored value %lld of input '%s' must be an "
                           "integer of 24 bits outside 0 ... %lld",
                           (long long)input->ignored, in->name.name,
                           (long long)input->below - 1);
    return true;
}

static Datum model_input(Lower *l, const InputDecl *in)
{
    bool fine;
    Input input = {.name = in->name.name, .loc = in->name.loc};
    input.type = input_type(l, in, &fine);
    if (in->below)
        fine &= lower_size(l, in->below, "the bound of int()", &input.below);
    if (fine && in->ignored)
        fine &= set_ignored(l, in, &input);
    if (!fine)
        return datum_poison();
    Attr attr[MAX_ATTRS] = {{.i = l->p->input.n}};
    vec_push(l->arena, &l->p->input, input);
    l->b.loc = input.loc;
    const char *hint = input.name;
    Op *op = ir_op_typed(&l->b, OP_input, 0, NULL, attr, 1, &input.type,
                         &hint);
    l->p->input.at[l->p->input.n - 1].value = op->out[0];
    Datum d = datum_tensor(op->out[0]);
    d.is_data = !in->is_int && l->p->train.precision != DT_F32;
    d.below = input.below;
    d.has_ignored = input.has_ignored;
    d.ignored = input.ignored;
    return d;
}

static void add_output(Lower *l, Value *v, const char *name)
{
    l->b.loc = v->loc;
    l->b.path = "";
    Attr attr[MAX_ATTRS] = {{.s = name}};
    ir_op_typed(&l->b, OP_output, 1, &v, attr, 0, NULL, NULL);
}

static bool is_loss(Datum d)
{
    return d.kind == DATUM_TENSOR && d.tensor->type.ndim == 0 &&
           dtype_is_float(d.tensor->type.dtype);
}

/* The name of an output: the variable that is returned, else "out" and its
 * number. */
static const char *output_name(Lower *l, const Expr *value, int i)
{
    const Expr *e = value && value->kind == EX_TUPLE && i < value->nargs
                        ? value->arg[i].value
                        : NULL;
    if (e && e->kind == EX_NAME)
        return e->name;
    return arena_printf(l->arena, "out%d", i);
}

static void tensor_output(Lower *l, Value *v, const char *name)
{
    Output of = {.name = name, .ndim = v->type.ndim, .loc = v->loc};
    memcpy(of.dim, v->type.dim, sizeof of.dim);
    vec_push(l->arena, &l->p->output, of);
    add_output(l, v, name);
}

/* The outputs after the loss: tensors whose first dim is the batch. */
static void other_outputs(Lower *l, const Member *forward, Datum d,
                          const Expr *value)
{
    for (int i = 1; i < d.nitems; i++) {
        const Datum *item = &d.item[i];
        if (item->kind == DATUM_POISON)
            continue;
        const char *name = output_name(l, value, i);
        bool fits = item->kind == DATUM_TENSOR && item->tensor->type.ndim > 0 &&
                    item->tensor->type.dim[0] == l->p->train.batch;
        bool twice = false;
        for (int k = 1; k < i; k++)
            twice |= strcmp(name, output_name(l, value, k)) == 0;
        if (!fits)
            lower_error(l, forward->loc, "such as 'return loss, logits'",
                        "output '%s' of the model must be a tensor whose first "
                        "dimension is the batch, not %s", name,
                        datum_text(l->arena, *item));
        else if (twice)
            lower_error(l, forward->loc, "assign it to another name first",
                        "the model returns '%s' twice", name);
        else if (l->p->purpose == FOR_OUTPUTS)
            tensor_output(l, item->tensor, name);
        l->outputs += fits;
    }
}

/* `value`: the expression that forward returns. */
static void model_outputs(Lower *l, const Member *forward, Datum d,
                          const Expr *value)
{
    if (d.kind == DATUM_POISON)
        return;
    bool several = d.kind == DATUM_TUPLE && d.nitems > 0;
    Datum loss = several ? d.item[0] : d;
    if (loss.kind == DATUM_POISON)
        return;
    if (!is_loss(loss)) {
        lower_error(l, forward->loc, "sum(x) and mean(x) make a scalar",
                    several ? "the first value that the model returns must be "
                              "a scalar loss, not %s"
                            : "the model must return a scalar loss, not %s",
                    datum_text(l->arena, loss));
        return;
    }
    if (l->p->purpose != FOR_OUTPUTS) {
        l->b.loc = loss.tensor->loc;
        l->b.path = "";
        add_output(l, ir_cast(&l->b, loss.tensor, DT_F32), "loss");
    }
    if (several)
        other_outputs(l, forward, d, value);
}

static void run_model(Lower *l, Instance *model)
{
    const Member *forward = model->forward;
    if (!forward)
        return;
    Frame f;
    push_frame(l, &f, model->decl->name.name, forward->loc, model);
    Datum *args = NEW_ARRAY(l->arena, Datum, forward->ninputs);
    Loc *locs = NEW_ARRAY(l->arena, Loc, forward->ninputs);
    for (int i = 0; i < forward->ninputs; i++) {
        args[i] = model_input(l, &forward->input[i]);
        locs[i] = forward->input[i].name.loc;
    }
    pop_frame(l);
    if (forward->ninputs == 0) {
        lower_error(l, forward->loc, "such as forward(x: [batch, dim])",
                    "the model's forward needs an input");
        return;
    }
    Datum d = lower_call_module(l, model, args, locs, forward->loc);
    model_outputs(l, forward, d, l->returned);
}

/* ---- everything together ------------------------------------------------- */

/* Parameters that no forward reads would have no gradient. */
static void warn_unused(Lower *l)
{
    for (int i = 0; i < l->candidate.n; i++) {
        const Candidate *s = &l->candidate.at[i];
        if (s->tied_to < 0 && !s->used)
            diag_warning(l->diag, s->param.loc,
                         s->param.module_state
                             ? "state '%s' is not used in training"
                             : "parameter '%s' is never used: it has no gradient "
                               "and is not updated", s->param.name);
    }
}

/* A side program reads only what it needs: no labels if it has no loss. */
static void drop_unused_inputs(Program *p)
{
    for (int i = 0; i < p->input.n; i++) {
        Input *in = &p->input.at[i];
        if (!in->value || ir_count_uses(in->value) > 0)
            continue;
        ir_remove(in->value->def);
        in->value = NULL;
    }
}

static Program *new_program(Arena *a, Diag *d, const Decl *model,
                            Purpose purpose)
{
    Program *p = ir_program(a, d);
    p->model = model ? model->name.name : NULL;
    p->stage = STAGE_GLOBAL;
    p->purpose = purpose;
    return p;
}

/* Evaluates what all purposes share: the mesh, the plan's clauses and the
 * settings of train. */
static void lower_settings(Lower *l)
{
    bool fault = false;
    l->plan = lower_choose_plan(l, &fault);
    l->without_plan = fault;
    if (!fault)
        lower_mesh(l, l->plan);
    if (l->plan)
        read_plan(l, l->plan);
    lower_train(l);
}

static Instance *begin_program(Lower *l, Binding *formals)
{
    l->step.region = l->p->step;
    l->level = &l->step;
    l->b = (Build){.p = l->p, .region = l->p->step, .phase = PH_FORWARD,
                   .path = ""};
    return lower_instances(l, formals);
}

static void finish_program(Lower *l)
{
    lower_assign_states(l);
    if (l->outputs > 0 || l->update.n > 0)
        ir_eliminate_dead(l->p);
    if (!program_trains(l->p))
        drop_unused_inputs(l->p);
}

/* Makes the training program; false after errors. */
static bool lower_training(Lower *l)
{
    Instance *model = begin_program(l, model_formals(l));
    lower_groups(l);
    if (model) {
        lower_names(l, model);
        run_model(l, model);
    }
    if (!l->without_plan)
        lower_plan(l);
    return diag_error_count(l->diag) == 0;
}

/* Gives a program the plan of the training program, as it was resolved there,
 * the weights that its styles split, and what the plan, the optimizer's groups and
 * `names` say
 * about parameters. */
static void copy_plan(Program *to, const Program *from)
{
    to->plan = from->plan;
    to->plan.style = arena_copy(to->arena, from->plan.style,
                                sizeof(Style) * (size_t)from->plan.nstyles);
    to->plan.unit = arena_copy(to->arena, from->plan.unit,
                               sizeof(Unit) * (size_t)from->plan.nunits);
    to->file_prefix = from->file_prefix;
    to->file_config = from->file_config;
    for (int i = 0; i < to->param.n && i < from->param.n; i++) {
        const Param *p = &from->param.at[i];
        to->param.at[i].trainable = p->trainable;
        to->param.at[i].decay = p->decay;
        to->param.at[i].group = p->group;
        to->param.at[i].file = p->file;
        to->param.at[i].nfile = p->nfile;
    }
    /* A module may use a weight or a bias in another way if `training`. */
    bool alike = to->module.n == from->module.n && to->param.n == from->param.n;
    for (int i = 0; i < to->module.n && alike; i++)
        to->module.at[i].weight = from->module.at[i].weight;
    items_attach(to);
    styles_attach(to);
}

/* The program of another purpose with the settings and the plan of the training
 * program; NULL after errors. */
static Program *lower_side(const Lower *of, Purpose purpose)
{
    Lower *l = NEW(of->arena, Lower);
    *l = (Lower){.arena = of->arena, .diag = of->diag, .prelude = of->prelude, .trained = of,
                 .file = of->file, .options = of->options, .model = of->model,
                 .plan = of->plan, .planned = of->planned,
                 .p = new_program(of->arena, of->diag, of->model, purpose)};
    Train *t = &l->p->train;
    l->p->mesh = of->p->mesh;
    *t = of->p->train;
    if (purpose == FOR_OUTPUTS) {
        t->batch /= t->accumulate > 1 ? t->accumulate : 1;
        t->accumulate = 0;
        t->head_chunk = 0;
    }
    Instance *model = begin_program(l, model_formals(l));
    if (model)
        run_model(l, model);
    if (diag_error_count(l->diag) > 0)
        return NULL;
    copy_plan(l->p, of->p);
    finish_program(l);
    l->p->training = of->p;
    return l->p;
}

/* Whether the model needs the program of this purpose beside its training step. */
static bool is_wanted(const Lower *l, Purpose purpose)
{
    for_ops(op, l->p->step)
        if (purpose == FOR_ROUNDS && op->kind == OP_group_rows && group_rounds(op) > 1)
            return true;
    return purpose != FOR_ROUNDS && l->options->side &&
           (purpose == FOR_LOSS || l->outputs > 0);
}

Program *lower(Arena *a, Diag *d, const File *prelude, const File *file,
               const FrontendOptions *options)
{
    Lower *l = NEW(a, Lower);
    const Decl *model = file_model(file);
    *l = (Lower){.arena = a, .diag = d, .prelude = prelude, .file = file,
                 .options = options, .model = model,
                 .p = new_program(a, d, model, FOR_TRAINING)};
    lower_settings(l);
    bool fine = model && lower_training(l);
    read_other_plans(l, model);
    fine = fine && diag_error_count(d) == 0;
    if (!fine)
        return NULL;
    warn_unused(l);
    finish_program(l);
    for (int k = FOR_LOSS; k < PURPOSES; k++) {
        if (!is_wanted(l, (Purpose)k))
            continue;
        l->p->side[k] = lower_side(l, (Purpose)k);
        if (!l->p->side[k])
            return NULL;
    }
    return l->p;
}
