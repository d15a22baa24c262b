/* report_pipeline.c: prints the plan's section on the pipeline: what each stage
 * has, and the order in which the ranks work.
 *
 *   Pipeline over pp: 1f1b, 2 stages, 8 microbatches (llama.pdl:72:5)
 *   an ideal rank waits 11% of the microbatches' time
 *     stage  layers       modules         parameters  in flight
 *     0      layers.0-15  tok_embeddings      3.37 G  2 microbatches
 *     1      layers.16-31 norm, output        3.37 G  1 microbatch
 *     rank 0  F0 F1 .. .. B0 ## F2 B1 ## …
 *     rank 1  .. F0 B0 ## F1 B1 ## F2 B2 ## …
 *
 * In the drawing a forward pass takes one unit of time, a backward pass two; with
 * zero_bubble one of these is apart, W, for the gradients of weights.
 */
#include "ir/path.h"
#include "ir/plan/pipeline.h"
#include "ir/plan/ranges.h"
#include "passes/pipeline/staged_loop.h"
#include "report/report.h"

#include <string.h>

#include "report/json.h"

typedef struct StageParts {
    const char *layers, *modules; /* "layers.0-15", "norm, output"; "": none */
    int64_t parameters;
} StageParts;

typedef struct Scan {
    const Program *p;
    int axis, nstages;
    int64_t micro;
    StageParts *stage;
    const Op *loop; /* the staged loop; NULL: stages work one after another */
    Timetable t;    /* of the loop */
} Scan;

/* ---- what stages have ---------------------------------------------------- */

/* The name without its last part: "layers.*.net" of "layers.*.net.weight". */
static const char *module_of(Arena *a, const char *param)
{
    const char *end = strrchr(param, '.');
    return end ? arena_strndup(a, param, (size_t)(end - param)) : param;
}

/* "layers.0-15" of "layers.*.net.weight", whose rows from `first` on, before `end`, a
 * stage has; "": it has none, or the name has no array. */
static const char *layers_of(Arena *a, const char *name, int64_t first,
                             int64_t end)
{
    size_t size = 0;
    const char *segment = name;
    PathRange all = {.step = 1}; /* "*" */
    bool found = false;
    for (int i = 0; i < path_depth(name) && !found; i++) {
        segment = path_segment(name, i, &size);
        found = path_range(segment, size, &all) || path_is_open(segment, size);
    }
    if (first >= end || !found)
        return "";
    PathRange own = {all.first + first * all.step,
                     all.first + (end - 1) * all.step, all.step};
    return arena_printf(a, "%.*s%s", (int)(segment - name), name,
                        path_range_text(a, own));
}

static void scan_param(Scan *s, const Param *q)
{
    Arena *a = s->p->arena;
    AxisPlace at = q->type.place.ax[s->axis];
    if (q->state || !q->value)
        return;
    int64_t elements = type_elements(&q->type);
    if (at.kind == AX_AT) {
        StageParts *stage = &s->stage[at.dim];
        stage->parameters += elements;
        stage->modules = report_listed(a, stage->modules, module_of(a, q->name),
                                       ", ");
    }
    for (int i = 0; at.kind == AX_CUT && i < s->nstages; i++) {
        const int64_t *begin = s->p->mesh.cut[at.order - 1].begin;
        s->stage[i].parameters += elements / q->type.stack[0] *
                                  (begin[i + 1] - begin[i]);
        const char *layers = layers_of(a, q->name, begin[i], begin[i + 1]);
        if (*layers)
            s->stage[i].layers = report_listed(a, s->stage[i].layers, layers, ", ");
    }
}

static Scan scan(const Program *p)
{
    Scan s = {.p = p, .axis = pipeline_axis(p), .micro = p->train.accumulate};
    if (s.axis < 0)
        return s;
    s.nstages = pipeline_stage_count(p);
    s.stage = NEW_ARRAY(p->arena, StageParts, s.nstages);
    for (int i = 0; i < s.nstages; i++)
        s.stage[i].layers = s.stage[i].modules = "";
    for (int i = 0; i < p->param.n; i++)
        scan_param(&s, &p->param.at[i]);
    s.loop = pipeline_loop(p);
    if (s.loop)
        s.t = staged_timetable(p, s.loop);
    return s;
}

/* The part of the ideal run in which a rank waits. */
static double waiting(const Scan *s)
{
    return s->loop ? timetable_bubble(&s->t) : 1 - 1.0 / s->nstages;
}

/* The bytes that a rank of the stage counts. */
static int64_t memory_of(const Scan *s, int stage)
{
    Ranges at = memory_ranges(s->p, coordinate_of(s->p, stage));
    return memory_ranges_counted(s->p->memory, &at);
}

/* ---- text ---------------------------------------------------------------- */

