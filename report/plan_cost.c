/* plan_cost.c: what a step of a plan costs a rank: bytes that it sends, and
 * flops.
 *
 * A rank of a group of n sends (n-1)/n of the full tensors in an all-gather, a
 * reduce-scatter or an all-to-all, and twice that in an all-reduce, which is a
 * reduce-scatter followed by an all-gather.
 */
#include "ir/analysis/alias.h"
#include "report/hint.h"

double collective_sent(const CollectiveInfo *c)
{
    double rest = (double)(c->group_size - 1) / (double)c->group_size;
    double rounds = c->op->kind == OP_all_reduce ? 2 : 1;
    return c->in_place ? 0 : rounds * rest * (double)c->bytes;
}

/* Whether the gather will be in place: all operands are parameters that the
 * ranks share. Before the memory plan exists, no value has an address. */
static bool gathers_shared(const Program *p, const Op *op)
{
    if (op->kind != OP_all_gather)
        return false;
    for (int i = 0; i < op->nouts; i++) {
        const Value *v = value_gathered_from(p, op->out[i]);
        while (v && !v->def)
            v = v->region->owner->arg[v->index];
        if (!v || v->def->kind != OP_param ||
            !p->param.at[attr_param(v->def)].shared)
            return false;
    }
    return true;
}

PlanCost plan_cost(const Program *p)
{
    PlanCost cost = {0};
    int n;
    const CollectiveInfo *c = collectives_of(p, &n);
    for (int i = 0; i < n; i++) {
        if (!gathers_shared(p, c[i].op))
            cost.sent += (double)c[i].count * collective_sent(&c[i]);
        cost.implied += c[i].op->why.origin == ORIGIN_IMPLIED;
    }
    const Statement *s = statements_of(p, &n);
    for (int i = 0; i < n; i++)
        cost.flops += s[i].flops * (double)s[i].count;
    return cost;
}
