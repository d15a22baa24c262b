/* plan.c: prints and parses the plan, which is in the header of a program.
 *
 *   plan "tp_fsdp" axes={tp}
 *     style ColwiseParallel "layers.*.attention.wq" axis=tp in(R -> R) …
 *     unit axis=dp paths("norm", "output") reshard=-1 prefetch=-1
 *     checkpoint paths("layers.*") every=2 keep=attention
 *     offload optimizer
 *     pipeline axis=pp schedule=1f1b stages_per_rank=1
 *     stage_of paths("embedding", "layers.0-15")        for each stage
 *     context axis=cp exchange=heads
 *     expert_parallel axis=ep paths("layers.*.moe") dispatch=gather
 */
#include "ir/plan/styles.h"
#include "ir/text/text.h"

void text_plan(Text *t)
{
    PlanSpec *plan = &t->p->plan;
    text_begin(t, "plan");
    text_field(t, " ", &plan->name);
    text_field(t, " axes=", &plan->tensor_axes);
    text_end(t, &plan->loc);
}

static uint32_t text_one_axis(Text *t, uint32_t axes)
{
    return 1u << text_axis(t, " axis=", axes ? __builtin_ctz(axes) : 0);
}

/* ---- styles -------------------------------------------------------------- */

static void text_layout(Text *t, Layout *l)
{
    static const char *const words[] = {"none", "R", "S", "P", NULL};
    l->kind = (LayoutKind)text_choice(t, "", (int)l->kind, words, "a layout");
    if (l->kind != LAYOUT_SHARD)
        return;
    int64_t dim = l->dim;
    text_form(t, "(");
    Loc loc = t->tok.loc;
    text_field(t, "", &dim);
    if (dim < -MAX_DIMS || dim >= MAX_DIMS)
        parse_fail(t, loc, "no such dim");
    l->dim = (int)dim;
    text_form(t, ")");
}

/* "in(R -> R, none -> S(-1))" */
static void text_layouts(Text *t, const char *form, int *n, Layout *from,
                         Layout *to)
{
    int i = 0;
    text_form(t, form);
    if (text_given(t, *n == 0, ")"))
        return;
    do {
        if (i == MAX_PORTS) {
            parse_fail(t, t->tok.loc, "more than %d layouts", MAX_PORTS);
            return;
        }
        text_layout(t, &from[i]);
        text_form(t, " -> ");
        text_layout(t, &to[i]);
    } while (text_given(t, ++i < *n, ", "));
    text_form(t, ")");
    *n = i;
}

static void text_style(Text *t, Style *s)
{
    const char *words[STYLE_KINDS + 1] = {NULL};
    for (int k = 0; k < STYLE_KINDS; k++)
        words[k] = style_name((StyleKind)k);
    s->kind = (StyleKind)text_choice(t, " ", (int)s->kind, words, "a style");
    text_field(t, " ", &s->path);
    s->axis = text_axis(t, " axis=", s->axis);
    text_flag(t, " whole", &s->whole);
    text_layouts(t, " in(", &s->nin, s->in_from, s->in_to);
    text_layouts(t, " out(", &s->nout, s->out_from, s->out_to);
    text_end(t, &s->loc);
}

void text_styles(Text *t)
{
    PlanSpec *plan = &t->p->plan;
    text_lines(t, "  style", plan->style, plan->nstyles, Style, text_style,
               array_push(t->arena, plan->style, plan->nstyles, x));
}

/* ---- units --------------------------------------------------------------- */

/* "axis=dp", or "axes={pp, dp}" for several. */
static void text_unit_axes(Text *t, uint32_t *axes)
{
    bool several = *axes & (*axes - 1);
    if (text_given(t, several, " axes="))
        text_field(t, "", axes);
    else
        *axes = text_one_axis(t, *axes);
}

static void text_unit(Text *t, Unit *u)
{
    const char *const words[] = {"paths", "class",
                                 option_name(OPTION_min_params), NULL};
    text_unit_axes(t, &u->axes);
    if (!t->out)
        u->replicate_axis = -1;
    if (text_given(t, u->replicate_axis >= 0, " replicate="))
        u->replicate_axis = text_axis(t, "", u->replicate_axis);
    u->kind = (UnitKind)text_choice(t, " ", (int)u->kind, words,
                                    "what the unit holds");
    if (u->kind == UNIT_PATHS)
        u->npaths = text_strings(t, "", u->npaths, &u->path);
    else if (u->kind == UNIT_EVERY)
        text_field(t, "=", &u->class);
    else
        text_field(t, "=", &u->min_params);
    text_options(t, SCOPE_FULLY_SHARD, u);
    text_end(t, &u->loc);
}