enum { DRAWN_RANKS = 8, DRAWN_COLUMNS = 66 };

/* "F0"; if the rank has several stages "F0/2", on stage 2. */
static const char *work_text(Arena *a, const Timetable *t, const Action *x)
{
    const char *text = arena_printf(a, "%c%lld", "FBW"[x->kind],
                                    (long long)x->micro % 10);
    return t->nstages == t->nranks ? text
                                   : arena_printf(a, "%s/%d", text, x->stage);
}

/* "F0 F1 .. B0 ## ": what the rank does in each unit of time. */
static void draw_rank(Out *o, const Timetable *t, int rank)
{
    int width = (int)strlen(work_text(o->arena, t, &(Action){.stage = t->nstages - 1}));
    int64_t at = 0, most = DRAWN_COLUMNS / (width + 1);
    out(o, "  rank %-2d", rank);
    for (int i = 0; i < t->rank[rank].n; i++) {
        const Action *x = &t->rank[rank].at[i];
        if (x->kind > ACTION_WEIGHTS)
            continue;
        for (; at < x->begin && at < most; at++)
            out(o, " %-*s", width, "..");
        for (; at < x->end && at < most; at++)
            out(o, " %-*s", width, at > x->begin ? "##" : work_text(o->arena, t, x));
    }
    out_line(o, "%s", t->units > most ? " …" : "");
}

static const char *sequence_text(int64_t micro)
{
    return micro == 1
               ? "stages work one after another: `accumulate` divides the batch into "
                 "microbatches, which overlap"
               : "stages work one after another: they overlap if what a microbatch passes "
                 "between them goes to later stages, and its gradients to earlier ones";
}

void report_sequence(const Program *p)
{
    int axis = pipeline_axis(p);
    if (axis < 0 || pipeline_loop(p))
        return;
    diag_note(p->diag, p->plan.pipeline.loc, "%s; %lld of %lld coordinates of '%s' wait "
              "at each time", sequence_text(p->train.accumulate),
              (long long)p->mesh.size[axis] - 1, (long long)p->mesh.size[axis],
              p->mesh.name[axis]);
}

void report_pipeline(Out *o, const Program *p)
{
    Scan s = scan(p);
    if (s.axis < 0)
        return;
    out_line(o, "\nPipeline over %s: %s, %d stages, %lld microbatch%s  (%s)",
             p->mesh.name[s.axis],
             option_word(OPTION_pipeline_schedule, p->plan.pipeline.schedule),
             s.nstages, (long long)s.micro, s.micro > 1 ? "es" : "",
             diag_where(p->diag, p->arena, p->plan.pipeline.loc));
    if (s.loop)
        out_line(o, "a rank waits %.0f%% of the time of an ideal run, in which all "
                 "stages are equal", 100 * waiting(&s));
    else
        out_line(o, "%s", sequence_text(s.micro));
    out_line(o, "  stage  parameters  in flight      memory  layers and modules");
    for (int i = 0; i < s.nstages; i++)
        out_line(o, "  %-5d  %10s  %9lld  %10s  %s%s%s", i,
                 count_text(p->arena, (double)s.stage[i].parameters),
                 (long long)(s.loop ? s.t.slots[i] : 1),
                 bytes_text(p->arena, memory_of(&s, i)), s.stage[i].layers,
                 *s.stage[i].layers && *s.stage[i].modules ? ", " : "",
                 s.stage[i].modules);
    for (int r = 0; s.loop && r < s.t.nranks && s.t.nranks <= DRAWN_RANKS; r++)
        draw_rank(o, &s.t, r);
}

/* ---- JSON ---------------------------------------------------------------- */

void report_json_pipeline(Out *o, const Program *p)
{
    Scan s = scan(p);
    if (s.axis < 0)
        return;
    out(o, "  \"%s\": {", clause_name(CL_PIPELINE));
    json_text(o, "axis", p->mesh.name[s.axis]);
    json_text(o, option_name(OPTION_pipeline_schedule),
              option_word(OPTION_pipeline_schedule, p->plan.pipeline.schedule));
    json_number(o, "microbatches", s.micro);
    out(o, ", \"overlap\": %s", s.loop ? "true" : "false");
    json_real(o, "bubble", waiting(&s));
    out(o, ", \"stages\": [");
    for (int i = 0; i < s.nstages; i++) {
        out(o, "%s    {", i ? ",\n" : "\n");
        json_text(o, "layers", s.stage[i].layers);
        json_text(o, "modules", s.stage[i].modules);
        json_number(o, "parameters", s.stage[i].parameters);
        json_number(o, "in_flight", s.loop ? s.t.slots[i] : 1);
        json_number(o, "memory", memory_of(&s, i));
        out(o, "}");
    }
    out(o, "\n  ]},\n");
}
