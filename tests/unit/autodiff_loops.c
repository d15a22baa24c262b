/* autodiff_loops.c: checks gradients through loops, with and without
 * recomputation.
 */
#include <math.h>

#include "passes/recompute/maxflow.h"
#include "tests/unit/autodiff_check.h"
#include "tests/unit/check.h"

enum { DIM = 3, LAYERS = 3 };

static Build inside(Small *s, Op *loop)
{
    Build b = s->b;
    b.region = loop->body;
    return b;
}

static Op *open_loop(Build *b, int nargs, Value *const *args, int ncarry,
                     int nstack, int trips, bool reverse)
{
    Attr attr[MAX_ATTRS] = {{.i = trips}, {.i = reverse}};
    return ir_open(b, OP_loop, nargs, args, ncarry, nstack, attr);
}

static Value *matmul(Build *b, Value *x, Value *w)
{
    return ir_einsum(b, "bk,fk->bf", DT_F32, x, w);
}

/* ---- programs ---------------------------------------------------------- */

/* h = tanh(h w_i) + h t, for each layer; all layers read t. */
static void make_stack(Small *s, bool reverse)
{
    Value *args[] = {small_param(s, "x", true, 0, DIMS(2, DIM)),
                     small_param(s, "layers.*.w", true, LAYERS, DIMS(DIM, DIM)),
                     small_param(s, "t", true, 0, DIMS(DIM))};
    Op *loop = open_loop(&s->b, 3, args, 1, 1, LAYERS, reverse);
    Build b = inside(s, loop);
    Value **x = loop->body->arg;
    Value *bent = ir_unary(&b, OP_tanh, matmul(&b, x[0], x[1]));
    Value *next =
        ir_binary(&b, OP_add, bent, ir_binary(&b, OP_mul, x[0], x[2]));
    ir_yield(s->p, loop->body, 1, &next);
    ir_close(s->p, loop);
    small_loss(s, ir_binary(&s->b, OP_mul, loop->out[0], args[2]));
}

static void make_forward(Small *s)
{
    make_stack(s, false);
}

static void make_reverse(Small *s)
{
    make_stack(s, true);
}

/* Two carries. The loss reads only one of them; the other affects it through
 * the loop. */
static void make_two_carries(Small *s)
{
    Value *args[] = {small_param(s, "x", true, 0, DIMS(DIM)),
                     small_param(s, "y", true, 0, DIMS(DIM)),
                     small_param(s, "layers.*.w", true, LAYERS, DIMS(DIM))};
    Op *loop = open_loop(&s->b, 3, args, 2, 1, LAYERS, false);
    Build b = inside(s, loop);
    Value **x = loop->body->arg;
    Value *next[] = {ir_binary(&b, OP_mul, x[0], x[1]),
                     ir_unary(&b, OP_sin, ir_binary(&b, OP_add, x[1], x[2]))};
    ir_yield(s->p, loop->body, 2, next);
    ir_close(s->p, loop);
    small_loss(s, loop->out[0]);
}

/* Every iteration replaces the carry: only the last one affects the loss. */
static void make_replaced(Small *s)
{
    Value *args[] = {small_param(s, "x", true, 0, DIMS(DIM)),
                     small_param(s, "layers.*.w", true, LAYERS, DIMS(DIM))};
    Op *loop = open_loop(&s->b, 2, args, 1, 1, LAYERS, false);
    Build b = inside(s, loop);
    Value *next = ir_unary(&b, OP_exp, loop->body->arg[1]);
    ir_yield(s->p, loop->body, 1, &next);
    ir_close(s->p, loop);
    small_loss(s, loop->out[0]);
}

/* A second loop reads the stacked results of the first. */
static void make_stacked_results(Small *s)
{
    Value *x = small_param(s, "x", true, 0, DIMS(DIM));
    Value *args[] = {x, small_param(s, "layers.*.w", true, LAYERS, DIMS(DIM))};
    Op *first = open_loop(&s->b, 2, args, 1, 1, LAYERS, false);
    Build b = inside(s, first);
    Value *product =
        ir_binary(&b, OP_mul, first->body->arg[0], first->body->arg[1]);
    Value *yields[] = {product, ir_unary(&b, OP_cos, product)};
    ir_yield(s->p, first->body, 2, yields);
    ir_close(s->p, first);

    Value *again[] = {x, first->out[1]};
    Op *second = open_loop(&s->b, 2, again, 1, 1, LAYERS, true);
    b = inside(s, second);
    Value *next =
        ir_binary(&b, OP_div, second->body->arg[0], second->body->arg[1]);
    next = ir_unary(&b, OP_sigmoid, next);
    ir_yield(s->p, second->body, 1, &next);
    ir_close(s->p, second);
    small_loss(s, ir_binary(&s->b, OP_add, second->out[0], first->out[0]));
}

