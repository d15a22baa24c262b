/* pipeline.h: finds the axis of the plan's pipeline. */
#ifndef PARC_IR_PLAN_PIPELINE_H
#define PARC_IR_PLAN_PIPELINE_H

#include "ir/ir.h"

/* The axis whose coordinates run the stages; -1: the plan has no pipeline, or the
 * axis has one rank, which runs the program as without one. */
static inline int pipeline_axis(const Program *p)
{
    for (int a = 0; a < p->mesh.n; a++)
        if (p->plan.pipeline.axes >> a & 1 && p->mesh.size[a] > 1)
            return a;
    return -1;
}

#endif
