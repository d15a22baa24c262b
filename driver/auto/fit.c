/* fit.c: compares the memory of a rank with --device-memory and reports changes
 * that would make the plan fit.
 *
 * Planning takes milliseconds; therefore changes are tried rather than
 * estimated: each alone, and if none is enough, in pairs and all together; then
 * larger meshes and smaller batches, alone and with the other changes.
 *
 * 1/32 of a GPU's memory is left free for the driver's context, kernels, graphs
 * and NCCL. For 80 GiB that is 2.5 GiB: a context with its kernels needs about
 * 0.5 GiB, a communicator some hundreds of MiB, and a GPU sold with 80 GB
 * reports 79 GiB.
 */
#include "driver/auto/fit.h"

#include "codegen/target/target.h"
#include "ir/analysis/flops.h"
#include "ir/memory.h"
#include "report/report.h"

static const char *size_text(const Program *p, int64_t bytes)
{
    return bytes_text(p->arena, bytes);
}

static int64_t reserved_bytes(const Options *o)
{
    return o->target == TARGET_CUDA ? o->memory_limit / PARC_DEVICE_RESERVE : 0;
}

int64_t fit_limit(const Options *o)
{
    return o->memory_limit - reserved_bytes(o);
}

static void refuse(const Program *p, const Options *o)
{
    const MemoryPlan *m = p->memory;
    const char *less = "";

    if (reserved_bytes(o) > 0)
        less = arena_printf(p->arena,
                            " (%s minus %s for the CUDA context and "
                            "libraries)",
                            size_text(p, o->memory_limit),
                            size_text(p, reserved_bytes(o)));
    diag_error(p->diag, o->device_memory.loc, "a rank needs %s, more than %s%s",
               size_text(p, m->peak), size_text(p, fit_limit(o)), less);
    diag_note(p->diag, p->plan.loc,
              "at the peak: parameters, gradients and optimizer %s, "
              "gathered parameters %s, activations %s",
              size_text(p, m->at_peak[MEM_PARAMS] + m->at_peak[MEM_GRADS] +
                               m->at_peak[MEM_OPTIMIZER]),
              size_text(p, m->at_peak[MEM_GATHERED]),
              size_text(p, m->at_peak[MEM_ACTIVATIONS]));
}

/* Says how much of the memory stays free; true. */
static bool say_free(const Program *p, const Options *o)
{
    diag_note(p->diag, (Loc){0}, "a rank needs %s, and %s of %s stay free",
              size_text(p, p->memory->peak),
              size_text(p, fit_limit(o) - p->memory->peak),
              size_text(p, fit_limit(o)));
    return true;
}

/* ---- changes ---- */

/* A combination of changes and its result. */
typedef struct Trial {
    const FitChange *change[MAX_FAMILIES];
    int n;
    int64_t peak;      /* -1: planning the changed program fails */
    double recomputed; /* recomputed flops, relative to the model's own */
} Trial;

static void apply_change(Replan *r, const FitChange *c)
{
    if (c->clause)
        replan_clause(r, c->clause);
    if (c->full_shard)
        replan_shard_fully(r);
    if (c->define)
        replan_define(r, c->define);
    if (c->mesh)
        replan_mesh(r, c->mesh);
}

/* ---- defaults of a plan ---- */

static bool plan_fits(const Program *q, const Options *o)
{
    return o->memory_limit == 0 || q->memory->peak <= fit_limit(o);
}

/* Without gather=step there are two gathers for each microbatch, therefore it is given up
 * last. */
static const PlanDefaults choice[] = {
    {PER_STEP, PER_STEP, true},              {PER_STEP, PER_STEP, false},
    {PER_STEP, PER_MICROBATCH, true},        {PER_STEP, PER_MICROBATCH, false},
    {PER_MICROBATCH, PER_STEP, true},        {PER_MICROBATCH, PER_STEP, false},
    {PER_MICROBATCH, PER_MICROBATCH, true},  {PER_MICROBATCH, PER_MICROBATCH, false}};
enum { CHOICES = sizeof choice / sizeof *choice };

static bool is_often(const PlanDefaults *c)
{
    return c->gather != PER_STEP || c->reduce != PER_STEP;
}

/* Whether the plan of q, which has overlap, may need less without: overlap changes the order
 * of ops around experts, and which kernels run beside the stream `compute`. */
static bool saves_without_overlap(const Program *q)
{
    for_ops(op, q->step)
        if (op->kind == OP_fused && op->stream == STREAM_DATA)
            return true;
    return q->streams > 1 && q->plan.experts.axes;
}

