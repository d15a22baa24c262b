/* numbers.c: counts what the programs of one model have before a program. A
 * side program continues the numbers of the training step and of the side
 * programs before it. One that repeats another program has its numbers. */
#include "codegen/numbers.h"

#include "ir/analysis/statement.h"
#include "passes/sync/simulate.h"

const Program *program_next(const Program *p)
{
    const Program *step = p->training ? p->training : p;
    for (int k = p->purpose + 1; k < PURPOSES; k++)
        if (step->side[k] && !step->side[k]->repeats)
            return step->side[k];
    return NULL;
}

const char *program_word(const Program *f)
{
    static const char *const word[PURPOSES] = {
        [FOR_LOSS] = "eval", [FOR_OUTPUTS] = "outputs", [FOR_ROUNDS] = "rounds"};
    return word[f->purpose];
}

static void count_program(const Program *p, Numbers *n)
{
    for_ops(op, p->step) {
        n->collectives += op_is_collective(op->kind);
        n->transfers += op->kind == OP_fetch || op->kind == OP_store;
        n->kernels += op->kind == OP_fused;
        n->matmuls += op_is_einsum(op->kind);
        n->convs += op_is_conv(op->kind);
        n->work += op_is_step_statement(op);
    }
    n->events += program_event_slots(p);
}

/* The numbers of the programs from p to the one before `end`. */
static Numbers count_until(const Program *p, const Program *end)
{
    Numbers n = {0};
    for (; p != end; p = program_next(p))
        count_program(p, &n);
    return n;
}

Numbers numbers_first(const Program *p)
{
    return count_until(p->training ? p->training : p, p);
}

Numbers numbers_all(const Program *p)
{
    return count_until(p, NULL);
}
