/* autodiff.c: adds the backward pass and the parameter updates to the program.
 *
 * requires: STAGE_GLOBAL, with a scalar output "loss"
 * ensures:  appended in phase BACKWARD: the gradient of the loss with respect
 *           to each trainable parameter that the loss depends on; in phase
 *           OPTIMIZER: the output "grad_norm", and an `update` and its
 *           assignments for each of these parameters, with optimizer states as
 *           new parameters. Other parameters are unchanged. A forward
 *           program is unchanged.
 *
 *   before
 *     %w = param{param="w"} : f32[4] forward
 *     %x = input{input=0} : f32[2, 4] forward
 *     %y = mul %x, %w : f32[2, 4] forward
 *     %sum = sum{dims=[0, 1], keep=false} %y : f32[] forward
 *     output{name="loss"} %sum forward
 *   after (SGD), appended
 *     %dsum = full{value=1, type=f32, dims=[]} : f32[] backward
 *     %reshape = reshape{dims=[1, 1]} %dsum : f32[1, 1] backward
 *     %dy = broadcast{dims=[2, 4]} %reshape : f32[2, 4] backward
 *     %mul = mul %dy, %x : f32[2, 4] backward
 *     %dw = sum{dims=[0], keep=false} %mul : f32[4] backward
 *     %dw.2 = finish_grad{param="w"} %dw : f32[4] backward
 *     %sumsq = sumsq %dw.2 : f32[] optimizer
 *     %grad_norm = sqrt %sumsq : f32[] optimizer
 *     output{name="grad_norm"} %grad_norm optimizer
 *     %lr = scalar{name="lr"} : f32[] optimizer           … %bias1, %bias2
 *     %w.new = update{param="w"} %w, %dw.2, %lr, %bias1, %bias2 : f32[4] …
 *     assign{param="w"} %w.new optimizer
 *
 * The method is reverse-mode differentiation. Ops are visited last to first; an
 * op's rule (gradients.h) adds gradient terms to its operands. When the walk
 * reaches the producer of a value, all terms of the value exist, in an order
 * that the program's order determines, and are summed. Only the carries of a
 * backward loop can be zero gradients (autodiff_loop.c).
 */
#include <string.h>

#include "base/bug.h"
#include "passes/autodiff/autodiff.h"
#include "passes/pass.h"

/* ---- the walk over the program ---- */

static bool has_gradient(const Autodiff *a, const Op *op)
{
    for (int i = 0; i < op->nouts; i++)
        if (op->out[i]->id < a->nvalues && a->terms[op->out[i]->id].n > 0)
            return true;
    return false;
}

static void differentiate(Frame *f, Op *op)
{
    GradientRule *rule = gradient_rule(op->kind);

    if (op->kind == OP_param)
        return; /* autodiff_update collects its gradient */
    if (rule == NULL) { /* only in an edited dump: lowering checks this */
        diag_error(f->b.p->diag, op->loc, "%%%s: '%s' has no gradient",
                   op->out[0]->name, op_info(op->kind)->name);
        diag_stop(f->b.p->diag);
    }
    Gradient g = {.b = &f->b, .op = op, .frame = f};
    g.d = autodiff_collect(f, op->out[0]);
    if (op->nouts > 1)
        g.d1 = autodiff_collect(f, op->out[1]);
    rule(&g);
}

void autodiff_region(Frame *f, Region *r)
{
    for (Op *op = r->last, *prev; op != NULL; op = prev) {
        prev = op->prev;
        if (!has_gradient(f->a, op))
            continue;
        f->b.loc = op->loc;
        f->b.path = op->path;
        if (op->kind == OP_loop)
            autodiff_loop(f, op);
        else
            differentiate(f, op);
    }
}

static Value *find_loss(Program *p)
{
    for (Op *op = p->step->first; op != NULL; op = op->next)
        if (op->kind == OP_output && strcmp(attr_name(op), "loss") == 0)
            if (op->arg[0]->type.ndim == 0 && op->arg[0]->type.nstack == 0 &&
                dtype_is_float(op->arg[0]->type.dtype))
                return op->arg[0];
    diag_error(p->diag, (Loc){0}, "the IR has no output 'loss' that is a float "
                                  "without dims");
    diag_stop(p->diag);
}

/* The gradient of the loss with respect to itself: 1, or the loss scale. */
static Value *seed(Frame *f, const Value *loss)
{
    if (f->a->p->train.loss_scale <= 0)
        return ir_full(&f->b, 1.0, loss->type.dtype, 0, NULL);
    f->a->loss_scale = ir_step_scalar(&f->b, "loss_scale");
    return ir_cast(&f->b, f->a->loss_scale, loss->type.dtype);
}

static void nothing_to_train(Program *p, const Value *loss)
{
    diag_error(p->diag, loss->loc,
               "there is nothing to train: the loss has no gradient with "
               "respect to any parameter");
    if (p->param.n == 0)
        diag_help(p->diag, "modules such as Linear have parameters; 'param' "
                           "declares one");
}

/* Moves ops of the optimizer's phase that lowering made, the updates of states of
 * modules, from before `end` after the backward pass. They precede the optimizer's own
 * ops: they read parameters, which these overwrite. */
static void move_state_updates(Program *p, Op *end)
{
    Op *optimizer = end;
    while (optimizer && optimizer->phase != PH_OPTIMIZER)
        optimizer = optimizer->next;
    for (Op *op = p->step->first, *next; op != end; op = next) {
        next = op->next;
        if (op->phase == PH_OPTIMIZER)
            ir_move(op, p->step, optimizer);
    }
}

void pass_autodiff(Program *p, const TargetInfo *t)
{
    (void)t;
    if (!program_trains(p))
        return;
    Value *loss = find_loss(p);
    Autodiff a = {.p = p, .nvalues = p->nvalues};
    a.flows = autodiff_flow(p, loss);
    a.terms = NEW_ARRAY(p->arena, Terms, p->nvalues);
    Frame f = {.a = &a};
    f.b = (Build){.p = p,
                  .region = p->step,
                  .phase = PH_BACKWARD,
                  .loc = loss->loc,
                  .path = ""};
    Op *last = p->step->last;
    if (a.flows[loss->id]) {
        autodiff_give(&f, loss, seed(&f, loss));
        autodiff_region(&f, p->step);
    }
    if (diag_error_count(p->diag) > 0)
        return;
    autodiff_update(&f);
    move_state_updates(p, last->next);
    if (!a.trains)
        nothing_to_train(p, loss);
}
