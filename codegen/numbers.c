/* numbers.c: counts what the programs of one model have before a program. A
 * forward program continues the numbers of the training step and of the forward
 * programs before it. */
#include "codegen/numbers.h"

#include "passes/sync/trace.h"

typedef struct Counter {
    const Program *p;
    Numbers n;
} Counter;

static void count(Op *op, void *context)
{
    Counter *c = context;
    c->n.collectives += op_is_collective(op->kind);
    c->n.transfers += op->kind == OP_fetch || op->kind == OP_store;
    c->n.kernels += op->kind == OP_fused;
    c->n.matmuls += op_is_einsum(op->kind);
    c->n.work += op->phase != PH_INIT && op->kind != OP_base &&
                 op->kind != OP_loop && !issue_is_silent(op);
}

/* Ops in the bodies of fused ops are no statements. */
static void count_region(const Region *r, Counter *c)
{
    for (Op *op = r->first; op; op = op->next) {
        count(op, c);
        if (op->kind == OP_loop)
            count_region(op->body, c);
    }
}

static void count_program(const Program *p, void *context)
{
    Counter *c = context;
    c->p = p;
    count_region(p->step, c);
    c->n.events += trace_slots(p);
}

Numbers numbers_first(const Program *p)
{
    Counter c = {0};
    const Program *t = p->training;
    if (!t)
        return c.n;
    count_program(t, &c);
    for (int k = 0; k < PURPOSES && t->forward[k] != p; k++)
        if (t->forward[k])
            count_program(t->forward[k], &c);
    return c.n;
}

Numbers numbers_all(const Program *p)
{
    Counter c = {0};
    programs_each(p, count_program, &c);
    return c.n;
}

void programs_each(const Program *p, ProgramVisit *visit, void *context)
{
    visit(p, context);
    for (int k = 0; k < PURPOSES; k++)
        if (p->forward[k])
            visit(p->forward[k], context);
}
