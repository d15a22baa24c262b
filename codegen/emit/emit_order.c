/* emit_order.c: writes the table of what each rank of a pipeline does.
 *
 *   F0 F1 >0 <0 B0 F2 >1 <1 B1 F3 >2 <2 B2 …    becomes
 *
 *   static const ParcRun order_0[] = {
 *       {1, (const ParcAction[]){{PARC_FORWARD, 0}}, 1, 0},
 *       {4, (const ParcAction[]){{PARC_FORWARD, 1}, {PARC_SEND, 0},
 *           {PARC_RECEIVE_GRADIENT, 0}, {PARC_BACKWARD, 0}}, 7, 1},
 *       …
 *
 * A sequence that repeats for later microbatches is written once, so that the
 * table does not grow with their number.
 */
#include "codegen/emit/emitter.h"
#include "ir/plan/pipeline.h"

enum { LONGEST = 64, LEAST_SAVED = 3 };

/* Of actions [at, at + length), how often they come in a row, each time for
 * microbatches that are `shift` later. */
typedef struct Period {
    int length;
    int64_t repeats, shift;
} Period;

static bool is_shifted(const Action *x, const Action *y, int64_t shift)
{
    return x->kind == y->kind && x->gradient == y->gradient &&
           x->stage == y->stage && y->micro - x->micro == shift;
}

static Period period_of(const Actions *list, int at, int length)
{
    Period p = {length, 1, 0};
    if (at + 2 * length > list->n)
        return p;
    p.shift = list->at[at + length].micro - list->at[at].micro;
    int same = 0;
    while (at + length + same < list->n &&
           is_shifted(&list->at[at + same], &list->at[at + length + same],
                      p.shift))
        same++;
    p.repeats += same / length;
    return p;
}

static int64_t saved(const Period *p)
{
    return p->length * (p->repeats - 1);
}

static Period best_period(const Actions *list, int at)
{
    Period best = {1, 1, 0};
    for (int length = 1; length <= LONGEST; length++) {
        Period p = period_of(list, at, length);
        if (saved(&p) > saved(&best))
            best = p;
    }
    return best;
}

static const char *kind_name(const Action *x)
{
    switch (x->kind) {
    case ACTION_FORWARD: return "FORWARD";
    case ACTION_BACKWARD: return "BACKWARD";
    case ACTION_WEIGHTS: return "WEIGHTS";
    case ACTION_SEND: return x->gradient ? "SEND_GRADIENT" : "SEND";
    case ACTION_RECEIVE: break;
    }
    return x->gradient ? "RECEIVE_GRADIENT" : "RECEIVE";
}

static void write_run(Out *o, const Actions *list, bool stage, int at,
                      const Period *p)
{
    const char *text = arena_printf(o->arena, "{%d, (const ParcAction[]){",
                                    p->length);
    for (int i = 0; i < p->length; i++)
        text = arena_printf(o->arena, "%s%s{PARC_%s, %lld%s}", text, i ? ", " : "",
                            kind_name(&list->at[at + i]),
                            (long long)list->at[at + i].micro,
                            stage ? arena_printf(o->arena, ", %d",
                                                 action_stage(&list->at[at + i]))
                                  : "");
    out_code(o, "%s}, %lld, %lld},", text, (long long)p->repeats,
             (long long)p->shift);
}

/* `stage`: actions have it. */
static void write_rank(Emitter *e, const Actions *list, int rank, bool stage)
{
    Out *o = e->o;
    out_line(o, "static const ParcRun %sorder_%d[] = {", emitter_own(e), rank);
    o->indent = OUT_INDENT;
    for (int at = 0; at < list->n;) {
        Period p = best_period(list, at);
        if (saved(&p) < LEAST_SAVED) { /* up to where one begins */
            p = (Period){0, 1, 0};
            for (Period next = {1, 1, 0}; at + p.length < list->n &&
                                          saved(&next) < LEAST_SAVED;)
                next = best_period(list, at + ++p.length);
        }
        write_run(o, list, stage, at, &p);
        at += (int)(p.length * p.repeats);
    }
    out_line(o, "{0},");
    o->indent = 0;
    out_line(o, "};");
}

void emit_order(Emitter *e)
{
    Timetable t = staged_timetable(e->p, pipeline_loop(e->p));
    out_line(e->o, "\n/* What each rank of the pipeline does, in order: a list of "
             "actions, how often it");
    out_line(e->o, " * comes, and by how many microbatches it is later each time. */");
    for (int r = 0; r < t.nranks; r++)
        write_rank(e, &t.rank[r], r, t.nstages > t.nranks);
    const char *own = emitter_own(e);
    out_line(e->o, "static const ParcRun *const %sorder[] = {", own);
    for (int r = 0; r < t.nranks; r++)
        out_line(e->o, "    %sorder_%d,", own, r);
    out_line(e->o, "};");
    out_line(e->o, "const ParcPipeline %spipeline = {%s, %sorder, %d};", own,
             axes_expression(e, 1u << pipeline_axis(e->p)), own, t.nstages);
}
