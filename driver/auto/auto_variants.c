/* auto_variants.c: lists the candidates of --plan auto; see auto_variants.h. */
#include "driver/auto/auto_variants.h"

#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "ir/options.h"

const char variant_plan_name[] = "auto";

/* ---- files --------------------------------------------------------------- */

const File *variant_file(Arena *a, const File *from, PlanDecl *plan)
{
    File *f = arena_copy(a, from, sizeof *from);
    memset(&f->plan, 0, sizeof f->plan);
    memset(&f->ignored, 0, sizeof f->ignored);
    if (plan)
        vec_push(a, &f->plan, plan);
    return f;
}

const File *variant_file_of_text(Arena *a, Diag *d, const File *from, const char *text)
{
    uint16_t source = diag_source(d, "plan auto", text, strlen(text));
    const File *parsed = pdl_parse(a, d, source);
    if (!parsed) {
        diag_flush(d, stderr);
        bug("an automatic plan has syntax errors");
    }
    return variant_file(a, from, parsed->plan.at[0]);
}

static const File *file_of_own(const AutoPlan *plan, const char *name)
{
    PlanDecl *own = arena_copy(plan->arena, file_find_plan(plan->given, name), sizeof *own);
    own->name.name = variant_plan_name;
    return variant_file(plan->arena, plan->given, own);
}

/* ---- drafts -------------------------------------------------------------- */

PlanDraft variant_base_draft(const AutoPlan *plan)
{
    PlanDraft d = {.sequence = autoplan_has_sequence(plan->flow), .schedule = PIPELINE_1F1B,
                   .dispatch = DISPATCH_BY_BYTES};
    if (!autoplan_has_experts(plan->flow))
        return d;
    if (plan->axes.experts < 0) {
        d.experts.tensor = plan->axes.tensor;
        return d;
    }
    d.experts.data = 1u << plan->axes.experts;
    if (plan->axes.ndata > 1)
        d.strategy = STRATEGY_FULL_SHARD;
    return d;
}

bool variant_same_text(const char *x, const char *y)
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

/* Whether there are axes that split experts, and each has several ranks. */
static bool splits_experts(const Search *s, ExpertAxes e, const char *mesh)
{
    const PlanAxes *axes = &s->plan->axes;
    bool all = (e.data || e.tensor) && (!e.tensor || is_split(s, mesh, axes->tensor));
    for (int i = 0; i < axes->ndata; i++)
        all &= !(e.data >> i & 1) || is_split(s, mesh, axes->data[i]);
    return all;
}

static bool same_experts(ExpertAxes x, ExpertAxes y)
{
    return x.data == y.data && x.tensor == y.tensor;
}

/* "experts over (dp, tp)". */
static const char *experts_name(const Search *s, ExpertAxes e, const char *mesh)
{
    if (!splits_experts(s, e, mesh))
        return "without expert parallelism";
    return arena_printf(s->plan->arena, "experts over %s",
                        autoplan_expert_axes(s->plan->flow, &s->plan->axes, e));
}

/* What the plan does: "tensor and sequence parallelism with FSDP". */
static const char *base_name(const Search *s, const char *mesh)
{
    bool tensor = is_split(s, mesh, s->plan->axes.tensor) && autoplan_classes(s->plan->flow) > 0;
    const char *text = !tensor                                      ? ""
                       : autoplan_has_sequence(s->plan->flow) ? "tensor and sequence parallelism"
                                                              : "tensor parallelism";
    if (is_split(s, mesh, s->plan->axes.stages))
        text = *text ? joined(s->plan->arena, "a pipeline", text) : "a pipeline";
    if (s->plan->axes.ndata)
        text = *text ? arena_printf(s->plan->arena, "%s with FSDP", text) : "FSDP";
    ExpertAxes experts = variant_base_draft(s->plan).experts;
    if (splits_experts(s, experts, mesh))
        text = joined(s->plan->arena, text, experts_name(s, experts, mesh));
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
    const PlanDraft base = variant_base_draft(s->plan);
    Arena *a = s->plan->arena;
    const char *text = "";
    if (is_split(s, mesh, s->plan->axes.tensor) && !d->sequence && autoplan_has_sequence(flow))
        text = joined(a, text, "without sequence parallelism");
    for (int i = 0; i < autoplan_classes(flow); i++)
        if (d->whole >> i & 1)
            text = joined(a, text, arena_printf(a, "without splitting %s",
                                                autoplan_class_text(flow, i)));
    if (!same_experts(d->experts, base.experts))
        text = joined(a, text, experts_name(s, d->experts, mesh));
    if (d->dispatch != base.dispatch)
        text = joined(a, text, word_text(s, OPTION_dispatch, d->dispatch));
    if (d->strategy != base.strategy)
        text = joined(a, text, d->strategy ? word_text(s, OPTION_strategy, d->strategy)
                                           : "the default strategy");
    if (d->schedule != base.schedule)
        text = joined(a, text, word_text(s, OPTION_pipeline_schedule, d->schedule));
    for (int i = 0; i < MAX_DRAFT_CLAUSES && d->clause[i]; i++)
        text = joined(a, text, d->clause[i]);
    text = *text ? text : base_name(s, mesh);
    bool given = variant_same_text(mesh, s->c.from->mesh);
    return given ? text : arena_printf(a, "%s on %s", text, mesh);
}

