/* rows.c: the gradient of a table that is used twice is made in one place.
 *
 * requires: STAGE_STORED
 * ensures:  where the target has it (TargetInfo.adds_rows): no embedding_grad
 *           whose only reader adds it to a tensor that nobody else reads
 *
 * before   %dw = einsum{…} %dy, %x : f32[50257, 768]+dp backward
 *          %dw.2 = embedding_grad{n=50257} %dx, %tokens
 *                  : f32[50257, 768]+dp backward
 *          %dw.3 = add %dw, %dw.2 : f32[50257, 768]+dp backward
 * after    %dw = einsum{…} %dy, %x : f32[50257, 768]+dp backward
 *          %dw.3 = embedding_add %dw, %dx, %tokens
 *                  : f32[50257, 768]+dp backward
 *
 * So it is with a tied embedding, and with one that two inputs are looked up
 * in. A whole table is neither filled, nor read again to be added, nor kept:
 * the sum takes over the memory of what it is added to.
 */
#include "passes/pass.h"

/* An f32 table's gradient whose rows can be added: made in the region of who
 * adds it, and read by nobody else. */
static bool are_rows(const Op *add, const Value *v)
{
    return v->def && v->def->kind == OP_embedding_grad &&
           v->region == add->region && ir_count_uses(v) == 1;
}

/* Which operand of an addition becomes rows that are added to the other; -1:
 * none. */
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

void pass_rows(Program *p, const TargetInfo *t)
{
    if (t->adds_rows)
        visit(p, p->step);
}
