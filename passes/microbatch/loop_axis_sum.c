/* loop_axis_sum.c: accumulates sums over the iterations of a loop in place.
 *
 *   before
 *     %dh, %dw = loop{n=32, reverse=true} : …, f32[32 x 64, 64] backward {
 *       …
 *       yield %dx, %dwi
 *     }
 *     %sum.2 = add %sum, %dw : f32[32 x 64, 64] backward
 *   after
 *     %dh, %dw = loop{n=32, reverse=true} : …, f32[32 x 64, 64] backward {
 *       stack %sumi = %sum : f32[64, 64]
 *       …
 *       %add = add %sumi, %dwi : f32[64, 64] backward
 *       yield %dx, %add
 *     }
 *
 * A second stack of gradients is never stored: `schedule` and `memory` let the
 * new stack overwrite the old one slice by slice. A sum that an inner loop
 * carries from zero starts at the outer sum instead.
 */
#include "passes/microbatch/loop_axis.h"

static int count_yields(const Value *v)
{
    int n = 0;
    for (int i = 0; i < v->region->nyields; i++)
        n += v->region->yield[i] == v;
    return n;
}

static int count_reads(const Value *v)
{
    return ir_count_uses(v) - count_yields(v);
}

static Op *only_reader(const Value *v)
{
    for (Op *op = v->region->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (op->arg[i] == v)
                return op;
    return NULL;
}

/* ---- zeros --------------------------------------------------------------- */

Value *loop_axis_zero(Build *b, const Type *t, const char *hint)
{
    Attr attr[MAX_ATTRS] = {{.i = t->dtype}, {.l = {t->nstack, {0}}},
                            {.l = {t->ndim, {0}}}};
    for (int i = 0; i < t->nstack; i++)
        attr[1].l.v[i] = t->stack[i];
    for (int d = 0; d < t->ndim; d++)
        attr[2].l.v[d] = t->dim[d];
    return ir_op_typed(b, OP_zeros, 0, NULL, attr, 1, t, &hint)->out[0];
}

/* ---- sums ---------------------------------------------------------------- */

/* Whether carry i is a plain sum over the iterations: terms are added to its
 * argument, and no other op reads it. */
static bool is_sum(const Op *loop, int i)
{
    const Value *v = loop->body->arg[i];
    while (v != loop->body->yield[i]) {
        const Op *op = only_reader(v);
        if (ir_count_uses(v) != 1 || !op || op->kind != OP_add)
            return false;
        v = op->out[0];
    }
    return v != loop->body->arg[i] && count_reads(v) == 0 &&
           count_yields(v) == 1;
}

static Value *add_term(Program *p, Value *sum, Value *x)
{
    Op *def = x->def;
    Build b = ir_build_at(p, def, def->next);
    if (dtype_is_float(sum->type.dtype))
        x = ir_cast(&b, x, sum->type.dtype);
    return ir_value(&b, OP_add, 2, (Value *[]){sum, x}, NULL, sum->name);
}

static bool is_carry(const Value *v)
{
    const Op *loop = v->def ? NULL : v->region->owner;
    return loop && loop->kind == OP_loop && v->index < loop->ncarry;
}

void loop_axis_continue(Program *p, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->body)
            loop_axis_continue(p, op->body);
        if (op->kind != OP_add)
            continue;
        Value *sum = op->arg[0], *x = op->arg[1];
        Op *loop = x->def;
        if (!is_carry(sum) || !loop || loop->kind != OP_loop ||
            x->index >= loop->ncarry || count_reads(x) != 1 ||
            count_yields(x) || count_reads(sum) != 1 ||
            !type_equal(&x->type, &sum->type) ||
            !op_is_zero(loop->arg[x->index]->def) || !is_sum(loop, x->index) ||
            !type_equal(&loop->arg[x->index]->type, &sum->type))
            continue;
        loop->arg[x->index] = sum;
        ir_replace_uses(r, op->out[0], x);
        ir_remove(op);
    }
}

Value *loop_axis_add(Program *p, Region *r, Value *sum, Value *x, bool alone)
{
    Op *loop = x->def;
    bool inside = loop->kind == OP_loop && loop->region == r && alone &&
                  count_reads(x) == 0 && x->type.dtype == sum->type.dtype;
    if (inside && x->index < loop->ncarry) {
        if (!op_is_zero(loop->arg[x->index]->def) || !is_sum(loop, x->index) ||
            !type_equal(&loop->arg[x->index]->type, &sum->type))
            return add_term(p, sum, x);
        loop->arg[x->index] = sum;
        return x;
    }
    if (inside && loop->body->yield[x->index]->def) {
        Value *slice = ir_loop_add_stack(p, loop, sum);
        Region *body = loop->body;
        Value *y = body->yield[x->index];
        body->yield[x->index] =
            loop_axis_add(p, body, slice, y, count_yields(y) == 1);
        return x;
    }
    return add_term(p, sum, x);
}
