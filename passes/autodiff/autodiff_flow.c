/* autodiff_flow.c: finds the values that have a gradient.
 *
 * A value has one if it depends on a trainable parameter (forward analysis) and
 * the loss depends on it (backward analysis), both through differentiable
 * operands. Loop carries depend on themselves, so loop bodies are visited until
 * a fixed point.
 */
#include "passes/autodiff/autodiff.h"

typedef struct Flow {
    Program *p;
    bool *active; /* depends on a trainable parameter */
    bool *flows;  /* active, and the loss depends on it */
    bool changed;
} Flow;

/* ---- forward ---- */

static void set_active(Flow *f, const Value *v, bool active)
{
    if (!active || f->active[v->id] || !dtype_is_float(v->type.dtype))
        return;
    f->active[v->id] = true;
    f->changed = true;
}

static void activate_region(Flow *f, Region *r);

static void activate_loop(Flow *f, Op *op)
{
    Region *body = op->body;
    bool before = f->changed;

    do {
        f->changed = false;
        for (int i = 0; i < op->nargs; i++)
            set_active(f, body->arg[i], f->active[op->arg[i]->id]);
        for (int i = 0; i < op->ncarry; i++)
            set_active(f, body->arg[i], f->active[body->yield[i]->id]);
        activate_region(f, body);
        before |= f->changed;
    } while (f->changed);
    f->changed = before;
    for (int i = 0; i < op->nouts; i++)
        set_active(f, op->out[i], f->active[body->yield[i]->id]);
}

static void activate_region(Flow *f, Region *r)
{
    for (Op *op = r->first; op != NULL; op = op->next) {
        if (op->kind == OP_loop) {
            activate_loop(f, op);
            continue;
        }
        bool active = false;
        if (op->kind == OP_param)
            active = f->p->param.at[attr_param(op)].trainable;
        for (int i = 0; i < op->nargs; i++)
            active |= gradient_passes(op, i) && f->active[op->arg[i]->id];
        for (int i = 0; i < op->nouts; i++)
            set_active(f, op->out[i], active);
    }
}

/* ---- backward ---- */

static void set_flows(Flow *f, const Value *v)
{
    if (!f->active[v->id] || f->flows[v->id])
        return;
    f->flows[v->id] = true;
    f->changed = true;
}

static void flow_region(Flow *f, Region *r);

static void flow_loop(Flow *f, Op *op)
{
    Region *body = op->body;
    bool before = f->changed;

    do {
        f->changed = false;
        for (int i = 0; i < body->nyields; i++) {
            bool carries_gradient =
                i < op->ncarry && f->flows[body->arg[i]->id];
            if (carries_gradient || f->flows[op->out[i]->id])
                set_flows(f, body->yield[i]);
        }
        flow_region(f, body);
        before |= f->changed;
    } while (f->changed);
    f->changed = before;
    for (int i = 0; i < op->nargs; i++)
        if (f->flows[body->arg[i]->id])
            set_flows(f, op->arg[i]);
}

static void flow_region(Flow *f, Region *r)
{
    for (Op *op = r->last; op != NULL; op = op->prev) {
        if (op->kind == OP_loop) {
            flow_loop(f, op);
            continue;
        }
        bool flows = false;
        for (int i = 0; i < op->nouts; i++)
            flows |= f->flows[op->out[i]->id];
        for (int i = 0; flows && i < op->nargs; i++)
            if (gradient_passes(op, i))
                set_flows(f, op->arg[i]);
    }
}

bool *autodiff_flow(Program *p, Value *loss)
{
    Flow f = {.p = p};

    f.active = NEW_ARRAY(p->arena, bool, p->nvalues);
    f.flows = NEW_ARRAY(p->arena, bool, p->nvalues);
    activate_region(&f, p->step);
    set_flows(&f, loss);
    flow_region(&f, p->step);
    return f.flows;
}
