/* explain_time.c: explains how long a step takes for what has a name (--explain NAME with
 * --machine).
 */
#include "report/explain.h"

#include <string.h>

/* Whether the explanation of a name is about the statement: its id, its kernel, an axis
 * of the collective, or the module that it is in. */
static bool is_about(const Program *p, const Statement *s, const char *name)
{
    const Op *op = s->op;
    const char *path = op->path;
    if (strcmp(s->id, name) == 0)
        return true;
    if (op->kind == OP_fused && strcmp(attr_name(op), name) == 0)
        return true;
    if (op_is_collective(op->kind) &&
        strcmp(user_axes_text(p, attr_axes(op)), name) == 0)
        return true;
    if (strcmp(name, "model") == 0 || explain_names(NULL, path, name))
        return true;
    for (const char *end = strchr(path, '.'); end; end = strchr(end + 1, '.'))
        if (explain_names(NULL, arena_strndup(p->arena, path, (size_t)(end - path)),
                          name))
            return true;
    return false;
}

void explain_time(Out *o, const Program *p, const Forecast *f, const char *name)
{
    double run = 0, exposed = 0, phase[FORECAST_PHASES] = {0};
    bool any = false;
    for (int i = 0; i < f->n; i++) {
        if (!is_about(p, &f->statement[i], name))
            continue;
        any = true;
        run += f->time[i].run;
        exposed += f->time[i].exposed;
        phase[forecast_phase(&f->statement[i])] += f->time[i].exposed;
    }
    if (!any)
        return;
    out(o, "time on %s: %s of a step of %s (%.1f%%)", f->machine->name,
        report_seconds(p->arena, exposed), report_seconds(p->arena, f->seconds),
        100 * exposed / f->seconds);
    const char *before = ": ";
    for (int k = 0; k < FORECAST_PHASES; k++)
        if (phase[k] > 0) {
            out(o, "%s%s %s", before, forecast_phase_name[k],
                report_seconds(p->arena, phase[k]));
            before = ", ";
        }
    if (run > exposed * (1 + 1e-6))
        out(o, "; %s beside other statements", report_seconds(p->arena, run - exposed));
    out(o, "\n");
}
