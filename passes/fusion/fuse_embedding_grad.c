/* fuse_embedding_grad.c: accumulates the gradient of an embedding table in
 * place where the table is used twice.
 *
 * requires: STAGE_STORED
 * ensures:  where the target supports it (TargetInfo.adds_rows): no
 *           embedding_grad remains whose only reader adds it to a tensor that
 *           the same region computes and no other op reads
 *
 * before   %dw = einsum{…} %dy, %x : f32[50257, 768]+dp backward
 *          %dw.2 = embedding_grad{n=50257} %dx, %tokens
 *                  : f32[50257, 768]+dp backward
 *          %dw.3 = add %dw, %dw.2 : f32[50257, 768]+dp backward
 * after    %dw = einsum{…} %dy, %x : f32[50257, 768]+dp backward
 *          %dw.3 = embedding_add %dw, %dx, %tokens
 *                  : f32[50257, 768]+dp backward
 *
 * This applies to a tied embedding, and to a table in which two inputs are
 * looked up. No second gradient of the table's size is filled, added and
 * stored: the sum reuses the memory of its first operand.
 */
#include "passes/pass.h"

/* Whether v is a table's gradient that can be added row by row: made in the
 * region of the addition, which is its only reader. */
static bool are_rows(const Op *add, const Value *v)
{
    return v->def && v->def->kind == OP_embedding_grad &&
           v->region == add->region && ir_count_uses(v) == 1;
}

/* The operand of an addition that becomes rows added to the other; -1: none. */
static int rows_of(const Op *add)
{
    for (int i = 1; i >= 0; i--) {
        const Value *other = add->arg[1 - i];
        if (are_rows(add, add->arg[i]) && other->def &&
            ir_count_uses(other) == 1 &&
            type_equal(&other->type, &add->arg[i]->type))
            return i;
    }
    return -1;
}

static void add_rows(Program *p, Op *add, int rows)
{
    Op *grad = add->arg[rows]->def;
    enum { MOST = 4 };
    Value *arg[MOST] = {add->arg[1 - rows]};
    Build b = {.p = p, .region = add->region, .before = add,
               .phase = add->phase, .loc = grad->loc, .path = grad->path};
    int n = 1;
    for (int i = 0; i < grad->nargs && n < MOST; i++)
        arg[n++] = grad->arg[i];
    const Value *old = add->out[0];
    Value *sum = ir_op_typed(&b, OP_embedding_add, n, arg, NULL, 1, &old->type,
                             &old->name)->out[0];
    for (int a = 0; a < p->mesh.n; a++)
        sum->why[a] = old->why[a];
    ir_replace_uses(add->region, add->out[0], sum);
    ir_remove(add);
    ir_remove(grad);
}

static void visit(Program *p, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_loop)
            visit(p, op->body);
        int rows = op->kind == OP_add ? rows_of(op) : -1;
        if (rows >= 0)
            add_rows(p, op, rows);
    }
}

void pass_fuse_embedding_grad(Program *p, const TargetInfo *t)
{
    if (t->adds_rows)
        visit(p, p->step);
}
