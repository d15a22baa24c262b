/* auto_time.c: chooses the candidate whose step takes the least time by forecast; see
 * auto_choice.h.
 *
 *   --mesh auto --ranks 64 --machine h100-sxm
 *   note: --mesh auto is dp=64,tp=1: 185 ms per step on h100-sxm, 46.2% of the peak …
 *   note: not dp=32,tp=2: 191 ms, +6.43 ms, most for collective (+8.71 ms)
 *
 * Every candidate is compiled, and its final program is timed. Two candidates tie if
 * constants of the machine, each changed by its spread, make the other one the faster.
 */
#include "driver/auto/auto_choice.h"

#include <stdlib.h>
#include <string.h>

#include "driver/auto/fit.h"

enum { LISTED = 8 }; /* losers of each kind that notes name */

/* ---- machines with changed constants --------------------------------------- */

/* Constants with a common error. */
typedef enum Group { GROUP_PRODUCTS, GROUP_MEMORY, GROUP_LINKS } Group;

static void change(Constant *c, int sign)
{
    c->value *= 1 + sign * (c->spread < 0.9 ? c->spread : 0.9);
}

/* A copy of the list `name` of the machine, whose rates are changed. */
#define change_rates(a, m, name, sign)                                             \
    do {                                                                           \
        (m)->name.at = arena_copy(a, (m)->name.at,                                 \
                                  (size_t)(m)->name.n * sizeof *(m)->name.at);     \
        for (int i = 0; i < (m)->name.n; i++)                                      \
            change(&(m)->name.at[i].rate, sign);                                   \
    } while (0)

/* The machine with a group of constants changed by their spread, up or down. */
static const Machine *changed_machine(Arena *a, const Machine *from, Group group, int sign)
{
    Machine *m = arena_copy(a, from, sizeof *from);
    static const MachineConstant memory[] = {MACHINE_hbm_streaming, MACHINE_hbm_row,
                                             MACHINE_hbm_column, MACHINE_hbm_gather};
    static const MachineConstant links[] = {MACHINE_node_link, MACHINE_node_nic};
    if (group == GROUP_PRODUCTS) {
        change(&m->constant[MACHINE_matmul_sustained], sign);
        change_rates(a, m, attention, sign);
        change_rates(a, m, product, sign);
    } else if (group == GROUP_LINKS) {
        change_rates(a, m, collective, sign);
        for (size_t i = 0; i < sizeof links / sizeof *links; i++)
            change(&m->constant[links[i]], sign);
    } else {
        for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
            change(&m->constant[memory[i]], sign);
        change_rates(a, m, kernel, sign);
    }
    return m;
}

/* ---- trials -------------------------------------------------------------- */

void choice_time(const Choice *c, Candidate *t)
{
    const Machine *m = c->from->t->machine;
    PlanSource from = *c->from;
    from.mesh = t->mesh;
    Program *q = choice_compile(c, t, false);
    if (!q || !choice_fits(c, t))
        return;
    if (!replan_schedule(&from, q)) {
        t->error = diag_first_error(q->diag);
        return;
    }
    Forecast f = forecast_of(q, m, false);
    t->time = (CandidateTime){.timed = true, .seconds = f.seconds, .mfu = f.mfu,
                              .bubble = f.bubble};
    memcpy(t->time.by_class, f.by_class, sizeof f.by_class);
    for (int i = 0; i < CHANGED_MACHINES; i++) {
        const Machine *changed = changed_machine(c->a, m, (Group)(i / 2), i % 2 ? 1 : -1);
        t->time.changed[i] = forecast_of(q, changed, false).seconds;
    }
}

/* The candidate of the least time; NULL: none. */
static Candidate *fastest(const Choice *c)
{
    Candidate *best = NULL;
    for (int i = 0; i < c->candidate.n; i++) {
        Candidate *t = &c->candidate.at[i];
        if (t->time.timed && (!best || t->time.seconds < best->time.seconds))
            best = t;
    }
    return best;
}

/* Side programs take no time of a step, so that only the fastest candidate is compiled
 * with them. */
const Candidate *choice_by_time(Choice *c, int *tried)
{
    int most = choice_most(c);
    Candidate *best;
    choice_add_all(c);
    *tried = c->candidate.n < most ? c->candidate.n : most;
    c->untried = c->candidate.n - *tried;
    c->candidate.n = *tried;
    choice_time_all(c, 0, *tried, choice_time);
    while ((best = fastest(c)) && !choice_fits_sides(c, best))
        continue;
    return best;
}

/* ---- reports ------------------------------------------------------------- */

