/* count_dropped.c: counts the choices that experts with a capacity drop.
 *
 * requires: STAGE_GLOBAL
 * ensures:  a training step with limit_choices has the outputs "dropped" and "dropped_256": the
 *           choices that its experts drop are 256 times the second plus the first. The log of a
 *           run has their number, so that no drop is silent. (A step that overflows buffers may
 *           route differently after them: its repetition in rounds has the right number)
 *
 * before   %kept, %n = limit_choices{n=8, limit=40} %ids, %ids : …, f32[64]
 * after    %blocks = floor(%n / 256), %rest = %n - 256 %blocks
 *          output{name="dropped"} sum(%rest), output{name="dropped_256"} sum(%blocks)
 *                                 of all sequences, layers and microbatches
 *
 * Two sums, since all arithmetic is f32: they are exact for 2^32 choices of up to 65536
 * sequences times layers, in any order.
 */
#include "passes/microbatch/step_sum.h"
#include "passes/pass.h"

enum { BLOCK = 256 };

static Value *times(Build *b, Value *v, double by)
{
    Attr attr[MAX_ATTRS] = {{.f = by}};
    return ir_value(b, OP_scale, 1, &v, attr, NULL);
}

static Value *sum_of(Build *b, Value *v)
{
    return ir_sum(b, v, (AttrList){1, {0}}, false);
}

void pass_count_dropped(Program *p, const TargetInfo *t)
{
    VEC(Value *) rest = {0}, blocks = {0};
    (void)t;
    for_ops(op, p->step) {
        if (op->kind != OP_limit_choices || !program_trains(p))
            continue;
        Build b = ir_build_at(p, op, op->next);
        Value *n = op->out[1];
        Value *whole = ir_unary(&b, OP_floor, times(&b, n, 1.0 / BLOCK));
        Value *left = ir_binary(&b, OP_sub, n, times(&b, whole, BLOCK));
        vec_push(p->arena, &blocks, sum_of(&b, whole));
        vec_push(p->arena, &rest, sum_of(&b, left));
    }
    if (!rest.n)
        return;
    step_sum(p, rest.at, rest.n, "dropped");
    step_sum(p, blocks.at, blocks.n, "dropped_256");
}
