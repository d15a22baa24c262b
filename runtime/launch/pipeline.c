/* pipeline.c: finds what a rank of a pipeline does next. */
#include "device.h"
#include "launch/world.h"
#include "parc_pipeline.h"
#include "rt.h"

bool rt_action(const ParcPipeline *p, int64_t coordinate, int64_t i,
               ParcAction *action)
{
    const ParcRun *run = p->run[coordinate];
    for (; run->n > 0 && i >= run->n * run->repeats; run++)
        i -= run->n * run->repeats;
    if (run->n == 0)
        return false;
    *action = run->action[i % run->n];
    action->micro += i / run->n * run->shift;
    return true;
}

int64_t rt_actions(const ParcPipeline *p, int64_t coordinate)
{
    int64_t n = 0;
    for (const ParcRun *run = p->run[coordinate]; run->n > 0; run++)
        n += run->n * run->repeats;
    return n;
}

bool parc_action(ParcRt *rt, const ParcPipeline *p, int64_t i,
                 ParcAction *action)
{
    rt_device_mark_action(rt, i);
    return rt_action(p, parc_index(rt, p->axis), i, action);
}
