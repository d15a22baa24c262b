/* sinks.c: expands the sinks of attention into elementwise ops.
 *
 * requires: STAGE_GLOBAL; the backward pass exists: it reads the results of
 *           attention_sinks in place of those of the attention
 * ensures:  the same stage, without attention_sinks
 *
 * before   %y, %all = attention_sinks %o, %lse, %x : f32[2, 8, 4, 16], f32[2, 4, 8] forward
 * after    %low = sub of lse and x, as f32[2, 8, 4]
 *          %y = %o * sigmoid(%low)
 *          %all = x + relu(%low) + log(1 + exp(-|%low|))
 *
 * An attention without keys has o = 0 and lse = 0: y is 0 too. The sums cost one pass over o,
 * so that kernels and libraries need no attention with sinks.
 */
#include "passes/pass.h"

/* log(exp(lse) + exp(x)), of low = lse - x. */
static Value *log_sum(Build *b, Value *low, Value *x)
{
    Attr one[MAX_ATTRS] = {{.f = 1}};
    Value *far = ir_unary(b, OP_neg, ir_unary(b, OP_abs, low));
    Value *sum = ir_unary(b, OP_exp, far);
    sum = ir_unary(b, OP_log, ir_value(b, OP_offset, 1, &sum, one, NULL));
    return ir_binary(b, OP_add, x, ir_binary(b, OP_add, ir_unary(b, OP_relu, low), sum));
}

static void replace(Op *op, int i, Value *made)
{
    ir_swap_names(made, op->out[i]);
    ir_replace_uses(op->region, op->out[i], made);
}

static void expand(Program *p, Op *op)
{
    Build b = ir_build_at(p, op, op);
    const Type *t = &op->arg[0]->type;
    const int64_t heads[] = {1, 1, t->dim[2]}, rows[] = {t->dim[0], t->dim[1], t->dim[2], 1};
    const AttrList order = {3, {0, 2, 1}};
    Value *x = ir_broadcast(&b, ir_reshape(&b, op->arg[2], 3, heads), 3, t->dim);
    Value *low = ir_binary(&b, OP_sub, ir_transpose(&b, op->arg[1], order), x);
    Value *part = ir_reshape(&b, ir_unary(&b, OP_sigmoid, low), 4, rows);
    Value *y = ir_binary(&b, OP_mul, ir_cast(&b, op->arg[0], DT_F32),
                         ir_broadcast(&b, part, 4, t->dim));
    replace(op, 0, ir_cast(&b, y, t->dtype));
    replace(op, 1, ir_transpose(&b, log_sum(&b, low, x), order));
    ir_remove(op);
}

static void visit(Program *p, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->body)
            visit(p, op->body);
        else if (op->kind == OP_attention_sinks)
            expand(p, op);
    }
}

void pass_sinks(Program *p, const TargetInfo *t)
{
    (void)t;
    visit(p, p->step);
}