/* Whether a choice may fit where earlier ones, of which q is the latest with overlap, do not. */
static bool may_fit(const PlanDefaults *c, const Program *q)
{
    return (!is_often(c) || q->plan.pipeline.axes) &&
           (c->overlap || saves_without_overlap(q));
}

/* Plans the program with the changes of a trial, and the first choice that fits, or else
 * the one that needs the least memory. */
static Program *choose_defaults(const Program *p, PlanSource *from, const Options *o,
                                const Trial *t, const char **error)
{
    Program *best = NULL;
    const Program *overlapping = NULL;
    PlanDefaults defaults = choice[0];
    for (int i = 0; i < CHOICES && (!best || !plan_fits(best, o)); i++) {
        if (best && !may_fit(&choice[i], overlapping))
            continue;
        from->defaults = choice[i];
        Replan *r = replan_new(p->arena, p, from);
        for (int k = 0; k < t->n; k++)
            apply_change(r, t->change[k]);
        Program *q = replan_memory(r);
        *error = q ? NULL : replan_error(r);
        if (!q)
            return NULL;
        overlapping = choice[i].overlap ? q : overlapping;
        if (best && q->memory->peak >= best->memory->peak)
            continue;
        best = q;
        defaults = choice[i];
    }
    from->defaults = defaults;
    return best;
}

Program *fit_plan(const Program *p, PlanSource *from, const Options *o,
                  const char **error)
{
    return choose_defaults(p, from, o, &(Trial){0}, error);
}

/* Says that a choice is not the first one, and why. */
static void say_defaults(const Program *p, const Options *o, Diag *d, const PlanDefaults *c)
{
    const char *limit = size_text(p, fit_limit(o));
    if (is_often(c))
        diag_note(d, p->plan.pipeline.loc, "units that do not say it have "
                  "%s=%s and %s=%s: with '%s' for both a rank needs more than "
                  "%s", option_name(OPTION_gather), option_word(OPTION_gather, c->gather),
                  option_name(OPTION_unit_reduce),
                  option_word(OPTION_unit_reduce, c->reduce),
                  option_word(OPTION_gather, PER_STEP), limit);
    if (!c->overlap)
        diag_note(d, p->plan.loc, "%s that do not say it have %s=false: with "
                  "%s=true a rank needs more than %s",
                  p->plan.experts.axes ? "units and experts" : "units",
                  option_name(OPTION_overlap), option_name(OPTION_overlap), limit);
}

/* Whether a lowered program may have choices. */
static bool has_defaults(const Program *p, const Options *o)
{
    bool converts = p->train.accumulate > 1 || p->train.reduce != DT_F32;
    return p->plan.pipeline.axes || p->plan.experts.axes ||
           (o->target == TARGET_CUDA && p->plan.nunits && converts);
}

PlanDefaults fit_plan_defaults(const Program *p, PlanSource *from,
                               const Options *o, Diag *d)
{
    const char *error;
    const Program *q = has_defaults(p, o) ? fit_plan(p, from, o, &error) : NULL;
    if (!q)
        return choice[0];
    if (plan_fits(q, o))
        say_defaults(p, o, d, &from->defaults);
    return from->defaults;
}

/* ---- trials ---- */

static const char *trial_text(Arena *a, const Trial *t)
{
    const char *text = t->change[0]->text;

    for (int i = 1; i < t->n; i++)
        text = arena_printf(a, "%s%s%s", text,
                            i + 1 < t->n ? ", " : " and ", t->change[i]->text);
    return text;
}

static void measure_trial(const Program *p, const PlanSource *from, const Options *o,
                          Trial *t)
{
    PlanSource source = *from;
    const char *error;
    const Program *q = choose_defaults(p, &source, o, t, &error);
    t->peak = -1;
    if (!q || !q->memory)
        return;
    double recomputed = program_flops_recomputed(q);
    double own = program_flops(q, PH_FORWARD) + program_flops(q, PH_BACKWARD) -
                 recomputed;
    t->peak = q->memory->peak;
    t->recomputed = own > 0 ? recomputed / own : 0;
}

typedef struct Search {
    const Program *p;
    const PlanSource *from;
    const Options *o;
    FitChanges changes;
    Trial best[MAX_FAMILIES]; /* by family: the smallest result */
    Trial nearest;            /* the smallest of the plan's own changes */
    bool found;
} Search;

