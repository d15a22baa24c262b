/* forward_memory.c: makes the memory plan of a slice from that of the program.
 *
 * A slice has ops of the program in the same order, at the same addresses. The
 * times of its ops are those of the program without the times of other ops, so
 * that buffers with disjoint live ranges still have disjoint ones:
 *
 *   program   0 1 2 3 4 5 6      buffer live=[2, 5]
 *   kept      x x . x . x .
 *   slice     0 1   2   3               live=[2, 3]
 *
 * The buffers of a slice of the training step are buffers of the training step.
 */
#include "passes/forward/forward.h"

#include "passes/memory/memory.h"

ForwardTimes forward_times(const Program *p, const bool *kept)
{
    Liveness live;
    live_analyse(p, &live);
    ForwardTimes t = {NEW_ARRAY(p->arena, int, live.end + 1), live.end};
    bool *ticks = NEW_ARRAY(p->arena, bool, live.end + 1);
    for_ops(op, p->step)
        if (kept[op->id] && !op_is_schedule(op->kind) &&
            op->region->owner == op_loop(op)) {
            ticks[live.begin[op->id]] = true;
            ticks[live.finish[op->id]] = true;
        }
    for (int i = 0; i < t.end; i++)
        t.before[i + 1] = t.before[i] + ticks[i];
    return t;
}

/* ---- buffers ------------------------------------------------------------- */

static int new_block(int *number, int block, int *n)
{
    if (number[block] < 0)
        number[block] = (*n)++;
    return number[block];
}

static void move_address(const Program *p, Value *v, int *number, int *n)
{
    if (!v->address || v->address->block < 0)
        return;
    Address *at = arena_copy(p->arena, v->address, sizeof *at);
    at->block = new_block(number, at->block, n);
    v->address = at;
}

/* Numbers the blocks that ops use, in order of use: number[block]. */
static int number_blocks(Program *p, int *number)
{
    int n = 0;
    for_ops(op, p->step) {
        for (int i = 0; i < op->nouts; i++)
            move_address(p, op->out[i], number, &n);
        for (int i = 0; op->kind == OP_loop && i < op->body->nargs; i++)
            move_address(p, op->body->arg[i], number, &n);
        if (op->workspace >= 0)
            op->workspace = new_block(number, op->workspace, &n);
    }
    return n;
}

static Block sliced(const Block *b, int index, const Program *p,
                    const ForwardTimes *t, int end)
{
    Block s = *b;
    if (!p->training)
        s.training = index + 1;
    s.first = t->before[b->first];
    s.last = b->last == t->end - 1 ? end - 1 : t->before[b->last + 1] - 1;
    return s;
}

/* ---- the plan ------------------------------------------------------------ */

void forward_memory(Program *p, const ForwardTimes *times,
                    Value *const *output, int noutputs)
{
    MemoryPlan *m = p->memory;
    Block *all = m->block;
    int *number = NEW_ARRAY(p->arena, int, m->nblocks + 1);
    for (int i = 0; i < m->nblocks; i++)
        number[i] = -1;
    int n = number_blocks(p, number);
    m->block = NEW_ARRAY(p->arena, Block, n + 1);
    m->end = times->before[times->end] + noutputs;
    for (int i = 0; i < m->nblocks; i++)
        if (number[i] >= 0)
            m->block[number[i]] = sliced(&all[i], i, p, times, m->end);
    m->nblocks = n;
    for (int i = 0; i < noutputs; i++)
        m->block[value_address(output[i])->block].last = m->end - 1;
    int64_t shares, fixed;
    memory_count(m, &shares, &fixed);
    m->peak = memory_own_end(m, 0) + shares;
}