/* ---- further -D options --------------------------------------------------- */

static bool is_of(const char *text, const char *option, size_t n)
{
    return strncmp(text, option, n) == 0 && text[n] == '=';
}

/* Removes the setting of an option, if there is one. */
static void remove_define(Defines *d, const char *option, size_t n)
{
    int kept = 0;
    for (int i = 0; i < d->n; i++)
        if (!is_of(d->text[i], option, n))
            d->text[kept++] = d->text[i];
    d->n = kept;
}

void variant_add_define(Defines *to, const char *text)
{
    remove_define(to, text, strcspn(text, "="));
    if (to->n == MOST_DEFINES)
        bug("a candidate of --plan auto has more than %d options", MOST_DEFINES);
    int at = to->n++;
    for (; at > 0 && strcmp(to->text[at - 1], text) > 0; at--)
        to->text[at] = to->text[at - 1];
    to->text[at] = text;
}

const char *variant_defines_text(Arena *a, const Defines *d)
{
    const char *text = "";
    for (int i = 0; i < d->n; i++)
        text = arena_printf(a, "%s%s-D %s", text, i ? " " : "", d->text[i]);
    return text;
}

bool variant_has_async_tp(const Search *s, int i)
{
    const char *name = option_name(OPTION_async_tp);
    const Defines *d = &s->c.candidate.at[i].define;
    bool has = false;
    for (int k = 0; k < d->n; k++)
        has |= is_of(d->text[k], name, strlen(name));
    return has;
}

static bool same_defines(const Defines *x, const Defines *y)
{
    bool same = x->n == y->n;
    for (int i = 0; same && i < x->n; i++)
        same = strcmp(x->text[i], y->text[i]) == 0;
    return same;
}

/* ---- candidates ----------------------------------------------------------- */

/* Adds a candidate unless its plan is known for the mesh. */
static void add_candidate(Search *s, Variant v, Candidate t)
{
    for (int i = 0; i < s->variant.n; i++) {
        const Candidate *other = &s->c.candidate.at[i];
        if (variant_same_text(s->variant.at[i].text, v.text) &&
            variant_same_text(other->mesh, t.mesh) &&
            same_defines(&other->define, &t.define))
            return;
    }
    if (s->c.candidate.n >= choice_most(&s->c)) {
        s->c.untried++;
        return;
    }
    vec_push(s->plan->arena, &s->c.candidate, t);
    vec_push(s->plan->arena, &s->variant, v);
}

void variant_add_draft(Search *s, PlanDraft draft, Defines define, const char *mesh)
{
    const AutoPlan *plan = s->plan;
    Variant v = {.draft = draft,
                 .text = autoplan_text(plan->flow, &plan->axes, variant_plan_name, &draft)};
    const char *name = draft_name(s, &draft, mesh);
    if (define.n)
        name = joined(plan->arena, name, variant_defines_text(plan->arena, &define));
    const File *f = variant_file_of_text(plan->arena, plan->diag, plan->given, v.text);
    add_candidate(s, v, (Candidate){.mesh = mesh, .name = name, .file = f, .define = define});
}

void variant_add_own(Search *s)
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

/* Whether candidates on this mesh have experts over these axes, and none of them compiles. */
static bool experts_fail(const Search *s, ExpertAxes e, const char *mesh)
{
    bool tried = false;
    for (int i = 0; i < s->variant.n; i++) {
        const Candidate *t = &s->c.candidate.at[i];
        if (s->variant.at[i].own || !same_experts(s->variant.at[i].draft.experts, e) ||
            !variant_same_text(t->mesh, mesh))
            continue;
        if (!t->error)
            return false;
        tried = true;
    }
    return tried;
}

