/* simplify_exchanges.c: saves the result of an all-to-all, instead of exchanging its
 * operand once more in the backward pass. Both have the same size.
 *
 * before   %out, %qs = loop{n=4, reverse=false} : … {
 *            %q.2 = all_to_all{axes={cp}} %q : f32[8, 128, 8/cp, 64] forward
 *            %a, %lse = attention{…} %q.2, …
 *            yield %h, %q
 *          %dh = loop{n=4, reverse=true} : … {
 *            stack %qi = %qs : f32[8, 128/cp, 8, 64]
 *            %q.3 = all_to_all{axes={cp}} %qi : f32[8, 128, 8/cp, 64] backward
 *            %dq, … = attention_grad{…} %da, %q.3, …
 * after      yield %h, %q.2
 *          …
 *            stack %qi = %qs : f32[8, 128, 8/cp, 64]
 *            %dq, … = attention_grad{…} %da, %qi, …
 */
#include "passes/simplify/simplify.h"

/* The op of the region that reads v; NULL: none, or not exactly one. */
static Op *only_reader(const Region *r, const Value *v)
{
    Op *found = NULL;
    for (Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v)
                continue;
            if (found)
                return NULL;
            found = op;
        }
    for (int i = 0; i < r->nyields; i++)
        if (r->yield[i] == v)
            return NULL;
    return found;
}

/* The conversion of v in its region that is the same as `op`; NULL: none. */
static Op *same_exchange(const Value *v, const Op *op)
{
    for (Op *o = v->region->first; o; o = o->next)
        if (o->kind == op->kind && o->arg[0] == v && attr_axes(o) == attr_axes(op) &&
            type_equal(&o->out[0]->type, &op->out[0]->type))
            return o;
    return NULL;
}

/* Replaces the stack that is operand i of the loop, if only an all-to-all reads it. */
static void save_exchanged(Program *p, Op *loop, int i)
{
    Value *stack = loop->arg[i];
    Op *from = stack->def;
    if (!from || from->kind != OP_loop || stack->index < from->ncarry)
        return;
    Op *op = only_reader(loop->body, loop->body->arg[i]);
    if (!op || op->kind != OP_all_to_all)
        return;
    Op *same = same_exchange(from->body->yield[stack->index], op);
    if (!same)
        return;
    Value *now = ir_loop_add_stack(p, loop, ir_loop_add_yield(p, from, same->out[0]));
    ir_replace_uses(loop->body, op->out[0], now);
    ir_remove(op);
}

void simplify_exchanges(Program *p, Region *r)
{
    for (Op *op = r->first; op; op = op->next) {
        if (op->kind != OP_loop)
            continue;
        simplify_exchanges(p, op->body);
        for (int i = op->ncarry; loop_is_stack(op, i); i++)
            save_exchanged(p, op, i);
    }
}
