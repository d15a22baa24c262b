/* implied.c: lists the conversions of placements that nothing in the plan asks
 * for, in a program that is placed but not partitioned.
 *
 * It visits every operand as the pass partition does (passes/sharding), and
 * inserts nothing.
 *
 *   %z = add %x, %y    %x: tp S(1), %y: tp R, both needed as S(1)
 *                      → nothing for %x; for %y an Implied if no style, no
 *                        gradient and no part of the loss causes it
 */
#include "passes/sharding/propagate.h"
#include "report/hint.h"

static void visit_region(const Origins *o, const Region *r);

static void visit_carry(const Origins *o, const Value *from, const Value *like)
{
    if (!place_equal(&from->type.place, &like->type.place))
        origin_of_carry(o, from, like);
}

static void visit_loop(const Origins *o, const Op *loop)
{
    const Region *body = loop->body;
    for (int i = 0; i < loop->nargs; i++)
        visit_carry(o, loop->arg[i], body->arg[i]);
    visit_region(o, body);
    for (int i = 0; i < body->nyields; i++)
        visit_carry(o, body->yield[i],
                    i < loop->ncarry ? body->arg[i] : loop->out[i]);
}

static void visit_op(const Origins *o, const Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        const Value *v = op->arg[i];
        if (op->kind == OP_boundary) {
            const Placement *to = &op->out[0]->type.place;
            if (!place_equal(&v->type.place, to))
                origin_of_boundary(o, op, v, to);
            continue;
        }
        Placement fixed = {0};
        if (op_is_fixed(op))
            fixed = fixed_want(o->p, op, i);
        const Placement *want = op_is_fixed(op) ? &fixed
                                : op->needs     ? &op->needs[i]
                                                : NULL;
        if (want && !place_equal(&v->type.place, want))
            origin_of_operand(o, op, i, v, arena_copy(o->p->arena, want,
                                                      sizeof *want));
    }
}

static void visit_region(const Origins *o, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next)
        if (op->kind == OP_loop)
            visit_loop(o, op);
        else
            visit_op(o, op);
}

ImpliedList implied_of(Program *p)
{
    ImpliedList list = {0};
    Origins o;
    origins_find(&o, p);
    o.implied = &list;
    visit_region(&o, p->step);
    return list;
}
