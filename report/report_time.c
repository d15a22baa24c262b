/* report_time.c: prints the plan's section on time: how long a step takes on the machine
 * of --machine, by class of statement, phase and module, and what it waits for.
 *
 *   Time on h100-sxm: 812 ms per step, 51.3% of the peak
 *     matmul       560 ms  69.0%
 *     collective    92 ms  11.3%   that the step waits for, of 240 ms
 */
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forecast/loss.h"
#include "report/json.h"

const char *report_seconds(Arena *a, double seconds)
{
    if (seconds <= 0)
        return "0";
    static const struct {
        double of;
        const char *name;
    } unit[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
    int i = 0;
    while (i < 2 && seconds < 0.9995 * unit[i].of)
        i++;
    double n = seconds / unit[i].of;
    int digits = n < 9.995 ? 2 : n < 99.95 ? 1 : 0;
    return arena_printf(a, "%.*f %s", digits, n, unit[i].name);
}

static void line(Out *o, const Program *p, const Forecast *f, const char *name,
                 double seconds, const char *more)
{
    out_line(o, "  %-28s %9s %5.1f%%%s%s", name, report_seconds(p->arena, seconds),
             100 * seconds / f->seconds, *more ? "   " : "", more);
}

/* ---- classes and phases -------------------------------------------------- */

static double run_of(const Forecast *f, WorkClass class)
{
    double seconds = 0;
    for (int i = 0; i < f->n; i++)
        if (f->work[i].class == class)
            seconds += f->time[i].run;
    return seconds;
}

static void classes(Out *o, const Program *p, const Forecast *f)
{
    for (int c = 0; c < WORK_CLASSES; c++) {
        double run = run_of(f, c);
        if (run <= 0)
            continue;
        bool waits = c == WORK_COLLECTIVE || c == WORK_TRANSFER;
        line(o, p, f, work_class_name[c], f->by_class[c],
             waits ? arena_printf(p->arena, "waited for, of %s",
                                  report_seconds(p->arena, run))
                   : "");
    }
    line(o, p, f, "between statements", f->waits, "");
    if (f->pipeline)
        line(o, p, f, "waiting for other stages", f->bubble,
             arena_printf(p->arena, "on coordinate %d, which works longest",
                          f->pipeline->slowest));
}

static void phases(Out *o, const Program *p, const Forecast *f)
{
    out_line(o, " by phase");
    for (int k = 0; k < FORECAST_PHASES; k++)
        line(o, p, f, forecast_phase_name[k], f->by_phase[k], "");
}

/* ---- modules ------------------------------------------------------------- */

typedef struct Share {
    const char *name;
    double seconds;
} Share;
typedef VEC(Share) Shares;

static int by_seconds(const void *x, const void *y)
{
    double a = ((const Share *)x)->seconds, b = ((const Share *)y)->seconds;
    return (a < b) - (a > b);
}

static void add_share(Arena *a, Shares *s, const char *name, double seconds)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->at[i].name, name) == 0) {
            s->at[i].seconds += seconds;
            return;
        }
    vec_push(a, s, ((Share){name, seconds}));
}

/* The path of the module, and "optimizer" for what updates parameters. */
static const char *module_of(const Statement *s)
{
    return s->op->phase == PH_OPTIMIZER ? "optimizer"
           : *s->op->path               ? s->op->path
                                        : "the model";
}

static void modules(Out *o, const Program *p, const Forecast *f)
{
    enum { MOST = 12 };
    Shares s = {0};
    for (int i = 0; i < f->n; i++)
        if (f->time[i].exposed > 0)
            add_share(p->arena, &s, module_of(&f->statement[i]), f->time[i].exposed);
    qsort(s.at, (size_t)s.n, sizeof *s.at, by_seconds);
    out_line(o, " by module");
    for (int i = 0; i < s.n && i < MOST; i++)
        line(o, p, f, s.at[i].name, s.at[i].seconds, "");
    double rest = 0;
    for (int i = MOST; i < s.n; i++)
        rest += s.at[i].seconds;
    if (s.n > MOST)
        line(o, p, f, arena_printf(p->arena, "and %d more", s.n - MOST), rest, "");
}

/* ---- collectives --------------------------------------------------------- */

/* "after w2_out, before k02_norm": what a collective waits for on other streams, and what
 * waits for it. */
