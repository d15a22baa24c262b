/* propagate_why.c: records the reason for every placement.
 *
 * For a value that a boundary, a parameter or an input places, the reason is
 * the plan's line; any other value follows an operand, and has that operand's
 * line. Where the plan splits a dim that an op cannot keep split (attention
 * heads that the axis does not divide), the user gets an error instead of a
 * gather in every layer.
 */
#include "ir/options.h"
#include "ir/path.h"
#include "passes/pass.h"
#include "passes/sharding/context.h"
#include "ir/analysis/expert_items.h"
#include "passes/sharding/experts.h"
#include "passes/sharding/propagate.h"

/* The style of the module that declares a parameter of this name. */
static const Style *style_of_param(const Program *p, const char *name,
                                   int axis)
{
    return style_of_path(p, path_parent(p->arena, name), axis);
}

static Why why_param(const Program *p, const Param *q, int axis)
{
    if (q->state_of >= 0)
        q = &p->param.at[q->state_of];
    /* A placement of the parameter itself comes before its module's style. */
    const Style *s = style_of_path(p, q->name, axis);
    if (!s || s->kind != STYLE_PARAMETER)
        s = style_of_param(p, q->name, axis);
    for (int i = 0; !s && i < q->nalias; i++)
        s = style_of_param(p, q->alias[i], axis);
    if (s)
        return why_is(style_text(p->arena, s), s->loc);
    return why_is("no style splits it", q->loc);
}

static Why why_input(const Program *p, const Input *in, int axis)
{
    if (p->plan.context.axes >> axis & 1)
        return why_is(arena_printf(p->arena, "%s splits sequences", clause_name(CL_CONTEXT)),
                      p->plan.context.loc);
    if (p->plan.tensor_axes >> axis & 1)
        return why_is("every rank of the axis reads the same batch", in->loc);
    return why_is("axes that no `parallelize` names split the batch",
                  p->plan.loc.file ? p->plan.loc : in->loc);
}

static Why follows(const Value *v, int axis)
{
    return (Why){.follows = v->name, .loc = v->why[axis].loc};
}

/* The operand that determines the result's placement on the axis: one that is
 * split or Partial, else the first. */
static Why why_by_rule(const Op *op, const Value *out, int axis)
{
    const Value *from = NULL;
    for (int i = 0; i < op->nargs; i++) {
        const Value *v = op->arg[i];
        int kind = v->type.place.ax[axis].kind;
        bool stronger = from && from->type.place.ax[axis].kind == AX_R;
        if (!from || (kind != AX_R && stronger))
            from = v;
    }
    if (!from)
        return why_is("the placement that its consumers need", op->loc);
    AxisPlace is = out->type.place.ax[axis];
    if (is.kind == AX_S && from->type.place.ax[axis].kind == AX_R)
        return why_is("the placement that its consumers need", op->loc);
    return follows(from, axis);
}

static Why why_result(const Propagate *g, const Op *op, int o, int axis)
{
    const Program *p = g->p;
    switch ((int)op->kind) {
    case OP_param:
        return why_param(p, &p->param.at[attr_param(op)], axis);
    case OP_input:
        return why_input(p, &p->input.at[attr_input(op)], axis);
    case OP_boundary: {
        const Style *s = g->layout[op->id][axis].style;
        if (s)
            return why_is(style_text(p->arena, s), s->loc);
        return op->arg[0]->why[axis];
    }
    case OP_finish_grad: {
        const Param *q = &p->param.at[attr_param(op)];
        return why_is(arena_printf(p->arena,
                                   "the placement of its parameter %s",
                                   q->name),
                      q->value ? q->value->why[axis].loc : q->loc);
    }
    case OP_loop:
        return follows(op->body->yield[o], axis);
    default:
        if (context_exchanges(p, op, axis))
            return why_is(context_text(p), p->plan.context.loc);
        if (experts_exchange(p, op, axis)) {
            const ExpertItem *item = expert_item(p, op);
            return why_is(experts_text(p, item), item->loc);
        }
        return why_by_rule(op, op->out[o], axis);
    }
}

/* ---- splits that an op cannot follow ------------------------------------- */

/* Reports a reshape of a dim into several, which cannot keep it split because
 * the axis does not divide the major part. */
static void check_reshape(const Propagate *g, const Op *op, int axis)
{
    const Program *p = g->p;
    const Value *v = op->arg[0];
    AxisPlace is = v->type.place.ax[axis];
    const Rule *r = splits_rule(g->splits, op);
    if (is.kind != AX_S || r->dim[0][is.dim].n < 2 ||
        !(p->plan.tensor_axes >> axis & 1))
        return;
    int64_t major = r->factor[r->dim[0][is.dim].f[0]].size;
    int64_t size = p->mesh.size[axis];
    if (major % size == 0)
        return;
    bool output = v->def && v->def->kind == OP_boundary;
    diag_error(p->diag, v->why[axis].loc,
               "axis '%s' of size %lld cannot split dim %d of %s'%s': it is "
               "reshaped into %lld x %lld, and %lld does not divide %lld",
               p->mesh.name[axis], (long long)size, is.dim,
               output ? "the output of " : "",
               output ? attr_path(v->def) : v->name,
               (long long)major, (long long)(v->type.dim[is.dim] / major),
               (long long)size, (long long)major);
    diag_note(p->diag, op->loc, "here %s becomes %s",
              type_text(p->arena, &v->type, &p->mesh),
              type_text(p->arena, &op->out[0]->type, &p->mesh));
    diag_help(p->diag, "choose a size of '%s' that divides %lld, or remove "
              "the module from the plan", p->mesh.name[axis],
              (long long)major);
}

/* ---- the walk ------------------------------------------------------------ */

static void explain_arguments(const Propagate *g, const Op *loop)
{
    for (int i = 0; i < loop->nargs; i++)
        for (int a = 0; a < g->p->mesh.n; a++)
            loop->body->arg[i]->why[a] = loop->arg[i]->why[a];
}

static void explain_region(const Propagate *g, Region *r)
{
    for (Op *op = r->first; op; op = op->next) {
        if (op->body) {
            explain_arguments(g, op);
            explain_region(g, op->body);
        }
        for (int a = 0; a < g->p->mesh.n; a++) {
            if (op->kind == OP_reshape && op->phase == PH_FORWARD)
                check_reshape(g, op, a);
            for (int o = 0; o < op->nouts; o++)
                op->out[o]->why[a] = why_result(g, op, o, a);
        }
    }
}

void propagate_explain(Propagate *g)
{
    explain_region(g, g->p->step);
}
