/* fit_try.c: plans a program with changes, to get its peak memory. */
#include "driver/fit.h"
#include "ir/analysis/flops.h"
#include "ir/memory.h"

static void apply_change(Replan *r, const FitChange *c)
{
    if (c->clause)
        replan_clause(r, c->clause);
    if (c->full_shard)
        replan_shard_fully(r);
    if (c->define)
        replan_define(r, c->define);
    if (c->mesh)
        replan_mesh(r, c->mesh);
}

FitResult fit_try(const Program *p, const PlanSource *from,
                  const FitChange *const *change, int n)
{
    FitResult result = {.peak = -1};
    Replan *r = replan_new(p->arena, p, from);

    for (int i = 0; i < n; i++)
        apply_change(r, change[i]);
    const Program *q = replan_run(r, "memory");
    if (!q || !q->memory)
        return result;
    double recomputed = program_flops_recomputed(q);
    double own = program_flops(q, PH_FORWARD) + program_flops(q, PH_BACKWARD) -
                 recomputed;
    result.peak = q->memory->peak;
    result.recomputed = own > 0 ? recomputed / own : 0;
    return result;
}
