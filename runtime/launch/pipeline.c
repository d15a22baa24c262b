/* pipeline.c: finds what a rank of a pipeline does next. */
#include "parc_pipeline.h"
#include "rt.h"

bool parc_action(const ParcRt *rt, const ParcPipeline *p, int64_t i,
                 ParcAction *action)
{
    const ParcRun *run = p->run[parc_index(rt, p->axis)];
    for (; run->n > 0 && i >= run->n * run->repeats; run++)
        i -= run->n * run->repeats;
    if (run->n == 0)
        return false;
    *action = run->action[i % run->n];
    action->micro += i / run->n * run->shift;
    return true;
}
