/* autodiff_update.c: builds gradient norm, clipping and parameter updates.
 *
 * First each gradient is marked as complete (op `finish_grad`), then the norm
 * of all gradients is taken, then each parameter and its optimizer states are
 * updated and assigned. Parameters are visited in the order of Program.param,
 * so that the result does not depend on the walk over the program.
 */
#include <float.h>

#include "base/bug.h"
#include "ir/path.h"
#include "passes/autodiff/autodiff.h"

static Value *finish(Frame *f, int param, Value *d)
{
    Program *p = f->a->p;
    const Param *at = &p->param.at[param];
    Attr attr[MAX_ATTRS] = {{.i = param}};

    f->b.phase = PH_BACKWARD;
    f->b.loc = at->loc;
    f->b.path = path_parent(p->arena, at->name);
    const char *hint = arena_printf(p->arena, "d_%s", at->value->name);
    return ir_value(&f->b, OP_finish_grad, 1, &d, attr, hint);
}

/* sqrt of the sum of all squares, times `unscale` (NULL: none) */
static Value *put_norm(Build *b, Value **grads, int n, Value *unscale)
{
    Value *sum = NULL;

    for (int i = 0; i < n; i++) {
        if (grads[i] == NULL)
            continue;
        Value *part = ir_unary(b, OP_sumsq, grads[i]);
        sum = sum ? ir_binary(b, OP_add, sum, part) : part;
    }
    if (sum == NULL)
        sum = ir_scalar_const(b, 0.0);
    Value *norm =
        ir_value(b, OP_sqrt, 1, &sum, NULL, unscale ? NULL : "grad_norm");
    if (unscale)
        norm = ir_value(b, OP_mul, 2, (Value *[]){norm, unscale}, NULL,
                        "grad_norm");
    Attr attr[MAX_ATTRS] = {{.s = "grad_norm"}};
    ir_op(b, OP_output, 1, &norm, attr, NULL);
    return norm;
}

/* min(clip / (norm + 1e-6), 1), as in torch.nn.utils.clip_grad_norm_; `clip` is
 * a scalar of the step, because a run can set it. A norm that is not finite must
 * not spoil finite gradients: for a NaN the minimum returns its second operand,
 * 1; for an infinite norm the factor is 0, and only infinite elements stay
 * non-finite. */
static Value *put_clip(Build *b, Value *norm)
{
    Attr attr[MAX_ATTRS] = {{.f = 1e-6}};
    Value *limit = ir_step_scalar(b, "clip");
    Value *length = ir_value(b, OP_offset, 1, &norm, attr, NULL);
    Value *args[] = {ir_binary(b, OP_div, limit, length),
                     ir_scalar_const(b, 1.0)};
    return ir_value(b, OP_minimum, 2, args, NULL, "clip_factor");
}

static void put_assign(Build *b, int param, Value *v)
{
    Attr attr[MAX_ATTRS] = {{.i = param}};
    ir_op(b, OP_assign, 1, &v, attr, NULL);
}

static Value *put_less(Build *b, Value *x, double limit)
{
    Value *args[] = {x, ir_scalar_const(b, limit)};
    return ir_value(b, OP_less, 2, args, NULL, "good");
}

/* Whether the step changes anything: the norm of scaled gradients is finite (neither
 * infinity nor NaN is less than FLT_MAX), and no buffer of experts overflows. NULL: always. */
static Value *put_good(Build *b, Value *norm, bool scaled)
{
    Value *overflow = program_output(b->p, "overflow");
    Value *finite = scaled ? put_less(b, norm, (double)FLT_MAX) : NULL;
    Value *fits = overflow ? put_less(b, overflow, 0.5) : NULL;
    return finite && fits ? ir_binary(b, OP_mul, finite, fits) : finite ? finite : fits;
}

enum { MAX_OPERANDS = UPDATE_GOOD + 1 + MAX_UPDATE_STATES };

/* args[] holds the scalar operands at their UPDATE_ indices; the states follow from n on. */
static void put_update(Build *b, int param, Value *grad, Value **args, int n)
{
    Program *p = b->p;
    OptimizerKind kind = param_optimizer(&p->train, &p->param.at[param]);
    StateNames states = update_states(&p->train, kind, &p->param.at[param].type);
    int first_state = p->param.n;

    args[UPDATE_PARAM] = p->param.at[param].value;
    args[UPDATE_GRAD] = grad;
    b->loc = p->param.at[param].loc;
    b->path = path_parent(p->arena, p->param.at[param].name);
    for (int i = 0; i < states.n; i++) {
        Type t = update_state_type(&p->train, kind, &p->param.at[param].type, i);
        args[n++] = ir_add_state(b, param, states.name[i], &t, INIT_ZEROS);
    }
    Attr attr[MAX_ATTRS] = {{.i = param}};
    const char *hint = arena_printf(p->arena, "%s.new", args[UPDATE_PARAM]->name);
    Op *op = ir_op(b, OP_update, n, args, attr, hint);
    put_assign(b, param, op->out[0]);
    for (int i = 0; i < states.n; i++) {
        const Value *old = update_old(op, 1 + i);
        hint = arena_printf(p->arena, "%s.new", old->name);
        op->out[1 + i]->name = ir_unique_name(p, hint);
        put_assign(b, first_state + i, op->out[1 + i]);
    }
}

/* The factor of the gradients, and whether the step updates the parameters. */
static void put_factor(Build *b, Value **args, Value *norm, Value *unscale)
{
    Value *clip = b->p->train.clip > 0 ? put_clip(b, norm) : NULL;
    args[UPDATE_FACTOR] = clip ? clip : unscale;
    if (clip && unscale)
        args[UPDATE_FACTOR] = ir_binary(b, OP_mul, clip, unscale);
    args[UPDATE_GOOD] = put_good(b, norm, unscale != NULL);
    if (args[UPDATE_GOOD] && !args[UPDATE_FACTOR])
        args[UPDATE_FACTOR] = ir_scalar_const(b, 1.0);
}

void autodiff_update(Frame *f)
{
    Program *p = f->a->p;
    int n = p->param.n;
    Value **grads = NEW_ARRAY(p->arena, Value *, n + 1);

    for (int i = 0; i < n; i++) {
        Param *at = &p->param.at[i];
        if (!at->trainable || at->state_of >= 0 || at->value == NULL)
            continue;
        Value *d = autodiff_collect(f, at->value);
        if (d != NULL)
            grads[i] = finish(f, i, d);
        f->a->trains |= d != NULL;
    }
    f->b.phase = PH_OPTIMIZER;
    f->b.loc = p->train.loc;
    f->b.path = "";
    Value *args[MAX_OPERANDS] = {NULL}, *unscale = NULL;
    if (f->a->loss_scale)
        unscale = ir_value(&f->b, OP_recip, 1, &f->a->loss_scale, NULL,
                           "unscale");
    Value *norm = put_norm(&f->b, grads, n, unscale);
    args[UPDATE_LR] = ir_step_scalar(&f->b, "lr");
    args[UPDATE_BIAS1] = ir_step_scalar(&f->b, "bias1");
    args[UPDATE_BIAS2] = ir_step_scalar(&f->b, "bias2");
    put_factor(&f->b, args, norm, unscale);
    int first = args[UPDATE_GOOD]     ? UPDATE_GOOD + 1
                : args[UPDATE_FACTOR] ? UPDATE_FACTOR + 1
                                      : UPDATE_FACTOR;
    for (int i = 0; i < n; i++)
        if (grads[i] != NULL)
            put_update(&f->b, i, grads[i], args, first);
}
