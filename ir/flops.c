/* flops.c: see flops.h. */
#include "ir/flops.h"

#include "ir/rules.h"

static double all_factors(const Program *p, const Op *op)
{
    Rule r;
    double n = 1;
    rule_of(p, op, &r);
    for (int f = 0; f < r.nfactors; f++)
        n *= (double)r.factor[f].size;
    return n;
}

/* q[b,s,h,d], k[b,t,·,d], v[b,t,·,e]: scores and their product with v. */
static double attention_flops(const Op *op, const Type *q, const Type *k,
                              const Type *v)
{
    double scores = (double)q->dim[0] * (double)q->dim[2] * (double)q->dim[1] *
                    (double)k->dim[1];
    double n = 2 * scores * (double)(q->dim[3] + v->dim[3]);
    return op_attr(op, "causal").i ? n / 2 : n;
}

double op_flops(const Program *p, const Op *op)
{
    if (op->kind == OP_einsum)
        return 2 * all_factors(p, op);
    if (op->kind == OP_attention)
        return attention_flops(op, &op->arg[0]->type, &op->arg[1]->type,
                               &op->arg[2]->type);
    if (op->kind == OP_attention_grad)
        return 2.5 * attention_flops(op, &op->arg[1]->type, &op->arg[2]->type,
                                     &op->arg[3]->type);
    return 0;
}

static double region_flops(const Program *p, const Region *r, Phase phase)
{
    double n = 0;
    for (const Op *op = r->first; op; op = op->next) {
        if (op->phase == phase)
            n += op_flops(p, op);
        if (!op->body)
            continue;
        double turns = op->kind == OP_loop ? (double)loop_trips(op) : 1;
        n += turns * region_flops(p, op->body, phase);
    }
    return n;
}

double program_flops(const Program *p, Phase phase)
{
    return region_flops(p, p->step, phase);
}
