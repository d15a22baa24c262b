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

int64_t rt_action_stage(const ParcAction *action, int64_t coordinate)
{
    return action->stage ? action->stage : coordinate;
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
    int64_t at = parc_index(rt, p->axis);
    rt_device_mark_action(rt, i);
    if (!rt_action(p, at, i, action))
        return false;
    rt->stage = rt_action_stage(action, at);
    return true;
}