/* A loop within a loop; every outer iteration reads the same inner stack. */
static void make_nested(Small *s)
{
    Value *args[] = {small_param(s, "x", true, 0, DIMS(DIM)),
                     small_param(s, "outer.*.w", true, 2, DIMS(DIM)),
                     small_param(s, "inner.*.v", true, LAYERS, DIMS(DIM)),
                     small_param(s, "t", true, 0, DIMS(DIM))};
    Op *outer = open_loop(&s->b, 4, args, 1, 1, 2, false);
    Build b = inside(s, outer);
    Value **x = outer->body->arg;
    Value *start = ir_binary(&b, OP_mul, x[0], x[1]);
    Value *in[] = {start, x[2], x[3]};
    Op *inner = open_loop(&b, 3, in, 1, 1, LAYERS, false);
    Build c = b;
    c.region = inner->body;
    Value **y = inner->body->arg;
    Value *next = ir_unary(&c, OP_tanh, ir_binary(&c, OP_mul, y[0], y[1]));
    next = ir_binary(&c, OP_add, ir_unary(&c, OP_exp, next), y[2]);
    ir_yield(s->p, inner->body, 1, &next);
    ir_close(s->p, inner);
    Value *end = ir_binary(&b, OP_div, inner->out[0], start);
    ir_yield(s->p, outer->body, 1, &end);
    ir_close(s->p, outer);
    small_loss(s, outer->out[0]);
}

/* A low-precision copy of a layer's weight, and a constant in the body. */
static void make_cast(Small *s)
{
    Value *args[] = {
        small_param(s, "x", true, 0, DIMS(2, DIM)),
        small_param(s, "layers.*.w", true, LAYERS, DIMS(DIM, DIM))};
    Op *loop = open_loop(&s->b, 2, args, 1, 1, LAYERS, false);
    Build b = inside(s, loop);
    Value *w = ir_cast(&b, loop->body->arg[1], DT_BF16);
    Value *x = ir_cast(&b, loop->body->arg[0], DT_BF16);
    Value *next = ir_einsum(&b, "bk,fk->bf", DT_F32, x, w);
    Value *three = ir_full(&b, 0.3, DT_F32, 0, NULL);
    next = ir_unary(&b, OP_tanh, ir_binary(&b, OP_mul, next, three));
    ir_yield(s->p, loop->body, 1, &next);
    ir_close(s->p, loop);
    small_loss(s, loop->out[0]);
}

