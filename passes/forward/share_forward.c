/* share_forward.c: lets a side program run the statements of the training
 * step's forward pass.
 *
 * A side program is compiled on its own, so that it may leave out dropout and
 * the values that a backward pass needs. Without dropout it computes what the
 * forward pass of the training step computes. Its emitted text would then be a
 * second copy of the forward pass that differs in addresses and numbers only.
 *
 * requires: the training step and the side programs, with synchronization
 * ensures:  where all outputs of a side program are values that another
 *           program computes, it consists of that program's statements
 *           (Program.repeats), with their names, addresses, waits and barriers:
 *           the emitter writes one text for both. The other program is the
 *           training step or, for outputs, the evaluation. Otherwise the
 *           side program is unchanged
 *
 * before   training step: … %x.1, %s = fused{name="norm"} %x in 4, in 5(%h: 64)
 *                         %y = einsum %x.1, %w in 6 … backward pass, optimizer
 *          evaluation:    %x.1 = fused{name="norm"} %x in 9
 *                         %y.1 = einsum %x.1, %w in 8 …
 *                         output{name="loss"} …
 * after    evaluation:    repeats training
 *                         %x.1, %s = fused{name="norm"} %x in 4, in 5(%h: 64)
 *                         %y = einsum %x.1, %w in 6 …
 *                         output{name="loss"} …
 *
 * The evaluation then also writes what the training step saves (%s), into
 * memory that is free between steps.
 */
#include "passes/forward/forward.h"
#include "passes/memory/memory.h"

/* The values of p's step by number, the first of each. A value of the backward
 * pass has no number. */
static Value **values_by_number(const Program *p, const ValueNumbers *numbers)
{
    Value **value = NEW_ARRAY(p->arena, Value *, numbers->n + 1);
    for (Op *op = p->step->first; op; op = op->next)
        for (int i = 0; i < op->nouts; i++) {
            int n = numbers->first[op->out[i]->id];
            if (n && !value[n])
                value[n] = op->out[i];
        }
    return value;
}

/* The values of p that are equal to the operands of f's ops `output`, in their
 * order; *n of them. NULL: p does not compute all of them. */
static Value **equal_outputs(const Program *f, const Program *p, int *n)
{
    ValueNumbers numbers;
    if (!value_numbers(p, f, &numbers))
        return NULL;
    Value **value = values_by_number(p, &numbers);
    Value **found = NEW_ARRAY(p->arena, Value *, f->nops);
    *n = 0;
    for (const Op *op = f->step->first; op; op = op->next) {
        if (op->kind != OP_output)
            continue;
        Value *v = value[numbers.second[op->arg[0]->id]];
        if (!v)
            return NULL;
        found[(*n)++] = v;
    }
    return found;
}

static bool share(Program *f, Program *p)
{
    int n;
    Value **need = p && !p->repeats ? equal_outputs(f, p, &n) : NULL;
    if (!need || !forward_slice(f, p, need, n))
        return false;
    f->repeats = p;
    memory_fit_arena(f->training);
    return true;
}

void pass_share_forward(Program *p, const TargetInfo *t)
{
    (void)t;
    if (!program_trains(p) && !share(p, p->training) && p->purpose == FOR_OUTPUTS)
        share(p, p->training->side[FOR_LOSS]);
}
