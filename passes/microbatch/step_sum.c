/* step_sum.c: sums scalars of the forward pass into an output; see step_sum.h. */
#include "passes/microbatch/step_sum.h"

#include "ir/rules/rules.h"

/* The value after the loops around it, which add up what their iterations give. */
static Value *sum_of_loops(Program *p, Value *v)
{
    while (v->region->owner) {
        Op *loop = v->region->owner;
        Build out = ir_build_at(p, loop, loop), in = ir_build_at(p, v->def, v->def->next);
        Value *sum = ir_loop_add_carry(p, loop, ir_scalar_const(&out, 0));
        loop->body->yield[sum->index] = ir_binary(&in, OP_add, sum, v);
        v = loop->out[sum->index];
    }
    return v;
}

Value *step_sum(Program *p, Value *const *v, int n, const char *name)
{
    Op *end = p->step->first;
    while (end && end->phase != PH_OPTIMIZER)
        end = end->next;
    Build b = {.p = p, .region = p->step, .before = end, .phase = PH_FORWARD, .loc = v[0]->loc,
               .path = ""};
    Value *all = NULL;
    for (int i = 0; i < n; i++) {
        Value *one = sum_of_loops(p, v[i]);
        all = all ? ir_binary(&b, OP_add, all, one) : one;
    }
    Attr attr[MAX_ATTRS] = {{.s = count_name(p, name)}};
    ir_op(&b, OP_output, 1, &all, attr, NULL);
    return all;
}