typedef struct Case {
    const char *name;
    void (*make)(Small *s);
} Case;
static const Case cases[] = {
    {"forward", make_forward},
    {"reverse", make_reverse},
    {"two carries", make_two_carries},
    {"replaced carry", make_replaced},
    {"stacked results", make_stacked_results},
    {"nested", make_nested},
    {"cast", make_cast},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- checks ------------------------------------------------------------ */

static void report(Check *c, const char *name, const char *what,
                   const char *fault)
{
    if (fault != NULL)
        printf("%s, %s: %s\n", name, what, fault);
    CHECK(c, fault == NULL);
}

static void run_case(Check *c, const Case *k)
{
    Small s = small_new();
    k->make(&s);
    report(c, k->name, "made", ir_verify(s.p));
    const char *fault = small_check_gradients(&s);
    report(c, k->name, "gradients", fault);
    if (fault == NULL) {
        report(c, k->name, "verified", ir_verify(s.p));
        Program *before = ir_copy(s.p);
        pass_recompute(s.p, NULL);
        report(c, k->name, "recompute verified", ir_verify(s.p));
        report(c, k->name, "recompute", small_compare(s.arena, before, s.p));
        /* A second run must change nothing. */
        int saved = small_count(s.p, OP_tanh);
        pass_recompute(s.p, NULL);
        CHECK(c, small_count(s.p, OP_tanh) == saved);
        report(c, k->name, "recompute twice",
               small_compare(s.arena, before, s.p));
    }
    small_free(&s);
}

static const Op *first_loop(const Program *p)
{
    for (const Op *op = p->step->first; op != NULL; op = op->next)
        if (op->kind == OP_loop)
            return op;
    return NULL;
}

/* Only the start of a chain of cheap ops is saved. */
static void check_chain(Check *c)
{
    Small s = small_new();
    Value *args[] = {small_param(&s, "x", true, 0, DIMS(DIM)),
                     small_param(&s, "layers.*.w", true, LAYERS, DIMS(DIM))};
    Op *loop = open_loop(&s.b, 2, args, 1, 1, LAYERS, false);
    Build b = inside(&s, loop);
    Value *h = ir_binary(&b, OP_mul, loop->body->arg[0], loop->body->arg[1]);
    static const OpKind chain[] = {OP_exp, OP_sin, OP_tanh, OP_sigmoid};
    for (int i = 0; i < 4; i++)
        h = ir_unary(&b, chain[i], h);
    ir_yield(s.p, loop->body, 1, &h);
    ir_close(s.p, loop);
    small_loss(&s, loop->out[0]);

    pass_autodiff(s.p, NULL);
    Program *before = ir_copy(s.p);
    CHECK(c, first_loop(s.p)->nouts == 5); /* h, x, exp, tanh, sigmoid */
    pass_recompute(s.p, NULL);
    CHECK(c, first_loop(s.p)->nouts == 2); /* h and x */
    CHECK(c, small_count(s.p, OP_exp) == 2);
    const char *fault = small_compare(s.arena, before, s.p);
    CHECK_TEXT(c, fault, NULL);
    CHECK_TEXT(c, ir_verify(s.p), NULL);
    small_free(&s);
}

/* The gradient of a low-precision weight is f32 from its matmul on; the
 * low-precision copy is not saved. */
static void check_narrow(Check *c)
{
    Small s = small_new();
    make_cast(&s);
    pass_autodiff(s.p, NULL);
    for (const Op *op = s.p->step->first; op != NULL; op = op->next) {
        if (op->kind != OP_finish_grad)
            continue;
        const Value *d = op->arg[0];
        if (d->type.nstack == 0)
            continue;
        CHECK(c, d->type.dtype == DT_F32);
        CHECK(c, d->def->kind == OP_loop);
        const Value *inner = d->def->body->yield[d->index];
        CHECK(c, inner->def->kind == OP_einsum);
    }
    const Op *loop = first_loop(s.p);
    for (int i = loop->ncarry; i < loop->nouts; i++)
        CHECK(c, loop->body->yield[i]->def == NULL ||
                     loop->body->yield[i]->def->arg[0] != loop->body->arg[1]);
    small_free(&s);
}

/* The graph of the textbook has two minimum cuts; the pass must choose the one
 * nearer the sink. */
static void check_flow(Check *c)
{
    Arena *a = arena_new();
    FlowGraph *g = flow_graph(a, 6);
    static const int edges[][3] = {
        {0, 1, 16}, {0, 2, 13}, {1, 3, 12}, {2, 1, 4}, {3, 2, 9},
        {2, 4, 14}, {4, 3, 7},  {3, 5, 20}, {4, 5, 4},
    };
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        flow_edge(g, edges[i][0], edges[i][1], edges[i][2]);
    CHECK(c, flow_run(g, 0, 5) == 23);
    CHECK(c, !flow_on_sink_side(g, 4) && flow_on_sink_side(g, 3) &&
                 !flow_on_sink_side(g, 1));

    g = flow_graph(a, 4);
    for (int i = 0; i < 3; i++)
        flow_edge(g, i, i + 1, i == 1 ? FLOW_INFINITE : 5);
    CHECK(c, flow_run(g, 0, 3) == 5);
    CHECK(c, !flow_on_sink_side(g, 1) && !flow_on_sink_side(g, 2) &&
                 flow_on_sink_side(g, 3));
    g = flow_graph(a, 2);
    flow_edge(g, 0, 1, FLOW_INFINITE);
    CHECK(c, flow_run(g, 0, 1) >= FLOW_INFINITE);
    arena_free(a);
}

int main(void)
{
    Check c = {0};
    for (int i = 0; i < CASES; i++)
        run_case(&c, &cases[i]);
    check_chain(&c);
    check_narrow(&c);
    check_flow(&c);
    return check_end(&c);
}
