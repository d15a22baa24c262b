/* auto_trial.c: compiles a candidate of --mesh auto; see auto_choice.h. */
#include "driver/auto_choice.h"

#include "driver/fit.h"

Program *choice_compile(const Choice *c, Candidate *t, bool forward)
{
    PlanSource from = *c->from;
    from.forward &= forward;
    from.mesh = t->mesh;
    Program *q = fit_plan(c->p, &from, c->o, &t->error);
    t->peak = q ? q->memory->peak : 0;
    return q;
}

bool choice_fits(const Choice *c, const Candidate *t)
{
    return !t->error && (c->o->memory_limit == 0 || t->peak <= fit_limit(c->o));
}
