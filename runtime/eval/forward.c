/* eval/forward.c: executes forward programs between training steps.
 *
 * A barrier before and after each session separates it from the training steps:
 * ranks read each other's buffers in place, and the programs use the same
 * memory for different tensors. Between the runs of one session the program's
 * own barriers suffice, as they do between training steps.
 */
#include "device.h"
#include "eval/forward.h"
#include "launch/world.h"
#include "rt.h"

void rt_forward_init(ParcRt *rt)
{
    const ParcEval *const program[] = {rt->model->eval, rt->model->outputs};
    for (int i = 0; i < 2; i++) {
        if (program[i])
            program[i]->init(rt);
    }
}

void rt_forward_begin(ParcRt *rt, const ParcEval *e)
{
    rt_meet(rt, RT_AT_FORWARD);
    e->begin(rt);
}

void rt_forward_run(ParcRt *rt, const ParcEval *e)
{
    RtRing *ring = rt->ring; /* a trace shows training steps only */
    rt->ring = NULL;
    rt_device_run(rt, e);
    rt->ring = ring;
}

void rt_forward_end(ParcRt *rt, const ParcEval *e)
{
    (void)e;
    rt_meet(rt, RT_AT_FORWARD);
}