static void keep_smallest(Trial *best, const Trial *t)
{
    if (t->peak >= 0 && (best->n == 0 || t->peak < best->peak))
        *best = *t;
}

static bool fits(const Search *s, const Trial *t)
{
    return t->peak >= 0 && t->peak <= fit_limit(s->o);
}

/* Measures a trial, and reports it if it fits. */
static bool try_changes(Search *s, Trial *t)
{
    const char *more = "";

    measure_trial(s->p, s->from, s->o, t);
    if (!t->change[0]->other_run)
        keep_smallest(&s->nearest, t);
    if (!fits(s, t))
        return false;
    if (t->recomputed > 0)
        more = arena_printf(s->p->arena, ", with %.0f%% more work",
                            100 * t->recomputed);
    s->found = true;
    diag_help(s->p->diag, "%s: %s%s", trial_text(s->p->arena, t),
              size_text(s->p, t->peak), more);
    return true;
}

/* Tries each change alone, and each family until a change fits. */
static void try_alone(Search *s, bool other_run)
{
    bool done[MAX_FAMILIES] = {false};

    for (int i = 0; i < s->changes.n; i++) {
        const FitChange *c = &s->changes.at[i];
        if (c->other_run != other_run || done[c->family])
            continue;
        Trial t = {.change = {c}, .n = 1};
        done[c->family] = try_changes(s, &t);
        keep_smallest(&s->best[c->family], &t);
    }
}

/* Adds the best changes of the plan to a trial, by family. */
static void add_best(const Search *s, Trial *t)
{
    for (int i = 0; i < MAX_FAMILIES && t->n < MAX_FAMILIES; i++)
        if (s->best[i].n > 0 && !s->best[i].change[0]->other_run)
            t->change[t->n++] = s->best[i].change[0];
}

/* Tries the best changes of all families in pairs; if none fits, all of them
 * together. */
static void try_together(Search *s)
{
    Trial all = {0};

    add_best(s, &all);
    for (int i = 0; i < all.n; i++)
        for (int k = i + 1; k < all.n; k++) {
            Trial t = {.change = {all.change[i], all.change[k]}, .n = 2};
            try_changes(s, &t);
        }
    if (!s->found && all.n >= 3)
        try_changes(s, &all);
}

/* Tries a change of the run with each of the best changes of the plan until one
 * fits or, if `all`, with all of them. True: it fits. */
static bool try_other_with(Search *s, const FitChange *other, bool all)
{
    Trial t = {.change = {other}, .n = 1};

    add_best(s, &t);
    if (all)
        return t.n > 1 && try_changes(s, &t);
    for (int i = 1; i < t.n; i++) {
        Trial pair = {.change = {other, t.change[i]}, .n = 2};
        if (try_changes(s, &pair))
            return true;
    }
    return false;
}

/* Tries each change of the run with changes of the plan, and each family until
 * one fits. */
static void try_other_together(Search *s, bool all)
{
    bool done[MAX_FAMILIES] = {false};

    for (int i = 0; i < s->changes.n; i++) {
        const FitChange *c = &s->changes.at[i];
        if (c->other_run && !done[c->family])
            done[c->family] = try_other_with(s, c, all);
    }
}

static void say_nearest(const Search *s)
{
    const Trial *t = &s->nearest;
    const char *nearest = "";

    if (t->n > 0 && t->peak < s->p->memory->peak)
        nearest = arena_printf(s->p->arena, "; nearest: %s: %s",
                               trial_text(s->p->arena, t),
                               size_text(s->p, t->peak));
    diag_help(s->p->diag, "no change that parc tried makes it fit on this mesh "
              "with this batch%s", nearest);
}

bool fit_check(const Program *p, const PlanSource *from, const Options *o)
{
    if (o->memory_limit == 0)
        return true;
    if (p->memory->peak <= fit_limit(o))
        return say_free(p, o);
    refuse(p, o);
    if (!from->file)
        return diag_help(p->diag, "compile the PDL file: parc then searches "
                         "for changes that make it fit");
    Search s = {.p = p, .from = from, .o = o,
                .changes = fit_changes(p, from)};
    try_alone(&s, false);
    if (!s.found)
        try_together(&s);
    if (!s.found)
        say_nearest(&s);
    bool here = s.found;
    try_alone(&s, true);
    if (!s.found)
        try_other_together(&s, false);
    if (!s.found)
        try_other_together(&s, true);
    if (!here && !s.found)
        diag_help(p->diag, "larger meshes and smaller batches do not help");
    return false;
}
