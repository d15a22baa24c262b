/* auto_plan.c: chooses a plan for --plan auto; see auto_plan.h. */
#include "driver/auto/auto_variants.h"

#include <string.h>

#include "driver/auto/fit.h"
#include "ir/options.h"

static bool names_auto(const Options *o)
{
    return o->plan.text && strcmp(o->plan.text, variant_plan_name) == 0;
}

bool auto_check_search(Diag *d, const Options *o)
{
    if (!o->search || (o->machine.text && (names_auto(o) || auto_mesh_requested(o))))
        return true;
    diag_error(d, o->search_arg.loc, "--search has no effect without --machine and --mesh auto "
                                     "or --plan auto");
    return false;
}

bool auto_plan_requested(const Options *o, const File *f)
{
    return names_auto(o) && !file_find_plan(f, variant_plan_name);
}

/* Lowers the model with one rank. */
static Program *lower_file(const PlanSource *from, Arena *a, Diag *d, const File *f)
{
    FrontendOptions options = {.define = from->define,
                               .ndefines = from->ndefines,
                               .defaults = from->defaults};
    return lower(a, d, from->prelude, f, &options);
}

/* ---- the plan ------------------------------------------------------------ */

/* Whether the file or -D sets an option. */
static bool gives(const PlanSource *from, OptionName option)
{
    const char *name = option_name(option);
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
                       .recompute_given = gives(from, OPTION_recompute),
                       .async_tp_given = gives(from, OPTION_async_tp)};
    if (!plan_axes_read(a, d, &o->mesh, &plan->axes))
        return NULL;
    const File *bare = variant_file(a, from->file, NULL);
    Diag *quiet = diag_quiet(a, d);
    const Program *p = lower_file(from, a, quiet, bare);
    if (!p || diag_error_count(quiet) > 0) {
        lower_file(from, a, d, bare); /* reports the errors */
        return NULL;
    }
    plan->flow = autoplan_flow(a, p);
    return plan;
}

const File *auto_plan_file(const AutoPlan *plan, bool experts)
{
    PlanDraft draft = variant_base_draft(plan);
    if (!experts)
        draft.experts = (ExpertAxes){0};
    const char *text = autoplan_text(plan->flow, &plan->axes, variant_plan_name, &draft);
    return variant_file_of_text(plan->arena, plan->diag, plan->given, text);
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
    bool same = variant_same_text(s->variant.at[i].text, s->variant.at[best].text) &&
                variant_has_async_tp(s, i) == variant_has_async_tp(s, best);
    return same ? least_recompute_gain : least_gain;
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

/* Whether a plan that parc wrote fits. */
static bool draft_fits(const Search *s)
{
    for (int i = 0; i < s->c.candidate.n; i++)
        if (s->c.candidate.at[i].time.timed && !s->variant.at[i].own)
            return true;
    return false;
}

static bool names_expert_axes(const PlanDraft *d)
{
    return d->experts.data || d->experts.tensor;
}

/* What a draft leaves out, for a choice without --machine. */
static int left_out(const Search *s, const Variant *v)
{
    const PlanDraft base = variant_base_draft(s->plan);
    int n = v->own ? MAX_SPLIT_CLASSES + 2
                   : !v->draft.sequence + (names_expert_axes(&v->draft) != names_expert_axes(&base));
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
        s->c.candidate.at[i].time.seconds = 1 + left_out(s, &s->variant.at[i]);
}

/* Whether the draft compiles; -1: no, else its index. */
static int try_draft(Search *s, PlanDraft draft)
{
    int first = s->c.candidate.n;
    variant_add_draft(s, draft, (Defines){.n = 0}, s->c.from->mesh);
    time_from(s, first);
    return first < s->c.candidate.n && !s->c.candidate.at[first].error ? first : -1;
}

/* Finds a draft that compiles if the base draft does not: splits one class after the other,
 * as far as they compile, then the sequence, then experts. Returns its index; -1: none does. */
static int search_splits(Search *s)
{
    const PlanDraft base = variant_base_draft(s->plan);
    PlanDraft draft = base;
    int n = autoplan_classes(s->plan->flow);
    draft.whole = n < MAX_SPLIT_CLASSES ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
    draft.sequence = false;
    draft.experts = (ExpertAxes){0};
    int found = try_draft(s, draft);
    for (int i = 0; found >= 0 && i <= n + names_expert_axes(&base); i++) {
        PlanDraft more = draft;
        if (i < n)
            more.whole &= ~((uint64_t)1 << i);
        else if (i == n)
            more.sequence = base.sequence;
        else
            more.experts = base.experts;
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
        variant_add_neighbors(s, best);
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
        variant_add_draft(s, draft, s->c.candidate.at[best].define, others->mesh[i]);
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
static void add_changes(Search *s, PlanDraft draft, const FitChange *const *change, int n)
{
    Defines define = {.n = 0};
    int clauses = 0;
    for (int i = 0; i < n; i++) {
        if (change[i]->clause)
            draft.clause[clauses++] = change[i]->clause;
        if (change[i]->define)
            variant_add_define(&define, change[i]->define);
    }
    variant_add_draft(s, draft, define, s->c.from->mesh);
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
            add_changes(s, draft, &(const FitChange *){&all.at[i]}, 1);
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
    for (int i = 0; !draft_fits(s) && i < MAX_FAMILIES; i++)
        for (int k = 0; k < i; k++)
            if (best[i] && best[k])
                add_changes(s, draft, (const FitChange *[]){best[k], best[i]}, 2);
    time_from(s, first);
    return search_variants(s);
}

/* The best of those that fit with the side programs too; -1: none does. */
static int best_with_sides(Search *s)
{
    int best = best_of(s);
    while (best >= 0 && s->c.from->t->machine &&
           !choice_fits_sides(&s->c, &s->c.candidate.at[best]))
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
    if (best->define.n)
        diag_note(c->d, (Loc){0}, "the plan is for %s, which appl%s",
                  variant_defines_text(c->a, &best->define), best->define.n > 1 ? "y" : "ies");
}

bool auto_plan_choose(const AutoPlan *plan, const Program *p, PlanSource *from,
                      const OtherMeshes *others)
{
    PlanSource source = *from;
    Search s = {.plan = plan,
                .c = {.p = p, .from = &source, .o = plan->o, .d = plan->diag,
                      .a = plan->arena, .option = "--plan auto", .things = "plans"}};
    const PlanDraft base = variant_base_draft(plan);
    variant_add_draft(&s, base, (Defines){.n = 0}, from->mesh);
    variant_add_own(&s);
    variant_add_experts(&s, base, (Defines){.n = 0}, from->mesh);
    time_from(&s, 0);
    if (s.c.candidate.at[0].error)
        search_splits(&s);
    search_meshes(&s, search_variants(&s), others);
    int best = best_with_sides(&s);
    /* No plan that parc wrote fits: by time one of them may still be better than the file's. */
    if (best < 0 || (from->t->machine && !draft_fits(&s))) {
        search_meshes(&s, search_memory(&s), others);
        best = best_with_sides(&s);
    }
    if (best < 0)
        return refuse(&s);
    const Candidate *t = &s.c.candidate.at[best];
    report(&s, t);
    from->file = t->file;
    from->mesh = t->mesh;
    choice_define(&s.c, t, from);
    return true;
}
