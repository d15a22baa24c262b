/* auto_plan.c: chooses a plan for --plan auto; see auto_plan.h. */
#include "driver/auto_plan.h"

#include <stdio.h>
#include <string.h>

#include "autoplan/autoplan.h"
#include "base/bug.h"
#include "driver/auto_axes.h"
#include "driver/auto_choice.h"
#include "driver/fit.h"
#include "ir/options.h"

/* A variant of the plan. */
typedef struct Variant {
    PlanDraft draft;
    const char *own;      /* it is this plan of the file; NULL: it is written from the draft */
    const char *text;     /* the plan block */
} Variant;

struct AutoPlan {
    Arena *arena;
    const Options *o;
    Diag *diag;
    const Flow *flow;
    PlanAxes axes;
    const File *given, *file; /* with its own plans, with the plan "auto" */
    bool recompute_given;     /* by the file or by -D */
};

/* The state of one choice. */
typedef struct Search {
    const AutoPlan *plan;
    Choice c;
    VEC(Variant) variant; /* of c.candidate */
} Search;

static const char plan_name[] = "auto";

static bool names_auto(const Options *o)
{
    return o->plan.text && strcmp(o->plan.text, plan_name) == 0;
}

bool auto_requested(const Options *o)
{
    return names_auto(o) || auto_mesh_requested(o);
}

bool auto_plan_requested(const Options *o, const File *f)
{
    return names_auto(o) && !file_find_plan(f, plan_name);
}

/* ---- files --------------------------------------------------------------- */

/* The file with this plan as its only one; NULL: without plans. */
static const File *file_with(Arena *a, const File *from, PlanDecl *plan)
{
    File *f = arena_copy(a, from, sizeof *from);
    memset(&f->plan, 0, sizeof f->plan);
    memset(&f->ignored, 0, sizeof f->ignored);
    if (plan)
        vec_push(a, &f->plan, plan);
    return f;
}

static const File *file_of_text(Arena *a, Diag *d, const File *from, const char *text)
{
    uint16_t source = diag_source(d, "plan auto", text, strlen(text));
    const File *parsed = pdl_parse(a, d, source);
    if (!parsed) {
        diag_flush(d, stderr);
        bug("an automatic plan has syntax errors");
    }
    return file_with(a, from, parsed->plan.at[0]);
}

static const File *file_of_own(const AutoPlan *plan, const char *name)
{
    PlanDecl *own = arena_copy(plan->arena, file_find_plan(plan->given, name), sizeof *own);
    own->name.name = plan_name;
    return file_with(plan->arena, plan->given, own);
}

/* Lowers the model with one rank. */
static Program *lower_file(const PlanSource *from, Arena *a, Diag *d, const File *f)
{
    FrontendOptions options = {.define = from->define,
                               .ndefines = from->ndefines,
                               .units = from->units};
    return lower(a, d, from->prelude, f, &options);
}

/* ---- the plan ------------------------------------------------------------ */

static PlanDraft base_draft(const Flow *flow)
{
    return (PlanDraft){.sequence = autoplan_has_sequence(flow), .schedule = PIPELINE_1F1B};
}

static bool gives_recompute(const PlanSource *from)
{
    const char *name = option_name(OPTION_recompute);
    for (int i = 0; i < from->ndefines; i++)
        if (strcmp(from->define[i]->name.name, name) == 0)
            return true;
    for (int i = 0; i < from->file->setting.n; i++)
        if (strcmp(from->file->setting.at[i].name.name, name) == 0)
            return true;
    return false;
}

AutoPlan *auto_plan_begin(Arena *a, const PlanSource *from, const Options *o, Diag *d)
{
    AutoPlan *plan = NEW(a, AutoPlan);
    *plan = (AutoPlan){.arena = a, .o = o, .diag = d, .given = from->file,
                       .recompute_given = gives_recompute(from)};
    if (!plan_axes_read(a, d, &o->mesh, &plan->axes))
        return NULL;
    const File *bare = file_with(a, from->file, NULL);
    Diag *quiet = diag_quiet(a, d);
    const Program *p = lower_file(from, a, quiet, bare);
    if (!p || diag_error_count(quiet) > 0) {
        lower_file(from, a, d, bare); /* reports the errors */
        return NULL;
    }
    plan->flow = autoplan_flow(a, p);
    PlanDraft draft = base_draft(plan->flow);
    plan->file = file_of_text(a, d, from->file, autoplan_text(plan->flow, &plan->axes,
                                                              plan_name, &draft));
    return plan;
}

