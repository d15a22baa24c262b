/* loop_axis_order.c: decides which ops run in the loop that replaces a loop
 * axis (loop_axis.h), before it and after it. */
#include "ir/units.h"
#include "passes/microbatch/loop_axis.h"

bool loop_axis_converts(const Op *op, int axis)
{
    return op_is_conversion(op->kind) && (attr_axes(op) >> axis & 1);
}

bool loop_axis_varies(const Value *v, int axis)
{
    return v->type.place.ax[axis].kind != AX_R;
}

bool loop_axis_touches(const Op *op, int axis)
{
    for (int i = 0; i < op->nargs; i++)
        if (loop_axis_varies(op->arg[i], axis))
            return true;
    for (int i = 0; i < op->nouts; i++)
        if (loop_axis_varies(op->out[i], axis))
            return true;
    for (Op *o = op->body ? op->body->first : NULL; o; o = o->next)
        if (loop_axis_touches(o, axis))
            return true;
    return false;
}

void loop_axis_mark_users(const Region *r, const Value *v, bool *depends)
{
    depends[v->id] = true;
    for (const Op *op = v->def ? v->def->next : r->first; op; op = op->next)
        if (op_reads_any(op, depends))
            for (int i = 0; i < op->nouts; i++)
                depends[op->out[i]->id] = true;
}

void loop_axis_mark_results(const LoopAxis *t, bool *depends)
{
    for (int i = 0; i < t->total.n; i++)
        loop_axis_mark_users(t->r, t->total.at[i]->out[0], depends);
    for (int i = 0; i < t->gather.n; i++)
        loop_axis_mark_users(t->r, t->gather.at[i]->out[0], depends);
}

/* ---- cheap producers ----------------------------------------------------- */

static bool may_sink(const LoopAxis *t, const Op *op)
{
    if (op->phase == PH_INIT || op->body || op->nouts == 0)
        return false;
    if (op_is_unit_gather(op))
        return !unit_gathers_per_step(t->p, attr_unit(op));
    return op_info(op->kind)->cheap;
}

/* Whether op's results are read, and only by ops of the loop. */
static bool serves_loop(const LoopAxis *t, const Op *op)
{
    bool read = false;
    for (int o = 0; o < op->nouts; o++) {
        for (int i = 0; i < t->r->nyields; i++)
            if (t->r->yield[i] == op->out[o])
                return false;
        for (const Op *user = op->next; user; user = user->next)
            for (int i = 0; i < user->nargs; i++) {
                if (user->arg[i] != op->out[o])
                    continue;
                if (!loop_axis_has(t, user))
                    return false;
                read = true;
            }
    }
    return read;
}

void loop_axis_sink(LoopAxis *t)
{
    for (Op *op = t->r->last; op; op = op->prev)
        if (op->id < t->nops && !t->inside[op->id] && may_sink(t, op) &&
            serves_loop(t, op))
            t->inside[op->id] = true;
}

/* ---- position of the loop ------------------------------------------------ */

/* Moves the producers of op's operands before `at`, in order. Their phase
 * becomes the loop's if it was later. */
static void move_needed(LoopAxis *t, Op *op, Op *at, const bool *early,
                        bool *seen)
{
    for (int i = 0; i < op->nargs; i++) {
        Op *def = op->arg[i]->def;
        if (!def || loop_axis_has(t, def) || seen[def->id])
            continue;
        seen[def->id] = true;
        move_needed(t, def, at, early, seen);
        if (def->phase > PH_FORWARD)
            def->phase = PH_FORWARD;
        if (!early[def->id])
            ir_move(def, t->r, at);
    }
}

Op *loop_axis_insertion_point(LoopAxis *t)
{
    bool *depends = NEW_ARRAY(t->p->arena, bool, t->p->nvalues);
    bool *early = NEW_ARRAY(t->p->arena, bool, t->p->nops);
    bool *seen = NEW_ARRAY(t->p->arena, bool, t->p->nops);
    loop_axis_mark_results(t, depends);
    Op *at = t->r->first;
    while (at && (loop_axis_has(t, at) || at->nouts == 0 ||
                  !depends[at->out[0]->id])) {
        if (!loop_axis_has(t, at))
            early[at->id] = true;
        at = at->next;
    }
    for (Op *op = t->r->first; op; op = op->next)
        if (loop_axis_has(t, op))
            move_needed(t, op, at, early, seen);
    return at;
}