void variant_add_experts(Search *s, PlanDraft draft, Defines define, const char *mesh)
{
    const PlanAxes *axes = &s->plan->axes;
    const ExpertAxes from = draft.experts;
    draft.dispatch = variant_base_draft(s->plan).dispatch;
    for (int i = 0; autoplan_has_experts(s->plan->flow) && i < 2 << axes->ndata; i++) {
        draft.experts = (ExpertAxes){(uint32_t)i >> 1, i & 1};
        bool none = !draft.experts.data && !draft.experts.tensor;
        if (!same_experts(draft.experts, from) && (none || splits_experts(s, draft.experts, mesh)) &&
            !experts_fail(s, draft.experts, mesh))
            variant_add_draft(s, draft, define, mesh);
    }
}

/* Adds the draft with other ways to bring tokens to experts. */
static void add_dispatch(Search *s, PlanDraft draft, const Candidate *t)
{
    static const Dispatch dispatches[] = {DISPATCH_BY_BYTES, DISPATCH_GATHER,
                                          DISPATCH_ALL_TO_ALL};
    bool exchanged = draft.experts.data && splits_experts(s, draft.experts, t->mesh);
    for (size_t i = 0; exchanged && i < sizeof dispatches / sizeof *dispatches; i++) {
        draft.dispatch = dispatches[i];
        variant_add_draft(s, draft, t->define, t->mesh);
    }
}

/* Adds the draft with another setting of an option; NULL: without one. */
static void add_setting(Search *s, PlanDraft draft, const Candidate *t, OptionName option,
                        const char *setting)
{
    const char *name = option_name(option);
    Defines define = t->define;
    remove_define(&define, name, strlen(name));
    if (setting)
        variant_add_define(&define, setting);
    variant_add_draft(s, draft, define, t->mesh);
}

/* Adds the draft with other choices of `recompute`, unless the user has chosen. */
static void add_recomputation(Search *s, PlanDraft draft, const Candidate *t)
{
    if (s->plan->recompute_given)
        return;
    add_setting(s, draft, t, OPTION_recompute, NULL);
    bool gathers = is_split(s, t->mesh, s->plan->axes.tensor);
    for (int word = gathers ? RECOMPUTE_ELEMENTWISE : RECOMPUTE_FUSED;
         word <= RECOMPUTE_FUSED; word++)
        add_setting(s, draft, t, OPTION_recompute, word_text(s, OPTION_recompute, word));
}

/* Adds the draft with other choices of `async_tp`, unless the user has chosen, or no
 * collective could run beside a matmul. */
static void add_async_tp(Search *s, PlanDraft draft, const Candidate *t)
{
    enum { MOST_PIECES = 4 };
    const PlanAxes *axes = &s->plan->axes;
    if (s->plan->async_tp_given || s->c.from->t->target != TARGET_CUDA ||
        !is_split(s, t->mesh, axes->tensor) || is_split(s, t->mesh, axes->stages))
        return;
    add_setting(s, draft, t, OPTION_async_tp, NULL);
    for (int pieces = 2; pieces <= MOST_PIECES; pieces *= 2)
        add_setting(s, draft, t, OPTION_async_tp,
                    arena_printf(s->plan->arena, "%s=%d", option_name(OPTION_async_tp),
                                 pieces));
}

void variant_add_neighbors(Search *s, int at)
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
        variant_add_draft(s, d, t.define, t.mesh);
        for (int i = 0; i < autoplan_classes(s->plan->flow); i++) {
            d = from;
            d.whole ^= (uint64_t)1 << i;
            variant_add_draft(s, d, t.define, t.mesh);
        }
    }
    variant_add_experts(s, from, t.define, t.mesh);
    add_dispatch(s, from, &t);
    d = from;
    for (size_t i = 0; splits_batch(s, t.mesh) && i < sizeof strategies / sizeof *strategies;
         i++) {
        if (strategies[i] == STRATEGY_FULL_SHARD && s->plan->axes.ndata == 1)
            continue; /* the standard */
        d.strategy = strategies[i];
        variant_add_draft(s, d, t.define, t.mesh);
    }
    d = from;
    bool stages = is_split(s, t.mesh, s->plan->axes.stages);
    for (size_t i = 0; stages && i < sizeof schedules / sizeof *schedules; i++) {
        d.schedule = schedules[i];
        variant_add_draft(s, d, t.define, t.mesh);
    }
    add_recomputation(s, from, &t);
    add_async_tp(s, from, &t);
}