const File *auto_plan_file(const AutoPlan *plan)
{
    return plan->file;
}

/* ---- variants ------------------------------------------------------------ */

static bool same_text(const char *x, const char *y)
{
    return strcmp(x ? x : "", y ? y : "") == 0;
}

static const char *joined(Arena *a, const char *text, const char *more)
{
    return arena_printf(a, "%s%s%s", text, *text ? ", " : "", more);
}

static bool is_split(const Search *s, const char *mesh, const char *axis)
{
    return axis && plan_axis_size(&s->plan->axes, mesh, axis) > 1;
}

static bool splits_batch(const Search *s, const char *mesh)
{
    bool any = false;
    for (int i = 0; i < s->plan->axes.ndata; i++)
        any |= is_split(s, mesh, s->plan->axes.data[i]);
    return any;
}

/* What the plan does: "tensor and sequence parallelism with FSDP". */
static const char *base_name(const Search *s, const char *mesh)
{
    bool tensor = is_split(s, mesh, s->plan->axes.tensor) && autoplan_classes(s->plan->flow) > 0;
    const char *text = !tensor                                      ? ""
                       : autoplan_has_sequence(s->plan->flow) ? "tensor and sequence parallelism"
                                                              : "tensor parallelism";
    if (is_split(s, mesh, s->plan->axes.stages))
        text = joined(s->plan->arena, "a pipeline", text);
    if (s->plan->axes.ndata)
        text = *text ? arena_printf(s->plan->arena, "%s with FSDP", text) : "FSDP";
    return text;
}

static const char *word_text(const Search *s, OptionName option, int word)
{
    return arena_printf(s->plan->arena, "%s=%s", option_name(option),
                        option_word(option, word));
}

/* What is special in a draft: "without sequence parallelism, strategy=shard_grad_op". */
static const char *draft_name(const Search *s, const PlanDraft *d, const char *mesh)
{
    const Flow *flow = s->plan->flow;
    Arena *a = s->plan->arena;
    const char *text = "";
    if (is_split(s, mesh, s->plan->axes.tensor) && !d->sequence && autoplan_has_sequence(flow))
        text = joined(a, text, "without sequence parallelism");
    for (int i = 0; i < autoplan_classes(flow); i++)
        if (d->whole >> i & 1)
            text = joined(a, text, arena_printf(a, "without splitting %s",
                                                autoplan_class_text(flow, i)));
    if (d->strategy)
        text = joined(a, text, word_text(s, OPTION_strategy, d->strategy));
    if (d->schedule != base_draft(flow).schedule)
        text = joined(a, text, word_text(s, OPTION_pipeline_schedule, d->schedule));
    for (int i = 0; i < MAX_DRAFT_CLAUSES && d->clause[i]; i++)
        text = joined(a, text, d->clause[i]);
    text = *text ? text : base_name(s, mesh);
    return same_text(mesh, s->c.from->mesh) ? text : arena_printf(a, "%s on %s", text, mesh);
}

/* Adds a candidate unless its plan is known for the mesh. */
static void add_candidate(Search *s, Variant v, Candidate t)
{
    for (int i = 0; i < s->variant.n; i++) {
        const Candidate *other = &s->c.candidate.at[i];
        if (same_text(s->variant.at[i].text, v.text) && same_text(other->mesh, t.mesh) &&
            same_text(other->define, t.define))
            return;
    }
    if (s->c.candidate.n >= choice_most(&s->c)) {
        s->c.untried++;
        return;
    }
    vec_push(s->plan->arena, &s->c.candidate, t);
    vec_push(s->plan->arena, &s->variant, v);
}

static void add_draft(Search *s, PlanDraft draft, const char *define, const char *mesh)
{
    const AutoPlan *plan = s->plan;
    Variant v = {.draft = draft,
                 .text = autoplan_text(plan->flow, &plan->axes, plan_name, &draft)};
    const char *name = draft_name(s, &draft, mesh);
    if (define)
        name = joined(plan->arena, name, arena_printf(plan->arena, "-D %s", define));
    const File *f = file_of_text(plan->arena, plan->diag, plan->given, v.text);
    add_candidate(s, v, (Candidate){.mesh = mesh, .name = name, .file = f, .define = define});
}

