/* dead.c: removes ops and values that no effect of the step depends on.
 *
 *   %a, %s = loop … { carry %x, carry %y … yield %x1, %y1, %z }   %s unused
 * becomes
 *   %a = loop … { carry %x … yield %x1 }           where only %a is read
 *
 * Values are marked backwards from the ops with effects. The start, argument,
 * yield and result of a carry are marked together. A grouped collective keeps
 * the operands whose results are read.
 */

#include "ir/analysis/dead.h"

static void mark_all(IrMarks *m, Value *const *v, int n)
{
    for (int i = 0; i < n; i++)
        ir_mark_value(m, v[i]);
}

void ir_mark_value(IrMarks *m, Value *v)
{
    if (m->value[v->id])
        return;
    m->value[v->id] = true;
    vec_push(m->p->arena, &m->work, v);
}

void ir_mark_op(IrMarks *m, Op *op)
{
    for (; op && !m->op[op->id]; op = op->region->owner) {
        m->op[op->id] = true;
        if (m->partial[op->id])
            continue;
        mark_all(m, op->arg, op->nargs);
        mark_all(m, op->out, op->nouts);
        if (!op->body)
            continue;
        mark_all(m, op->body->arg, op->body->nargs);
        mark_all(m, op->body->yield, op->body->nyields);
    }
}

static void mark_carry(IrMarks *m, Op *loop, int i)
{
    ir_mark_value(m, loop->arg[i]);
    ir_mark_value(m, loop->body->arg[i]);
    ir_mark_value(m, loop->body->yield[i]);
    ir_mark_value(m, loop->out[i]);
}

static void mark_needs(IrMarks *m, Value *v)
{
    Op *op = v->def ? v->def : v->region->owner;
    if (!op)
        return;
    ir_mark_op(m, op);
    if (op->kind == OP_loop && v->index < op->ncarry)
        mark_carry(m, op, v->index);
    else if (op->body && v->def)
        ir_mark_value(m, op->body->yield[v->index]);
    else if (op->body || op_is_conversion(op->kind))
        ir_mark_value(m, op->arg[v->index]);
}

void ir_mark_dependences(IrMarks *m)
{
    while (m->work.n) {
        Value *v = m->work.at[--m->work.n];
        mark_needs(m, v);
    }
}

/* ---- sweeping ------------------------------------------------------------ */

/* Compacts two parallel lists to the entries whose first value is marked. */
static int keep_pairs(const IrMarks *m, Value **key, Value **other, int from,
                      int n, int to)
{
    for (int i = from; i < n; i++) {
        if (!m->value[key[i]->id])
            continue;
        key[to] = key[i];
        other[to] = other[i];
        key[to]->index = to;
        to++;
    }
    return to;
}

static void sweep_body_op(const IrMarks *m, Op *op)
{
    Region *body = op->body;
    int carries = keep_pairs(m, body->arg, op->arg, 0, op->ncarry, 0);
    int stacks = keep_pairs(m, body->arg, op->arg, op->ncarry,
                            op->ncarry + op->nstack, carries);
    body->nargs = keep_pairs(m, body->arg, op->arg, op->ncarry + op->nstack,
                             op->nargs, stacks);
    op->nargs = body->nargs;
    op->nouts = keep_pairs(m, op->out, body->yield, 0, op->nouts, 0);
    body->nyields = op->nouts;
    op->ncarry = carries;
    op->nstack = stacks - carries;
}

static void sweep(const IrMarks *m, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (!m->op[op->id]) {
            ir_remove(op);
            continue;
        }
        if (op->body) {
            sweep_body_op(m, op);
            sweep(m, op->body);
        } else if (op_is_conversion(op->kind)) {
            op->nargs = keep_pairs(m, op->out, op->arg, 0, op->nouts, 0);
            op->nouts = op->nargs;
        }
    }
}

void ir_keep_marked(const IrMarks *m)
{
    sweep(m, m->p->step);
}

IrMarks ir_marks(Program *p)
{
    return (IrMarks){.p = p,
                     .value = NEW_ARRAY(p->arena, bool, p->nvalues),
                     .op = NEW_ARRAY(p->arena, bool, p->nops),
                     .partial = NEW_ARRAY(p->arena, bool, p->nops)};
}

void ir_eliminate_dead(Program *p)
{
    IrMarks m = ir_marks(p);
    for_ops(op, p->step)
        m.partial[op->id] = op->body || op_is_conversion(op->kind);
    for_ops(op, p->step)
        if (op_info(op->kind)->effect)
            ir_mark_op(&m, op);
    ir_mark_dependences(&m);
    ir_keep_marked(&m);
}
