/* autoplan.c: finds the flow of a model, and writes a plan block; see autoplan.h. */
#include "autoplan/flow.h"

#include "base/out.h"
#include "ir/options.h"

Flow *autoplan_flow(Arena *a, const Program *p)
{
    Flow *f = NEW(a, Flow);
    f->arena = a;
    f->p = p;
    flow_find_classes(f);
    flow_find_sequence(f);
    return f;
}

int autoplan_classes(const Flow *f)
{
    return f->split.n;
}

const char *autoplan_class_text(const Flow *f, int i)
{
    const SplitClass *c = &f->split.at[i];
    const char *text = "";
    for (int k = 0; k < c->weight.n; k++) {
        const FlowWeight *w = &f->weight.at[c->weight.at[k]];
        bool named = false;
        for (int o = 0; o < k; o++)
            named |= f->weight.at[c->weight.at[o]].param == w->param;
        if (!named)
            text = arena_printf(f->arena, "%s%s%s", text, *text ? ", " : "",
                                w->path ? w->path : f->p->param.at[w->param].name);
    }
    return text;
}

bool autoplan_has_sequence(const Flow *f)
{
    for (int i = 0; i < f->dims.n; i++)
        if (f->sequence[i])
            return true;
    return false;
}

bool autoplan_has_experts(const Flow *f)
{
    return f->experts.n > 0;
}

static bool is_expert_axis(const PlanAxes *axes, ExpertAxes experts, const char *axis)
{
    for (int i = 0; i < axes->ndata; i++)
        if (axis == axes->data[i])
            return experts.data >> i & 1;
    return axis == axes->tensor && experts.tensor;
}

const char *autoplan_expert_axes(const Flow *f, const PlanAxes *axes, ExpertAxes experts)
{
    const char *text = "";
    int n = 0;
    for (int i = 0; i < axes->n; i++)
        if (is_expert_axis(axes, experts, axes->name[i]))
            text = arena_printf(f->arena, "%s%s%s", text, n++ ? ", " : "", axes->name[i]);
    return n > 1 ? arena_printf(f->arena, "(%s)", text) : text;
}

/* ---- the plan block ------------------------------------------------------ */

static void write_styles(Out *o, const Flow *f, const char *axis, const PlanDraft *d)
{
    DraftLines list = flow_style_lines(f, d);
    out(o, "    parallelize %s {\n", axis);
    for (int i = 0; i < list.n; i++)
        out(o, "        %s: %s\n", list.at[i].path, list.at[i].style);
    out(o, "    }\n");
}

static void write_experts(Out *o, const Flow *f, const PlanAxes *axes, const PlanDraft *d)
{
    const char *names = autoplan_expert_axes(f, axes, d->experts);
    if (!*names || f->experts.n == 0)
        return;
    out(o, "    expert_parallel %s {\n", names);
    for (int i = 0; i < f->experts.n; i++) {
        const char *path = f->experts.at[i];
        out(o, "        %s", *path ? path : "model");
        if (d->dispatch != DISPATCH_BY_BYTES)
            out(o, ": %s=%s", option_name(OPTION_dispatch),
                option_word(OPTION_dispatch, d->dispatch));
        out(o, "\n");
    }
    out(o, "    }\n");
}

static void write_units(Out *o, const Flow *f, const PlanAxes *axes, const PlanDraft *d)
{
    UnitTexts list = flow_units(f);
    if (axes->ndata == 1)
        out(o, "    fully_shard %s {\n", axes->data[0]);
    else
        out(o, "    fully_shard (%s, %s) {\n", axes->data[0], axes->data[1]);
    for (int i = 0; i < list.n; i++)
        out(o, d->strategy ? "        %s: %s=%s\n" : "        %s\n", list.at[i],
            option_name(OPTION_strategy), option_word(OPTION_strategy, d->strategy));
    out(o, "    }\n");
}

const char *autoplan_text(const Flow *f, const PlanAxes *axes, const char *name,
                          const PlanDraft *draft)
{
    Out o;
    out_init(&o, f->arena);
    out(&o, "plan %s(", name);
    for (int i = 0; i < axes->n; i++)
        out(&o, "%s%s", i ? ", " : "", axes->name[i]);
    out(&o, ") {\n");
    if (axes->stages)
        out(&o, "    pipeline %s { %s=%s }\n", axes->stages, option_name(OPTION_pipeline_schedule),
            option_word(OPTION_pipeline_schedule, draft->schedule));
    if (axes->tensor)
        write_styles(&o, f, axes->tensor, draft);
    write_experts(&o, f, axes, draft);
    if (axes->ndata)
        write_units(&o, f, axes, draft);
    for (int i = 0; i < MAX_DRAFT_CLAUSES && draft->clause[i]; i++)
        out(&o, "    %s\n", draft->clause[i]);
    out(&o, "}\n");
    return o.text;
}