/* Adds the plans of the file that have the same axes. */
static void add_own(Search *s)
{
    const File *f = s->plan->given;
    for (int i = 0; i < f->plan.n; i++) {
        const PlanDecl *own = f->plan.at[i];
        const char *name = own->name.name;
        if (!plan_axes_equal(&s->plan->axes, own))
            continue;
        Variant v = {.own = name, .text = name};
        Candidate t = {.mesh = s->c.from->mesh, .file = file_of_own(s->plan, name)};
        t.name = arena_printf(s->plan->arena, "the file's plan %s", name);
        add_candidate(s, v, t);
    }
}

/* Adds the draft with other choices of `recompute`, unless the user has chosen, or the
 * candidate has a setting for less memory. */
static void add_recomputation(Search *s, PlanDraft draft, const Candidate *t)
{
    const char *name = option_name(OPTION_recompute);
    bool ours = t->define && strncmp(t->define, name, strlen(name)) == 0;
    if (s->plan->recompute_given || (t->define && !ours))
        return;
    add_draft(s, draft, NULL, t->mesh);
    bool gathers = is_split(s, t->mesh, s->plan->axes.tensor);
    for (int word = gathers ? RECOMPUTE_ELEMENTWISE : RECOMPUTE_FUSED;
         word <= RECOMPUTE_FUSED; word++)
        add_draft(s, draft, word_text(s, OPTION_recompute, word), t->mesh);
}

/* Adds the drafts that differ from candidate `at` in one respect. */
static void add_neighbors(Search *s, int at)
{
    static const Strategy strategies[] = {STRATEGY_NONE, STRATEGY_FULL_SHARD,
                                          STRATEGY_SHARD_GRAD_OP, STRATEGY_NO_SHARD};
    static const PipelineSchedule schedules[] = {PIPELINE_1F1B, PIPELINE_GPIPE,
                                                 PIPELINE_INTERLEAVED, PIPELINE_ZERO_BUBBLE};
    const PlanDraft from = s->variant.at[at].draft; /* the lists may move */
    const Candidate t = s->c.candidate.at[at];
    PlanDraft d = from;
    if (is_split(s, t.mesh, s->plan->axes.tensor)) {
        d.sequence = !from.sequence && autoplan_has_sequence(s->plan->flow);
        add_draft(s, d, t.define, t.mesh);
        for (int i = 0; i < autoplan_classes(s->plan->flow); i++) {
            d = from;
            d.whole ^= (uint64_t)1 << i;
            add_draft(s, d, t.define, t.mesh);
        }
    }
    d = from;
    for (size_t i = 0; splits_batch(s, t.mesh) && i < sizeof strategies / sizeof *strategies;
         i++) {
        if (strategies[i] == STRATEGY_FULL_SHARD && s->plan->axes.ndata == 1)
            continue; /* the standard */
        d.strategy = strategies[i];
        add_draft(s, d, t.define, t.mesh);
    }
    d = from;
    bool stages = is_split(s, t.mesh, s->plan->axes.stages);
    for (size_t i = 0; stages && i < sizeof schedules / sizeof *schedules; i++) {
        d.schedule = schedules[i];
        add_draft(s, d, t.define, t.mesh);
    }
    add_recomputation(s, from, &t);
}

/* ---- the search ---------------------------------------------------------- */

/* A draft replaces the best one so far only if it is faster by more than this part: less is
 * no reason to leave the common plan. */
static const double least_gain = 0.01;
/* The same plan with another `recompute` is as common. */
static const double least_recompute_gain = 0.005;

/* The part of the time by which candidate i has to be faster than the best one so far. */
static double gain_needed(const Search *s, int i, int best)
{
    if (best < 0 || s->variant.at[i].own)
        return 0;
    return same_text(s->variant.at[i].text, s->variant.at[best].text) ? least_recompute_gain
                                                                       : least_gain;
}

