/* lower_offload.c: checks and resolves the plan's `offload` clause: the tensors
 * that are stored in host memory between their uses.
 *
 * before   offload { optimizer }
 * after    PlanSpec.offload: OFFLOAD_OPTIMIZER
 */
#include <string.h>

#include "frontend/plan/plan.h"

void check_offload(Arena *a, Diag *d, const Clause *clause)
{
    for (int i = 0; i < clause->nitems; i++) {
        const Item *item = &clause->item[i];
        NameList names = {.arena = a};
        bool known = false;
        for (int k = 0; offload_words[k] && item->npaths == 1; k++) {
            known |= strcmp(offload_words[k], item->path[0].text) == 0;
            names_add(&names, offload_words[k], (Loc){0});
        }
        for (int k = 0; k < item->noptions; k++)
            diag_error(d, item->option[k].name_loc, "offload has no options");
        if (known)
            continue;
        diag_error(d, item->loc, "this cannot be offloaded");
        if (item->npaths == 1)
            names_suggest(d, &names, item->path[0].text);
        diag_help(d, "write 'offload { optimizer, parameters }', or one of "
                     "them");
    }
}

void lower_offload(Lower *l, const PlanDecl *plan)
{
    PlanSpec *to = &l->p->plan;

    for (int i = 0; i < plan->nclauses; i++) {
        const Clause *c = &plan->clause[i];
        if (c->kind != CL_OFFLOAD)
            continue;
        for (int k = 0; k < c->nitems; k++)
            for (int w = 0; offload_words[w] && c->item[k].npaths == 1; w++)
                if (strcmp(offload_words[w], c->item[k].path[0].text) == 0)
                    to->offload |= 1u << w;
        to->offload_loc = c->loc;
    }
}
