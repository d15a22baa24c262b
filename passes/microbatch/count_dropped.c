/* count_dropped.c: counts the choices that experts with a capacity drop.
 *
 * requires: STAGE_GLOBAL
 * ensures:  a program with limit_choices has the outputs "dropped" and "dropped_256": the
 *           choices that its experts drop are 256 times the second plus the first. A run reports
 *           their number, so that no drop is silent. (A step that overflows buffers may
 *           route differently after them: its repetition in rounds has the right number)
 *
 * before   %kept, %rest, %blocks = limit_choices{n=8, limit=40} %ids, %ids : …, f32[64], f32[64]
 * after    output{name="dropped"} sum(%rest), output{name="dropped_256"} sum(%blocks)
 *                                 of all sequences, layers and microbatches
 *
 * Two sums, since all arithmetic is f32: they are exact for 2^32 choices of up to 65536 parts
 * of sequences on ranks times layers, in any order.
 */
#include "passes/microbatch/step_sum.h"
#include "passes/pass.h"

void pass_count_dropped(Program *p, const TargetInfo *t)
{
    static const char *const name[] = {"dropped", "dropped_256"};
    (void)t;
    for (int i = 0; i < 2; i++) {
        VEC(Value *) sum = {0};
        for_ops(op, p->step) {
            if (op->kind != OP_limit_choices)
                continue;
            Build b = ir_build_at(p, op, op->next);
            Value *n = ir_sum(&b, op->out[1 + i], (AttrList){1, {0}}, false);
            vec_push(p->arena, &sum, n);
        }
        if (sum.n)
            step_sum(p, sum.at, sum.n, name[i]);
    }
}