/* The variant that is chosen of those compiled so far; -1: none fits. */
static int best_of(const Search *s)
{
    int best = -1;
    for (int i = 0; i < s->c.candidate.n; i++) {
        const CandidateTime *t = &s->c.candidate.at[i].time;
        if (t->timed && (best < 0 || t->seconds < s->c.candidate.at[best].time.seconds *
                                                      (1 - gain_needed(s, i, best))))
            best = i;
    }
    return best;
}

/* What a draft leaves out, for a choice without --machine. */
static int left_out(const Variant *v)
{
    int n = v->own ? MAX_SPLIT_CLASSES + 2 : !v->draft.sequence;
    for (uint64_t whole = v->draft.whole; whole; whole &= whole - 1)
        n++;
    return n;
}

static void compile_only(const Choice *c, Candidate *t)
{
    choice_compile(c, t, true);
    t->time.timed = choice_fits(c, t);
}

/* Compiles the candidates from `first` on, and forecasts their steps. */
static void time_from(Search *s, int first)
{
    bool timed = s->c.from->t->machine;
    if (first < s->c.candidate.n)
        choice_time_all(&s->c, first, s->c.candidate.n, timed ? choice_time : compile_only);
    for (int i = first; !timed && i < s->c.candidate.n; i++)
        s->c.candidate.at[i].time.seconds = 1 + left_out(&s->variant.at[i]);
}

/* Whether the draft compiles; -1: no, else its index. */
static int try_draft(Search *s, PlanDraft draft)
{
    int first = s->c.candidate.n;
    add_draft(s, draft, NULL, s->c.from->mesh);
    time_from(s, first);
    return first < s->c.candidate.n && !s->c.candidate.at[first].error ? first : -1;
}

/* Finds a draft that compiles if the base draft does not: splits one class after the other,
 * as far as they compile, then the sequence. Returns its index; -1: none does. */
static int search_splits(Search *s)
{
    PlanDraft draft = base_draft(s->plan->flow);
    int n = autoplan_classes(s->plan->flow);
    draft.whole = n < MAX_SPLIT_CLASSES ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
    draft.sequence = false;
    int found = try_draft(s, draft);
    for (int i = 0; found >= 0 && i <= n; i++) {
        PlanDraft more = draft;
        if (i < n)
            more.whole &= ~((uint64_t)1 << i);
        else
            more.sequence = autoplan_has_sequence(s->plan->flow);
        int at = try_draft(s, more);
        draft = at >= 0 ? more : draft;
        found = at >= 0 ? at : found;
    }
    return found;
}

/* Varies the best plan until no variant is faster. */
static int search_variants(Search *s)
{
    int best = best_of(s), before = -1;
    while (s->c.from->t->machine && best >= 0 && best != before && !s->variant.at[best].own) {
        int first = s->c.candidate.n;
        before = best;
        add_neighbors(s, best);
        time_from(s, first);
        best = best_of(s);
    }
    return best;
}

/* Tries the best plan on other meshes, and varies it there if one is faster. */
static int search_meshes(Search *s, int best, const OtherMeshes *others)
{
    if (best < 0 || s->variant.at[best].own)
        return best;
    int first = s->c.candidate.n;
    PlanDraft draft = s->variant.at[best].draft;
    for (int i = 0; i < others->n; i++)
        add_draft(s, draft, s->c.candidate.at[best].define, others->mesh[i]);
    time_from(s, first);
    return search_variants(s);
}

/* Of the variants that compile, the one that needs the least memory; -1: none compiles. */
static int smallest(const Search *s)
{
    int least = -1;
    for (int i = 0; i < s->c.candidate.n; i++) {
        const Candidate *t = &s->c.candidate.at[i];
        if (!t->error && !s->variant.at[i].own &&
            (least < 0 || t->peak < s->c.candidate.at[least].peak))
            least = i;
    }
    return least;
}

/* Adds a draft with one or two changes that need less memory. */
static void add_change(Search *s, PlanDraft draft, const FitChange *change,
                       const FitChange *other)
{
    int n = 0;
    if (change->clause)
        draft.clause[n++] = change->clause;
    if (other && other->clause)
        draft.clause[n++] = other->clause;
    add_draft(s, draft, change->define ? change->define : other ? other->define : NULL,
              s->c.from->mesh);
}

/* Tries changes that need less memory, alone and then in pairs: of each family the change
 * that needs the least. */
