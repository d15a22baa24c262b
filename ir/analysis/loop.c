/* loop.c: builds ops with a body, and adds and removes operands and results of
 * loops.
 *
 * A loop has two pairs of parallel lists: operands and arguments (carries,
 * stacks, free), yields and results (carries, then stacks).
 */
#include <string.h>

#include "base/bug.h"
#include "ir/internal.h"

/* The type of one layer of a stack, and of a stack of n layers. */
static Type layer_type(const Type *t)
{
    Type r = *t;
    if (r.nstack == 0)
        bug("a stack argument of a loop is no stack");
    type_pop_stack(&r);
    return r;
}

static Type stack_type(const Program *p, const Op *loop, const Type *t)
{
    Type r = *t;
    if (!type_push_stack(&r, loop_trips(loop), loop->cut))
        ir_too_deep(p, loop->loc);
    return r;
}

Type loop_carry_type(const Program *p, const Op *loop, Type inside, bool after)
{
    int64_t iteration = attr_reverse(loop) != after ? loop_trips(loop) - 1 : 0;
    for (int a = 0; a < p->mesh.n && loop->cut; a++)
        if (inside.place.ax[a].kind == AX_HERE)
            inside.place.ax[a] = (AxisPlace){
                AX_AT, (uint8_t)cut_stage(&p->mesh, loop->cut, iteration), 0};
    return inside;
}

/* ---- making -------------------------------------------------------------- */

Op *ir_open(Build *b, OpKind kind, int nargs, Value *const *args, int ncarry,
            int nstack, const Attr *attr)
{
    Op *op = ir_raw_op(b->p, kind, nargs, 0);
    if (nargs)
        memcpy(op->arg, args, sizeof *args * (size_t)nargs);
    if (attr)
        memcpy(op->attr, attr,
               sizeof *attr * (kind == OP_loop ? (size_t)2 : (size_t)1));
    op->phase = b->phase;
    op->loc = b->loc;
    op->path = b->path ? b->path : "";
    op->piece = b->piece;
    op->ncarry = ncarry;
    op->nstack = nstack;
    op->body = ir_raw_region(b->p, op, nargs);
    for (int i = 0; i < nargs; i++) {
        bool stack = i >= ncarry && i < ncarry + nstack;
        Type t = stack ? layer_type(&args[i]->type) : args[i]->type;
        Value *v = ir_new_value(b->p, args[i]->name, t, args[i]->loc);
        memcpy(v->why, args[i]->why, sizeof v->why);
        ir_set_region_arg(op->body, i, v);
    }
    ir_insert(op, b->region, b->before);
    return op;
}

void ir_yield(Program *p, Region *r, int n, Value *const *values)
{
    r->nyields = n;
    r->yield = NEW_ARRAY(p->arena, Value *, n);
    if (n)
        memcpy(r->yield, values, sizeof *values * (size_t)n);
}

static Value *result_for(Program *p, const Op *op, int i)
{
    const Value *yield = op->body->yield[i];
    bool loop = op->kind == OP_loop, carry = i < op->ncarry;
    Type t = loop && !carry ? stack_type(p, op, &yield->type)
             : loop         ? loop_carry_type(p, op, yield->type, true)
                            : yield->type;
    Value *v = ir_new_value(p, yield->name, t, yield->loc);
    memcpy(v->why, yield->why, sizeof v->why);
    return v;
}

void ir_close(Program *p, Op *op)
{
    op->nouts = op->body->nyields;
    op->out = NEW_ARRAY(p->arena, Value *, op->nouts);
    for (int i = 0; i < op->nouts; i++)
        ir_set_out(op, i, result_for(p, op, i));
}

/* ---- adding -------------------------------------------------------------- */

static Value **insert_at(Program *p, Value **list, int n, int i, Value *v)
{
    Value **grown = NEW_ARRAY(p->arena, Value *, n + 1);
    if (i)
        memcpy(grown, list, sizeof *list * (size_t)i);
    grown[i] = v;
    if (n > i)
        memcpy(grown + i + 1, list + i, sizeof *list * (size_t)(n - i));
    return grown;
}

static void renumber(Value **list, int n)
{
    for (int i = 0; i < n; i++)
        list[i]->index = i;
}

