/* optimizer_norm.c: sums the squares of gradients that stages have layers of in a
 * loop over the layers.
 *
 * before   %a = sumsq %dw : f32[]+pp optimizer            %dw : f32[4/pp x 8, 8]
 *          %b = sumsq %db : f32[]+pp optimizer            %db : f32[4/pp x 8]
 *          %s = add %x, %a : f32[]+pp optimizer
 *          %t = add %s, %b : f32[]+pp optimizer
 * after    %zero = full{value=0, …} : f32[]+pp optimizer
 *          %a = loop{n=4, reverse=false} : f32[]+pp optimizer cut=1 {
 *            carry %sum = %zero : f32[]+pp
 *            stack %dw.2 = %dw : f32[8, 8]@pp
 *            stack %db.2 = %db : f32[8]@pp
 *            %c = sumsq %dw.2 : f32[]@pp optimizer
 *            %c.2 = mask_to_partial{axes={pp}} %c : f32[]+pp optimizer
 *            %sum.2 = add %sum, %c.2 : f32[]+pp optimizer
 *            … the same with %db.2
 *            yield …
 *          }
 *          %t = add %x, %a : f32[]+pp optimizer
 *
 * Ranks have unequal numbers of layers, a kernel has one size: that of a layer.
 */
#include "passes/autodiff/autodiff.h"

typedef struct Squares {
    Program *p;
    Op *loop;
    VEC(Op *) op; /* the sums that it computes; the first has its result */
} Squares;

static bool joins_loop(const Op *leader, const Op *op)
{
    const Type *x = &leader->arg[0]->type;
    return op->kind == OP_sumsq && op->nargs == 1 &&
           type_cut(&op->arg[0]->type) == type_cut(x) &&
           op->arg[0]->type.stack[0] == x->stack[0] &&
           type_equal(&op->out[0]->type, &leader->out[0]->type);
}

/* The sum that adds v to another value and alone reads it; NULL: none. */
static Op *reader_of_term(const Value *v)
{
    if (ir_count_uses(v) != 1)
        return NULL;
    for (Op *op = v->def->next; op; op = op->next)
        if (op_reads(op, v->def))
            return op->kind == OP_add ? op : NULL;
    return NULL;
}

static void collect(Squares *s, Op *leader)
{
    s->op.n = 0;
    vec_push(s->p->arena, &s->op, leader);
    for (Op *op = leader->next; op; op = op->next)
        if (joins_loop(leader, op) && reader_of_term(op->out[0]))
            vec_push(s->p->arena, &s->op, op);
}

/* Adds the squares of the loop's slice to the sum. */
static Value *add_squares(Build *b, const Op *loop, Value *sum, Value *slice)
{
    const Program *p = b->p;
    uint32_t axes = 0;
    Value *square = ir_unary(b, OP_sumsq, slice);
    for (int a = 0; a < p->mesh.n; a++)
        if (square->type.place.ax[a].kind == AX_HERE)
            axes |= 1u << a;
    Attr attr[MAX_ATTRS] = {{.i = axes}};
    const char *hint = square->name;
    square = ir_op_typed(b, OP_mask_to_partial, 1, &square, attr, 1,
                         &loop->arg[0]->type, &hint)->out[0];
    return ir_binary(b, OP_add, sum, square);
}

/* The operands must precede the first of the sums: gradients are complete before
 * the optimizer's ops. */
static void build_loop(Squares *s)
{
    Program *p = s->p;
    Op *first = s->op.at[0];
    const Type *stack = &first->arg[0]->type;
    Build b = ir_build_at(p, first, first);
    Attr zero[MAX_ATTRS] = {{.f = 0}, {.i = DT_F32}, {.l = {0}}};
    const char *hint = first->out[0]->name;
    Value *start = ir_op_typed(&b, OP_full, 0, NULL, zero, 1,
                               &first->out[0]->type, &hint)->out[0];
    Attr attr[MAX_ATTRS] = {{.i = stack->stack[0]}, {.i = false}};
    s->loop = ir_open(&b, OP_loop, 1, &start, 1, 0, attr);
    s->loop->cut = type_cut(stack);
    Value *sum = s->loop->body->arg[0];
    Build in = {.p = p, .region = s->loop->body, .phase = b.phase, .loc = b.loc, .path = b.path};
    for (int i = 0; i < s->op.n; i++) {
        Value *slice = ir_loop_add_stack(p, s->loop, s->op.at[i]->arg[0]);
        sum = add_squares(&in, s->loop, sum, slice);
    }
    ir_yield(p, s->loop->body, 1, &sum);
    ir_close(p, s->loop);
}

/* Lets the readers of the first sum read the loop's, and drops the others. */
static void replace(Squares *s)
{
    Region *r = s->p->step;
    ir_replace_uses(r, s->op.at[0]->out[0], s->loop->out[0]);
    ir_swap_names(s->op.at[0]->out[0], s->loop->out[0]);
    for (int i = 1; i < s->op.n; i++) {
        const Value *term = s->op.at[i]->out[0];
        Op *add = reader_of_term(term);
        Value *rest = add->arg[add->arg[0] == term];
        ir_replace_uses(r, add->out[0], rest);
        ir_remove(add);
    }
    for (int i = 0; i < s->op.n; i++)
        ir_remove(s->op.at[i]);
}

void optimizer_norm(Program *p)
{
    Squares s = {.p = p};
    for (Op *op = p->step->first, *next; op; op = next) {
        next = op->next;
        if (op->kind != OP_sumsq || !type_cut(&op->arg[0]->type))
            continue;
        collect(&s, op);
        build_loop(&s);
        replace(&s);
        next = s.loop->next;
    }
}
