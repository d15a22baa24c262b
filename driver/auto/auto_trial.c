/* auto_trial.c: compiles a candidate; see auto_choice.h. */
#include "driver/auto/auto_choice.h"

#include <limits.h>
#include <string.h>

#include "driver/auto/fit.h"

enum { DEFAULT_SEARCH = 64 }; /* candidates without --search */

void choice_define(const Choice *c, const Candidate *t, PlanSource *from)
{
    Setting **define = NEW_ARRAY(c->a, Setting *, from->ndefines + MOST_DEFINES);
    for (int i = 0; i < from->ndefines; i++)
        define[i] = from->define[i];
    from->define = define;
    for (int i = 0; i < t->define.n; i++) {
        const char *text = t->define.text[i];
        uint16_t source = diag_source(c->d, "change", text, strlen(text));
        define[from->ndefines++] = pdl_parse_define(c->a, c->d, source);
    }
}

Program *choice_compile(const Choice *c, Candidate *t, bool side)
{
    PlanSource from = *c->from;
    from.side &= side;
    from.mesh = t->mesh;
    from.file = t->file ? t->file : from.file;
    choice_define(c, t, &from);
    Program *q = fit_plan(c->p, &from, c->o, &t->error);
    t->peak = q ? q->memory->peak : 0;
    return q;
}

bool choice_fits(const Choice *c, const Candidate *t)
{
    return !t->error && (c->o->memory_limit == 0 || t->peak <= fit_limit(c->o));
}

bool choice_fits_sides(const Choice *c, Candidate *t)
{
    if (!c->from->side)
        return true;
    choice_compile(c, t, true);
    t->time.timed = choice_fits(c, t);
    return t->time.timed;
}

int choice_most(const Choice *c)
{
    return c->o->search && c->o->search < INT_MAX ? (int)c->o->search
           : c->o->search                         ? INT_MAX
                                                  : DEFAULT_SEARCH;
}