static Value *add_argument(Program *p, Op *loop, int i, Value *operand, Type t)
{
    Region *body = loop->body;
    Loc loc = operand->loc.file ? operand->loc : loop->loc;
    Value *v = ir_new_value(p, operand->name, t, loc);
    memcpy(v->why, operand->why, sizeof v->why);
    v->region = body;
    loop->arg = insert_at(p, loop->arg, loop->nargs, i, operand);
    body->arg = insert_at(p, body->arg, body->nargs, i, v);
    loop->nargs++;
    body->nargs++;
    renumber(body->arg, body->nargs);
    return v;
}

static Value *add_result(Program *p, Op *loop, int i, Value *inner, Type t)
{
    Region *body = loop->body;
    Loc loc = inner->loc.file ? inner->loc : loop->loc;
    Value *v = ir_new_value(p, inner->name, t, loc);
    memcpy(v->why, inner->why, sizeof v->why);
    v->def = loop;
    v->region = loop->region;
    body->yield = insert_at(p, body->yield, body->nyields, i, inner);
    loop->out = insert_at(p, loop->out, loop->nouts, i, v);
    body->nyields++;
    loop->nouts++;
    renumber(loop->out, loop->nouts);
    return v;
}

Value *ir_loop_add_carry(Program *p, Op *loop, Value *start)
{
    int i = loop->ncarry++;
    Value *v = add_argument(p, loop, i, start, start->type);
    add_result(p, loop, i, v, start->type);
    return v;
}

Value *ir_loop_add_free(Program *p, Op *loop, Value *operand)
{
    return add_argument(p, loop, loop->nargs, operand, operand->type);
}

Value *ir_loop_add_stack(Program *p, Op *loop, Value *operand)
{
    int i = loop->ncarry + loop->nstack;
    loop->nstack++;
    return add_argument(p, loop, i, operand, layer_type(&operand->type));
}

Value *ir_loop_add_yield(Program *p, Op *loop, Value *inner)
{
    Type t = loop->kind == OP_loop ? stack_type(p, loop, &inner->type)
                                   : inner->type;
    return add_result(p, loop, loop->nouts, inner, t);
}

Value *ir_loop_inside(Program *p, Value *v, Region *r)
{
    if (v->region == r)
        return v;
    Op *loop = r->owner;
    Value *outside = ir_loop_inside(p, v, loop->region);
    for (int i = loop->ncarry + loop->nstack; i < loop->nargs; i++)
        if (loop->arg[i] == outside)
            return r->arg[i];
    return ir_loop_add_free(p, loop, outside);
}

/* ---- dropping ------------------------------------------------------------ */

static void delete_at(Value **list, int n, int i)
{
    memmove(list + i, list + i + 1, sizeof *list * (size_t)(n - i - 1));
}

static void drop_argument(Op *loop, int i)
{
    Region *body = loop->body;
    delete_at(loop->arg, loop->nargs--, i);
    delete_at(body->arg, body->nargs--, i);
    renumber(body->arg, body->nargs);
}

static void drop_yield(Op *loop, int i)
{
    Region *body = loop->body;
    delete_at(body->yield, body->nyields--, i);
    delete_at(loop->out, loop->nouts--, i);
    renumber(loop->out, loop->nouts);
}

void ir_loop_drop_arg(Program *p, Op *loop, int i)
{
    (void)p;
    drop_argument(loop, i);
    if (i < loop->ncarry) {
        loop->ncarry--;
        drop_yield(loop, i);
    } else if (i < loop->ncarry + loop->nstack) {
        loop->nstack--;
    }
}

void ir_loop_drop_result(Program *p, Op *loop, int i)
{
    if (i < loop->ncarry)
        ir_loop_drop_arg(p, loop, i);
    else
        drop_yield(loop, i);
}

/* ---- the loop over microbatches ------------------------------------------ */

/* A side program has no backward ops: there it is the loop that comes from
 * the train block. */
bool loop_is_microbatches(const Program *p, const Op *op)
{
    if (op->kind != OP_loop || op->phase != PH_FORWARD || *op->path)
        return false;
    if (!program_trains(p))
        return p->train.accumulate > 1 && op->loc.file == p->train.loc.file &&
               op->loc.line == p->train.loc.line;
    for (const Op *in = op->body->first; in; in = in->next)
        if (in->phase == PH_BACKWARD)
            return true;
    return false;
}
