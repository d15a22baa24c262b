/* report_copies.c: lists in the plan the low-precision copies of parameters,
 * which stay in memory between steps: the type and bytes of each on a rank.
 */
#include "report/report.h"

static int list(Out *o, const Program *p, bool print)
{
    int n = 0;
    for (int i = 0; i < p->param.n; i++) {
        const Param *copy = &p->param.at[i];
        if (copy->init.kind != INIT_COPY)
            continue;
        n++;
        if (print)
            out_line(o, "  %-32s %-34s %s", p->param.at[copy->state_of].name,
                     type_text(p->arena, &copy->type, &p->mesh),
                     bytes_text(p->arena,
                                  type_local_bytes(&copy->type, &p->mesh)));
    }
    return n;
}

void report_copies(Out *o, const Program *p)
{
    if (!list(o, p, false))
        return;
    out_line(o, "");
    out_line(o, "Copies of parameters in %s, written by the optimizer (bytes "
             "per rank)", dtype_name(p->train.precision));
    list(o, p, true);
}