/* Whether x is faster than y on a machine whose constants differ by their spread. */
static bool may_be_faster(const CandidateTime *x, const CandidateTime *y)
{
    for (int i = 0; i < CHANGED_MACHINES; i++)
        if (x->changed[i] < y->changed[i])
            return true;
    return false;
}

/* What a candidate loses most of its time for, against the best one: "collective". */
static const char *largest_loss(const CandidateTime *f,
                                const CandidateTime *best, double *seconds)
{
    const char *name = "waiting for other stages";
    *seconds = f->bubble - best->bubble;
    for (int k = 0; k < WORK_CLASSES; k++)
        if (f->by_class[k] - best->by_class[k] > *seconds) {
            *seconds = f->by_class[k] - best->by_class[k];
            name = work_class_name[k];
        }
    return name;
}

static void report_slower(const Choice *c, const Candidate *t, const Candidate *best)
{
    double loss, more = t->time.seconds - best->time.seconds;
    const char *name = largest_loss(&t->time, &best->time, &loss);
    const char *tie = may_be_faster(&t->time, &best->time)
                          ? "; a tie within the error of the model" : "";
    if (more <= 0) {
        double less = -100 * more / best->time.seconds;
        diag_note(c->d, (Loc){0}, "not %s: %s, %s", t->name,
                  report_seconds(c->a, t->time.seconds),
                  less < 0.05 ? "as fast"
                              : arena_printf(c->a, "%.1f%% less, below the 1%% that a less "
                                             "common plan has to gain", less));
        return;
    }
    const char *why = loss > 0 ? arena_printf(c->a, ", most for %s (+%s)", name,
                                              report_seconds(c->a, loss)) : "";
    diag_note(c->d, (Loc){0}, "not %s: %s, +%s%s%s", t->name,
              report_seconds(c->a, t->time.seconds),
              report_seconds(c->a, more), why, tie);
}

static int faster_first(const void *x, const void *y)
{
    const Candidate *a = *(const Candidate *const *)x, *b = *(const Candidate *const *)y;
    double s = a->time.seconds, t = b->time.seconds;
    return s != t ? (s > t) - (s < t) : (a > b) - (a < b); /* in the order of the search */
}

int choice_others(const Choice *c, const Candidate *best, const Candidate ***timed)
{
    const Candidate **list = NEW_ARRAY(c->a, const Candidate *, c->candidate.n + 1);
    int n = 0;
    for (int i = 0; i < c->candidate.n; i++)
        if (c->candidate.at[i].time.timed && &c->candidate.at[i] != best)
            list[n++] = &c->candidate.at[i];
    qsort(list, (size_t)n, sizeof *list, faster_first);
    *timed = list;
    return n;
}

static void report_timed(const Choice *c, const Candidate *best)
{
    const Candidate **timed;
    int n = choice_others(c, best, &timed);
    for (int i = 0; i < n && i < LISTED; i++)
        report_slower(c, timed[i], best);
    if (n > LISTED)
        diag_note(c->d, (Loc){0}, "and %d more that take longer", n - LISTED);
}

/* Reports those that need too much memory or do not compile. */
static void report_failed(const Choice *c, int tried)
{
    int failed = 0;
    for (int i = 0; i < tried; i++) {
        const Candidate *t = &c->candidate.at[i];
        if (t->time.timed || failed++ >= LISTED)
            continue;
        if (t->error)
            diag_note(c->d, (Loc){0}, "not %s: %s", t->name, t->error);
        else
            diag_note(c->d, (Loc){0}, "not %s: a rank needs %s, %s more than it may use",
                      t->name, bytes_text(c->a, t->peak),
                      bytes_text(c->a, t->peak - fit_limit(c->o)));
    }
    if (failed > LISTED)
        diag_note(c->d, (Loc){0}, "and %d more that do not compile or fit",
                  failed - LISTED);
}

void choice_report_times(const Choice *c, const Candidate *best, int tried)
{
    const CandidateTime *f = &best->time;
    int fit = 0;
    for (int i = 0; i < tried; i++)
        fit += c->candidate.at[i].time.timed;
    diag_note(c->d, (Loc){0}, "%s is %s: %s per step on %s, %.1f%% of the peak, %sthe "
              "fastest of %d that fit, of %d tried; a rank needs %s", c->option, best->name,
              report_seconds(c->a, f->seconds), c->from->t->machine->name, 100 * f->mfu,
              fastest(c)->time.seconds < f->seconds ? "within 1% of " : "", fit,
              tried, bytes_text(c->a, best->peak));
    report_timed(c, best);
    report_failed(c, tried);
    if (c->untried)
        diag_note(c->d, (Loc){0}, "--search %d left out %d other %s", tried, c->untried,
                  c->things);
}
