/* simplify_loops.c: removes duplicate operands and results of loops, and conversions that
 * are the same in each iteration.
 *
 * before   %a, %b = loop n=4 … carry(%x = %x0) free(%t = %c, %u = %c)
 *                   { … yield %y, %z, %z, %t }
 * after    %a, %b = loop n=4 … carry(%x = %x0) free(%t = %c)
 *                   { … yield %y, %z }
 *
 * Autodiff saves a value once for each name that it has before and after
 * boundaries; since partition has removed these, the names are one value. A
 * stack of a loop-invariant value is replaced by the value: later loops that
 * slice the stack read it directly. If they convert it, as backward loops do, that is done
 * once before the loop, as partition does it in the forward pass.
 */
#include "base/bug.h"
#include "passes/simplify/simplify.h"

static void merge_arguments(Program *p, Op *loop)
{
    Region *body = loop->body;
    for (int i = loop->ncarry; i < loop->nargs; i++)
        for (int k = loop->ncarry; k < i; k++) {
            if (loop->arg[k] != loop->arg[i] ||
                loop_is_stack(loop, k) != loop_is_stack(loop, i))
                continue;
            ir_replace_uses(body, body->arg[i], body->arg[k]);
            ir_loop_drop_arg(p, loop, i--);
            break;
        }
}

static void merge_results(Program *p, Op *loop)
{
    for (int i = loop->ncarry; i < loop->nouts; i++)
        for (int k = loop->ncarry; k < i; k++) {
            if (loop->body->yield[k] != loop->body->yield[i])
                continue;
            ir_replace_uses(loop->region, loop->out[i], loop->out[k]);
            ir_loop_drop_result(p, loop, i--);
            break;
        }
}

/* Lets later loops that slice `stack` read `value` as a free operand. */
static void read_unstacked(Program *p, Op *from, Value *stack, Value *value)
{
    for (Op *op = from; op; op = op->next) {
        if (op->kind != OP_loop)
            continue;
        for (int i = op->ncarry; loop_is_stack(op, i); i++) {
            if (op->arg[i] != stack)
                continue;
            Value *arg = ir_loop_add_free(p, op, value);
            ir_replace_uses(op->body, op->body->arg[i], arg);
            ir_loop_drop_arg(p, op, i--);
        }
    }
}

/* Replaces results that stack an argument: the stack of a stack's slices is
 * that stack, the stack of a free argument is its operand in every
 * iteration. */
static void pass_by(Program *p, Op *loop)
{
    for (int i = loop->ncarry; i < loop->nouts; i++) {
        const Value *v = loop->body->yield[i];
        if (v->def || v->region != loop->body || v->index < loop->ncarry)
            continue;
        Value *operand = loop->arg[v->index];
        if (loop_is_stack(loop, v->index))
            ir_replace_uses(loop->region, loop->out[i], operand);
        else
            read_unstacked(p, loop->next, loop->out[i], operand);
    }
}

/* Moves a conversion of a free argument, which is the same in all iterations, before the
 * loop. */
static void convert_before(Program *p, Op *loop)
{
    for (Op *op = loop->body->first, *next; op; op = next) {
        const Value *v = op->nargs == 1 ? op->arg[0] : NULL;
        next = op->next;
        if (!v || !op_is_conversion(op->kind) || v->def || v->region != loop->body ||
            !loop_is_free(loop, v->index))
            continue;
        op->arg[0] = loop->arg[v->index];
        ir_move(op, loop->region, loop);
        Value *inside = ir_loop_add_free(p, loop, op->out[0]);
        ir_replace_uses(loop->body, op->out[0], inside);
    }
}

void simplify_loops(Program *p, Region *r)
{
    for (Op *op = r->first; op; op = op->next) {
        if (op->kind != OP_loop)
            continue;
        merge_arguments(p, op);
        simplify_loops(p, op->body);
        convert_before(p, op);
        merge_results(p, op);
        pass_by(p, op);
    }
}