static const char *order_text(const Program *p, const Forecast *f,
                              const StatementWaits *waits, int i)
{
    Arena *a = p->arena;
    const char *after = "", *before = "";
    for (int k = 0; k < waits[i].n; k++)
        after = report_listed(a, after, f->statement[waits[i].at[k]].id, ", ");
    for (int k = 0; k < f->n; k++)
        for (int w = 0; w < waits[k].n; w++)
            if (waits[k].at[w] == i)
                before = report_listed(a, before, f->statement[k].id, ", ");
    return arena_printf(a, "%s%s%s%s%s", *after ? "after " : "", after,
                        *after && *before ? "; " : "", *before ? "before " : "", before);
}

static void collectives(Out *o, const Program *p, const Forecast *f)
{
    bool head = false;
    const StatementWaits *waits = statement_waits(p, f->statement, f->n);
    for (int i = 0; i < f->n; i++) {
        const StatementTime *t = &f->time[i];
        if (f->work[i].class != WORK_COLLECTIVE || t->run <= 0)
            continue;
        if (!head)
            out_line(o, " collectives: waited for, of all");
        head = true;
        out_line(o, "  %-28s %9s of %-8s  %s", f->statement[i].id,
                 report_seconds(p->arena, t->exposed), report_seconds(p->arena, t->run),
                 f->statement[i].detail);
        const char *order = order_text(p, f, waits, i);
        if (*order && t->exposed > 0.001 * f->seconds)
            out_line(o, "  %28s %s", "", order);
    }
}

/* ---- losses -------------------------------------------------------------- */

static void losses(Out *o, const Program *p, const Forecast *f)
{
    enum { MOST = 3 };
    int n;
    const Loss *loss = losses_of(p, f, &n);
    out_line(o, " largest losses");
    for (int i = 0; i < n && i < MOST; i++) {
        out_line(o, "  %9s %5.1f%%  %s", report_seconds(p->arena, loss[i].seconds),
                 100 * loss[i].seconds / f->seconds, loss[i].what);
        out_line(o, "  %18s remedy: %s", "", loss[i].remedy);
    }
}

void report_time(Out *o, const Program *p, const Forecast *f)
{
    out_line(o, "\nTime on %s: %s per step, +- %.0f%%; %.1f%% of the peak (MFU)",
             f->machine->name, report_seconds(p->arena, f->seconds), 100 * f->spread,
             100 * f->mfu);
    classes(o, p, f);
    phases(o, p, f);
    modules(o, p, f);
    collectives(o, p, f);
    losses(o, p, f);
}

/* ---- JSON ---------------------------------------------------------------- */

static void json_losses(Out *o, const Program *p, const Forecast *f)
{
    int n;
    const Loss *loss = losses_of(p, f, &n);
    out(o, ",\n    \"losses\": [");
    for (int i = 0; i < n; i++) {
        out(o, "%s      {", i ? ",\n" : "\n");
        json_real(o, "seconds", loss[i].seconds);
        json_text(o, "what", loss[i].what);
        json_text(o, "remedy", loss[i].remedy);
        out(o, "}");
    }
    out(o, "\n    ]");
}

void report_json_time(Out *o, const Program *p, const Forecast *f)
{
    out(o, "  \"time\": {");
    json_text(o, "machine", f->machine->name);
    json_real(o, "step_seconds", f->seconds);
    json_real(o, "mfu", f->mfu);
    json_real(o, "exposed_seconds", f->exposed);
    json_real(o, "spread", f->spread);
    json_real(o, "between_seconds", f->waits);
    json_real(o, "bubble_seconds", f->bubble);
    out(o, ",\n    \"by_phase\": {");
    for (int k = 0; k < FORECAST_PHASES; k++)
        json_real(o, forecast_phase_name[k], f->by_phase[k]);
    out(o, "},\n    \"by_class\": {");
    for (int c = 0; c < WORK_CLASSES; c++)
        json_real(o, work_class_name[c], f->by_class[c]);
    out(o, "}");
    json_losses(o, p, f);
    out(o, ",\n    \"statements\": [");
    for (int i = 0; i < f->n; i++) {
        out(o, "%s      {", i ? ",\n" : "\n");
        json_text(o, "id", f->statement[i].id);
        json_text(o, "class", work_class_name[f->work[i].class]);
        json_real(o, "alone_seconds", f->work[i].seconds);
        json_real(o, "run_seconds", f->time[i].run);
        json_real(o, "exposed_seconds", f->time[i].exposed);
        json_real(o, "slowed_seconds", f->time[i].slowed);
        out(o, "}");
    }
    out(o, "\n    ]\n  },\n");
}
