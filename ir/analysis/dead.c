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

#include "ir/internal.h"

typedef struct Marks {
    Program *p;
    bool *value, *op; /* by id */
    VEC(Value *) work; /* not used by sweep */
} Marks;

static void mark_value(Marks *m, Value *v)
{
    if (m->value[v->id])
        return;
    m->value[v->id] = true;
    vec_push(m->p->arena, &m->work, v);
}

/* Marks an op and the ops that contain it. */
static void mark_op(Marks *m, Op *op)
{
    for (; op && !m->op[op->id]; op = op->region->owner) {
        m->op[op->id] = true;
        if (op->body || op_is_conversion(op->kind))
            continue; /* only operands whose results are marked */
        for (int i = 0; i < op->nargs; i++)
            mark_value(m, op->arg[i]);
    }
}

static void mark_carry(Marks *m, Op *loop, int i)
{
    mark_value(m, loop->arg[i]);
    mark_value(m, loop->body->arg[i]);
    mark_value(m, loop->body->yield[i]);
    mark_value(m, loop->out[i]);
}

static void mark_needs(Marks *m, Value *v)
{
    Op *op = v->def;
    if (!op) {
        op = v->region->owner;
        if (op && op->kind == OP_loop && v->index < op->ncarry)
            mark_carry(m, op, v->index);
        else if (op)
            mark_value(m, op->arg[v->index]);
        return;
    }
    mark_op(m, op);
    if (op->kind == OP_loop && v->index < op->ncarry)
        mark_carry(m, op, v->index);
    else if (op->body)
        mark_value(m, op->body->yield[v->index]);
    else if (op_is_conversion(op->kind))
        mark_value(m, op->arg[v->index]);
}

/* ---- sweeping ------------------------------------------------------------ */

/* Compacts two parallel lists to the entries whose first value is marked. */
static int keep_pairs(const Marks *m, Value **key, Value **other, int from,
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

static void sweep_body_op(const Marks *m, Op *op)
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

static void sweep(const Marks *m, Region *r)
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

void ir_keep_marked(Program *p, bool *value, bool *op)
{
    const Marks m = {.p = p, .value = value, .op = op};
    sweep(&m, p->step);
}

void ir_eliminate_dead(Program *p)
{
    Marks m = {.p = p};
    m.value = NEW_ARRAY(p->arena, bool, p->nvalues);
    m.op = NEW_ARRAY(p->arena, bool, p->nops);
    for_ops(op, p->step)
        if (op_info(op->kind)->effect)
            mark_op(&m, op);
    while (m.work.n) {
        Value *v = m.work.at[--m.work.n];
        mark_needs(&m, v);
    }
    sweep(&m, p->step);
}
