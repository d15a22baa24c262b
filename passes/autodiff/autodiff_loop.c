/* autodiff_loop.c: builds the gradient of a loop as a loop in reverse order.
 *
 *   %h, %z = loop n=4 reverse=false carry(%x = %h0) stack(%w = %ws)
 *                 free(%t = %table) { … yield %x1, %z1 }
 * becomes, where %dh is given and %z has no gradient,
 *   %h, %z, %xs = loop … { … yield %x1, %z1, %x }
 *   %dh0, %dtable, %dws = loop n=4 reverse=true
 *                 carry(%dx1 = %dh, %acc = 0) stack(%x = %xs, %w = %ws)
 *                 free(%t = %table) { … yield %dx, %acc1, %dw }
 *
 * - A carry's gradient is a carry. It enters an iteration as the gradient of
 *   the carry's new value and leaves as the gradient of its old value.
 * - A stacked operand's gradient is yielded and stacked.
 * - A free operand's gradient is summed in a carry that starts at zero, in f32.
 * - A forward value that the backward body reads is saved: the forward loop
 *   yields it, and the backward loop takes it as a stacked operand. Slices of
 *   stacked operands and free operands are passed to the backward loop
 *   directly. Constants, random numbers and casts of parameters are recomputed.
 */
#include "base/bug.h"
#include "passes/autodiff/autodiff.h"

/* The arguments and results of a forward loop that have gradients, and the
 * operands of its backward loop. */
typedef struct Mirror {
    Op *loop;   /* forward */
    int ncarry; /* backward carries: for carries with a gradient, then for
                 * free operands */
    int nstack;
    int *carry; /* for each carry of the backward loop: the forward argument */
    int *stack; /* for each stack: the forward result */
    Value **args;
} Mirror;

static bool is_live(const Autodiff *a, const Op *loop, int i)
{
    const Region *body = loop->body;
    if (a->flows[body->arg[i]->id])
        return true;
    return i < loop->ncarry && a->flows[loop->out[i]->id];
}

/* Adds the backward carry of argument i. For a free operand it is a sum over
 * the iterations, in f32 whatever the operand's type. */
static void mirror_carry(Frame *f, Mirror *m, int i)
{
    Op *loop = m->loop;
    const Type *t = &loop->arg[i]->type;
    bool sum = loop_is_free(loop, i);
    Value *start = sum ? NULL : autodiff_collect(f, loop->out[i]);

    if (start == NULL) {
        start = gradient_zero(&f->b, t, sum ? DT_F32 : t->dtype);
        autodiff_name(f, start, loop->arg[i]);
    }
    m->carry[m->ncarry] = i;
    m->args[m->ncarry++] = start;
}

static Mirror mirror_of(Frame *f, Op *loop, int nouts)
{
    Arena *arena = f->a->p->arena;
    int capacity = loop->nargs + nouts + 1;
    Mirror m = {.loop = loop};

    m.carry = NEW_ARRAY(arena, int, capacity);
    m.stack = NEW_ARRAY(arena, int, capacity);
    m.args = NEW_ARRAY(arena, Value *, capacity);
    for (int i = 0; i < loop->nargs; i++)
        if ((i < loop->ncarry || loop_is_free(loop, i)) &&
            is_live(f->a, loop, i))
            mirror_carry(f, &m, i);
    for (int i = loop->ncarry; i < nouts; i++) {
        Value *d = autodiff_collect(f, loop->out[i]);
        if (d == NULL)
            continue;
        m.stack[m.nstack] = i;
        m.args[m.ncarry + m.nstack++] = d;
    }
    return m;
}

/* Seeds the gradients of the body's yields with those that come from outside
 * the loop or from the next iteration. */
static void seed_body(Frame *f, const Mirror *m)
{
    const Region *body = m->loop->body;
    Region *back = f->backward->body;

    for (int k = 0; k < m->ncarry; k++)
        if (m->carry[k] < m->loop->ncarry)
            autodiff_give(f, body->yield[m->carry[k]], back->arg[k]);
    for (int k = 0; k < m->nstack; k++)
        autodiff_give(f, body->yield[m->stack[k]], back->arg[m->ncarry + k]);
}

static Value *next_carry(Frame *f, const Mirror *m, int k)
{
    Value *arg = m->loop->body->arg[m->carry[k]];
    Value *d = autodiff_collect(f, arg);

    if (!loop_is_free(m->loop, m->carry[k]))
        return d ? d : gradient_zero(&f->b, &arg->type, arg->type.dtype);
    Value *sum = f->backward->body->arg[k];
    if (d == NULL)
        return sum;
    sum = ir_binary(&f->b, OP_add, sum, ir_cast(&f->b, d, DT_F32));
    autodiff_name(f, sum, arg);
    return sum;
}

/* Yields the backward loop's results: the carries, then a stack for each
 * stacked argument that has a gradient. from[i] is the forward argument of
 * result i. */
static void close_mirror(Frame *f, const Mirror *m, int *from)
{
    Program *p = f->a->p;
    const Op *loop = m->loop;
    Value **yield = NEW_ARRAY(p->arena, Value *, loop->nargs + m->ncarry + 1);
    int n = 0;

    for (int k = 0; k < m->ncarry; k++) {
        from[n] = m->carry[k];
        yield[n++] = next_carry(f, m, k);
    }
    for (int i = loop->ncarry; !loop_is_free(loop, i); i++) {
        Value *d = autodiff_collect(f, loop->body->arg[i]);
        if (d == NULL)
            continue;
        from[n] = i;
        yield[n++] = d;
    }
    ir_yield(p, f->backward->body, n, yield);
    ir_close(p, f->backward);
}

void autodiff_loop(Frame *f, Op *loop)
{
    Program *p = f->a->p;
    /* Count the results first: the walk over the body appends saved values. */
    Mirror m = mirror_of(f, loop, loop->nouts);
    Attr attr[MAX_ATTRS] = {{.i = loop_trips(loop)},
                            {.i = !attr_reverse(loop)}};
    Frame in = {.a = f->a, .outer = f, .forward = loop, .b = f->b};

    in.backward = ir_open(&f->b, OP_loop, m.ncarry + m.nstack, m.args, m.ncarry,
                          m.nstack, attr);
    in.backward->rounds = loop->rounds;
    in.b.region = in.backward->body;
    in.b.before = NULL;
    f->b.before = in.backward; /* for values from outside */
    seed_body(&in, &m);
    autodiff_region(&in, loop->body);
    in.b.loc = loop->loc;
    in.b.path = loop->path;
    int *from = NEW_ARRAY(p->arena, int, loop->nargs + m.ncarry + 1);
    close_mirror(&in, &m, from);
    f->b.before = NULL;
    for (int k = 0; k < in.backward->nouts; k++) {
        Value *operand = loop->arg[from[k]];
        if (f->a->flows[operand->id])
            autodiff_give(f, operand, in.backward->out[k]);
    }
}
