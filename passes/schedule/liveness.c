/* liveness.c: computes the time of each value's last use.
 *
 * Times count ops in program order, but not those that only say when others
 * run. Bodies of loops are inside their loop: a loop begins before its body's
 * first op and finishes after the last. A loop reads its operands until it
 * finishes; a yield is read when its loop finishes. Regions are closed (bodies
 * read only their arguments), so that a use is in the region of the definition.
 */
#include "passes/schedule/liveness.h"

static int number(Region *r, Liveness *l, int time)
{
    for (Op *op = r->first; op; op = op->next) {
        if (op_is_schedule(op->kind)) { /* takes no time */
            l->begin[op->id] = l->finish[op->id] = time;
            continue;
        }
        l->begin[op->id] = time++;
        if (op->kind == OP_loop)
            time = number(op->body, l, time) + 1;
        l->finish[op->id] = time - 1;
    }
    return time;
}

static void use(Liveness *l, Value *v, int time)
{
    Value *root = value_root(v);
    if (l->last_use[root->id] < time)
        l->last_use[root->id] = time;
}

static void visit(Region *r, Liveness *l)
{
    for (int i = 0; i < r->nargs; i++)
        l->last_use[r->arg[i]->id] = l->begin[r->owner->id];
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nouts; i++)
            if (l->last_use[op->out[i]->id] < l->finish[op->id])
                l->last_use[op->out[i]->id] = l->finish[op->id];
        for (int i = 0; i < op->nargs; i++)
            use(l, op->arg[i], l->finish[op->id]);
        if (op->kind == OP_loop)
            visit(op->body, l);
        if (op->kind == OP_output)
            use(l, op->arg[0], l->end - 1);
    }
    for (int i = 0; i < r->nyields && r->owner; i++)
        use(l, r->yield[i], l->finish[r->owner->id]);
}

void live_analyse(const Program *p, Liveness *l)
{
    l->begin = NEW_ARRAY(p->arena, int, p->nops);
    l->finish = NEW_ARRAY(p->arena, int, p->nops);
    l->last_use = NEW_ARRAY(p->arena, int, p->nvalues);
    l->end = number(p->step, l, 0);
    visit(p->step, l);
}