static int search_memory(Search *s)
{
    int least = smallest(s);
    Program *p = least < 0 ? NULL : choice_compile(&s->c, &s->c.candidate.at[least], true);
    if (!p)
        return -1;
    const PlanDraft draft = s->variant.at[least].draft;
    FitChanges all = fit_changes(p, s->c.from);
    int *at = NEW_ARRAY(s->plan->arena, int, all.n + 1), first = s->c.candidate.n;
    for (int i = 0; i < all.n; i++) {
        at[i] = s->c.candidate.n;
        if (!all.at[i].other_run && !all.at[i].full_shard)
            add_change(s, draft, &all.at[i], NULL);
        at[i] = at[i] < s->c.candidate.n ? at[i] : -1; /* not tried */
    }
    time_from(s, first);
    const FitChange *best[MAX_FAMILIES] = {NULL};
    int64_t peak[MAX_FAMILIES];
    for (int i = 0; i < all.n; i++) {
        const Candidate *t = at[i] < 0 ? NULL : &s->c.candidate.at[at[i]];
        int k = all.at[i].family;
        if (t && !t->error && (!best[k] || t->peak < peak[k])) {
            best[k] = &all.at[i];
            peak[k] = t->peak;
        }
    }
    first = s->c.candidate.n;
    for (int i = 0; best_of(s) < 0 && i < MAX_FAMILIES; i++)
        for (int k = 0; k < i; k++)
            if (best[i] && best[k] && !(best[i]->define && best[k]->define))
                add_change(s, draft, best[k], best[i]);
    time_from(s, first);
    return search_variants(s);
}

/* The best of those that fit with the forward programs too; -1: none does. */
static int best_with_forward(Search *s)
{
    int best = best_of(s);
    while (best >= 0 && s->c.from->t->machine &&
           !choice_fits_forward(&s->c, &s->c.candidate.at[best]))
        best = best_of(s);
    return best;
}

/* ---- reports ------------------------------------------------------------- */

static bool refuse(Search *s)
{
    const Choice *c = &s->c;
    int least = smallest(s);
    diag_error(c->d, c->o->plan.loc, "no automatic plan %s",
               least < 0 ? "compiles" : "fits the memory");
    if (least >= 0) {
        const Candidate *t = &c->candidate.at[least];
        diag_note(c->d, (Loc){0}, "nearest: %s: a rank needs %s, %s more than it may use",
                  t->name, bytes_text(c->a, t->peak),
                  bytes_text(c->a, t->peak - fit_limit(c->o)));
        return diag_help(c->d, "use more ranks, or a smaller batch");
    }
    diag_note(c->d, (Loc){0}, "%s: %s", c->candidate.at[0].name, c->candidate.at[0].error);
    return false;
}

static void report(const Search *s, const Candidate *best)
{
    const Choice *c = &s->c;
    if (c->from->t->machine)
        choice_report_times(c, best, c->candidate.n);
    else
        diag_note(c->d, (Loc){0}, "%s is %s; a rank needs %s; with --machine the plan is "
                  "chosen by time", c->option, best->name, bytes_text(c->a, best->peak));
    if (best->define)
        diag_note(c->d, (Loc){0}, "the plan is for -D %s, which applies", best->define);
}

bool auto_plan_choose(const AutoPlan *plan, const Program *p, PlanSource *from,
                      const OtherMeshes *others)
{
    PlanSource source = *from;
    Search s = {.plan = plan,
                .c = {.p = p, .from = &source, .o = plan->o, .d = plan->diag,
                      .a = plan->arena, .option = "--plan auto", .things = "plans"}};
    add_draft(&s, base_draft(plan->flow), NULL, from->mesh);
    add_own(&s);
    time_from(&s, 0);
    if (s.c.candidate.at[0].error)
        search_splits(&s);
    search_meshes(&s, search_variants(&s), others);
    int best = best_with_forward(&s);
    if (best < 0 && search_memory(&s) >= 0)
        best = best_with_forward(&s);
    if (best < 0)
        return refuse(&s);
    const Candidate *t = &s.c.candidate.at[best];
    report(&s, t);
    from->file = t->file;
    from->mesh = t->mesh;
    if (t->define)
        choice_define(&s.c, t, from);
    return true;
}