void text_units(Text *t)
{
    PlanSpec *plan = &t->p->plan;
    text_lines(t, "  unit", plan->unit, plan->nunits, Unit, text_unit,
               array_push(t->arena, plan->unit, plan->nunits, x));
}

/* ---- checkpoints, offloading --------------------------------------------- */

static void text_checkpoint(Text *t, Checkpoint *c)
{
    if (text_given(t, c->class, " class="))
        text_field(t, "", &c->class);
    else
        c->npaths = text_strings(t, " paths", c->npaths, &c->path);
    text_options(t, SCOPE_CHECKPOINT, c);
    text_end(t, &c->loc);
}

void text_checkpoints(Text *t)
{
    PlanSpec *plan = &t->p->plan;
    const char *form = arena_printf(t->arena, "  %s",
                                    clause_name(CL_CHECKPOINT));
    text_lines(t, form, plan->checkpoint, plan->ncheckpoints, Checkpoint,
               text_checkpoint,
               array_push(t->arena, plan->checkpoint, plan->ncheckpoints, x));
}

void text_offload(Text *t)
{
    PlanSpec *plan = &t->p->plan;
    const char *words[MAX_OFFLOADS + 1] = {NULL};
    uint32_t rest = plan->offload;
    if (t->out && !rest)
        return;
    for (int k = 0; k < MAX_OFFLOADS; k++)
        words[k] = option_word(OPTION_offload, k);
    text_begin(t, arena_printf(t->arena, "  %s", clause_name(CL_OFFLOAD)));
    do {
        int next = rest ? __builtin_ctz(rest) : 0;
        plan->offload |= 1u << text_choice(t, " ", next, words,
                                           "what is offloaded");
        rest &= rest - 1;
    } while (t->out ? rest != 0 : t->tok.kind == TK_WORD && !t->tok.first);
    text_end(t, &plan->offload_loc);
}

/* ---- the pipeline -------------------------------------------------------- */

void text_pipeline(Text *t)
{
    Pipeline *p = &t->p->plan.pipeline;
    if (t->out && !p->axes)
        return;
    text_begin(t, arena_printf(t->arena, "  %s", clause_name(CL_PIPELINE)));
    p->axes = text_one_axis(t, p->axes);
    text_options(t, SCOPE_PIPELINE, p);
    text_end(t, &p->loc);
}

static void text_stage(Text *t, StagePaths *s)
{
    s->npaths = text_strings(t, " paths", s->npaths, &s->path);
    text_end(t, &s->loc);
}

void text_stages(Text *t)
{
    Pipeline *p = &t->p->plan.pipeline;
    if (p->nsplit == MAX_STAGES)
        parse_fail(t, t->tok.loc, "more than %d stages", MAX_STAGES);
    text_lines(t, "  stage_of", p->split, p->nsplit, StagePaths, text_stage,
               array_push(t->arena, p->split, p->nsplit, x));
}

/* ---- experts ------------------------------------------------------------- */

static void text_expert_item(Text *t, ExpertItem *x)
{
    text_unit_axes(t, &t->p->plan.experts.axes);
    x->npaths = text_strings(t, " paths", x->npaths, &x->path);
    text_options(t, SCOPE_EXPERTS, x);
    text_end(t, &x->loc);
}

void text_experts(Text *t)
{
    Experts *all = &t->p->plan.experts;
    const char *form = arena_printf(t->arena, "  %s", clause_name(CL_EXPERT_PARALLEL));
    text_lines(t, form, all->item, all->nitems, ExpertItem, text_expert_item,
               array_push(t->arena, all->item, all->nitems, x));
}

/* ---- the context --------------------------------------------------------- */

void text_context(Text *t)
{
    Context *c = &t->p->plan.context;
    if (t->out && !c->axes)
        return;
    text_begin(t, arena_printf(t->arena, "  %s", clause_name(CL_CONTEXT)));
    c->axes = text_one_axis(t, c->axes);
    text_field_if(t, c->chosen != NULL, " chosen=", &c->chosen);
    text_options(t, SCOPE_CONTEXT, c);
    text_end(t, &c->loc);
}
