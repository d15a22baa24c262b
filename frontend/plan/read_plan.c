/* read_plan.c: reads the clauses of a plan as far as they need no modules: axes,
 * styles and options.
 *
 * before   fully_shard dp { layers.*: prefetch=2 }
 * after    Lower.planned: the item, with a Unit that has prefetch 2
 *
 * The files lower_*.c then resolve the items of the selected plan against the
 * modules of the model. Of the other plans only the paths are checked, and their
 * errors are warnings.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/plan/plan.h"

bool plan_splits_context(const Lower *l, const Ident *axis)
{
    return l->context && strcmp(l->context->axis[0].name, axis->name) == 0;
}

/* ---- units ---------------------------------------------------------------- */

/* FSDP's name of a strategy implies what the axes and the other options also
 * state. An option that contradicts the strategy is an error:
 *
 *   full_shard     one axis, or two that shard together; parameters are
 *                  re-gathered for the backward pass, except for the last unit
 *                  if reshard is not given
 *   shard_grad_op  one axis, or two that shard together; reshard=false
 *   hybrid_shard   (replicate, shard); reshard=true or false
 *   no_shard       any axes; nothing is gathered
 */
static void check_hybrid_axes(Lower *l, const Clause *c, const Expr *at)
{
    int n = 0;
    for (int i = 0; i < c->naxes; i++)
        n += !plan_splits_context(l, &c->axis[i]);
    if (n == 2)
        return;
    const char *axis = c->axis[0].name;
    const char *rep = strcmp(axis, "rep") == 0 ? "replica" : "rep";
    diag_error(l->diag, at->range, "hybrid_shard needs two axes: one for "
               "replicas, one for shards");
    diag_help(l->diag, "write fully_shard (%s, %s) with an axis '%s' of the "
              "plan before '%s', or strategy=full_shard", rep, axis, rep,
              axis);
}

static void check_reshard(Lower *l, const Unit *u, const Arg *reshard)
{
    if (u->strategy == STRATEGY_NO_SHARD && u->reshard) {
        diag_error(l->diag, reshard->name_loc, "no_shard does not shard "
                   "parameters: remove '%s'", reshard->name);
    } else if (u->strategy == STRATEGY_SHARD_GRAD_OP && u->reshard) {
        diag_error(l->diag, reshard->name_loc, "shard_grad_op keeps parameters "
                   "gathered until the backward pass");
        diag_help(l->diag, "with strategy=full_shard they are re-gathered");
    } else if (u->strategy == STRATEGY_FULL_SHARD && !u->reshard) {
        diag_error(l->diag, reshard->name_loc,
                   "full_shard re-gathers parameters for the backward pass");
        diag_help(l->diag, "write strategy=shard_grad_op, which keeps them, or "
                  "omit the strategy");
    }
}

/* In a plan with a pipeline, a unit that does not say how often it is gathered
 * or reduced. */
static void set_often(const Lower *l, Unit *u, const Arg *gather,
                      const Arg *reduce)
{
    if (!l->pipelined || u->strategy == STRATEGY_NO_SHARD)
        return;
    if (!reduce)
        u->reduce = l->options->defaults.reduce;
    if (!gather && u->reshard <= 0 && u->strategy != STRATEGY_FULL_SHARD)
        u->gather = l->options->defaults.gather;
}

/* A unit that is gathered once a step stays gathered. */
static void check_often(Lower *l, Unit *u, const Arg *gather, const Arg *reduce)
{
    const Arg *first = gather ? gather : reduce;
    if (first && u->strategy == STRATEGY_NO_SHARD)
        diag_error(l->diag, first->name_loc, "no_shard does not shard "
                   "parameters: remove '%s'", first->name);
    else if (u->gather == PER_STEP && (u->reshard > 0 ||
                                       u->strategy == STRATEGY_FULL_SHARD))
        diag_error(l->diag, gather->name_loc, "a unit that is gathered once a "
                   "step is not re-gathered for the backward pass: remove "
                   "'%s'", option_name(u->reshard > 0 ? OPTION_reshard
                                                      : OPTION_strategy));
    else if (u->gather == PER_STEP)
        u->reshard = 0;
}

static void read_unit(Lower *l, const Clause *clause, const Item *item, Unit *u)
{
    GivenOptions given;
    options_read(l, clause->kind, item, u, &given);
    const Arg *strategy = given.at[OPTION_strategy];
    const Arg *reshard = given.at[OPTION_reshard];
    const Arg *prefetch = given.at[OPTION_prefetch];
    if (u->strategy == STRATEGY_HYBRID_SHARD)
        check_hybrid_axes(l, clause, strategy->value);
    if (reshard)
        check_reshard(l, u, reshard);
    else if (u->strategy == STRATEGY_SHARD_GRAD_OP)
        u->reshard = 0;
    set_often(l, u, given.at[OPTION_gather], given.at[OPTION_unit_reduce]);
    if (!given.at[OPTION_unit_overlap])
        u->overlap = l->options->defaults.overlap;
    check_often(l, u, given.at[OPTION_gather], given.at[OPTION_unit_reduce]);
    const Arg *overlap = given.at[OPTION_unit_overlap];
    if (prefetch && u->strategy == STRATEGY_NO_SHARD)
        diag_error(l->diag, prefetch->name_loc, "no_shard does not gather "
                   "parameters: remove '%s'", prefetch->name);
    if (overlap && u->strategy == STRATEGY_NO_SHARD)
        diag_error(l->diag, overlap->name_loc, "'%s' orders the reductions of shards: with "
                   "no_shard remove it", overlap->name);
    if (item->min_params)
        option_read(l, &option_rows[OPTION_min_params], item->min_params, u);
}

/* ---- axes ---------------------------------------------------------------- */

static void read_axes(Lower *l, const PlanDecl *p)
{
    if (p->naxes == 0)
        diag_error(l->diag, p->name.loc, "plan '%s' has no axes: declare "
                   "them, as in plan %s(dp, tp)", p->name.name, p->name.name);
    if (p->naxes > MAX_MESH_AXES)
        diag_error(l->diag, p->axis[MAX_MESH_AXES].loc,
                   "a plan has at most %d axes", MAX_MESH_AXES);
    for (int i = 0; i < p->naxes; i++)
        names_check_new(l->diag, p->axis, i, "declared");
}

static void read_axis(Lower *l, const PlanDecl *p, const Ident *axis)
{
    NameList names = {.arena = l->arena};
    for (int i = 0; i < p->naxes; i++) {
        if (strcmp(p->axis[i].name, axis->name) == 0)
            return;
        names_add(&names, p->axis[i].name, p->axis[i].loc);
    }
    diag_error(l->diag, axis->loc, "plan '%s' has no axis '%s'", p->name.name,
               axis->name);
    names_suggest_or_list(l->diag, &names, axis->name);
}

/* ---- items --------------------------------------------------------------- */

static void refuse_min_params(Lower *l, const Clause *c, const Item *item)
{
    if (!item->min_params)
        return;
    diag_error(l->diag, item->loc, "%s does not support %s",
               clause_name(c->kind), option_name(OPTION_min_params));
    diag_help(l->diag, "name paths, such as 'layers.*', or 'every Module'");
}

/* An item of `context` is the word `attention`. */
static void read_context(Lower *l, const Clause *c, const Item *item, Context *to)
{
    GivenOptions given;
    options_read(l, CL_CONTEXT, item, to, &given);
    if (item->npaths != 1 || strcmp(item->path[0].text, "attention") != 0) {
        diag_error(l->diag, item->loc, "an item of %s is 'attention'",
                   clause_name(CL_CONTEXT));
        diag_help(l->diag, "the axis splits the sequence of every module; write "
                           "'%s %s { attention: %s=%s }' for how attention "
                           "exchanges", clause_name(CL_CONTEXT), c->axis[0].name,
                  option_name(OPTION_exchange), option_word(OPTION_exchange,
                  given.at[OPTION_exchange] ? to->exchange : EXCHANGE_HEADS));
    } else if (item != c->item) {
        diag_twice(l->diag, item->loc, c->item[0].loc, "%s has one item",
                   clause_name(CL_CONTEXT));
    }
}

static void help_offload(Lower *l)
{
    diag_help(l->diag, "write 'offload { optimizer, parameters }', or one of "
              "them");
}

/* An item of `offload` is a word. */
static uint32_t read_offload(Lower *l, const Item *item)
{
    NameList names;
    const char *text = item->npaths == 1 ? item->path[0].text : NULL;
    const OptionWord *w = option_find_word(l, &option_rows[OPTION_offload],
                                           text, &names);
    if (w)
        return 1u << w->value;
    diag_error(l->diag, item->loc, "this cannot be offloaded");
    if (text)
        names_suggest(l->diag, &names, text);
    help_offload(l);
    return 0;
}

static void read_pipeline(Lower *l, const Item *item, Pipeline *to)
{
    GivenOptions given;
    options_read(l, CL_PIPELINE, item, to, &given);
    const Arg *stages = given.at[OPTION_stages_per_rank];
    if (stages && to->schedule == PIPELINE_INTERLEAVED &&
        to->stages_per_rank == 1)
        diag_error(l->diag, stages->value->range, "the schedule '%s' needs two "
                   "stages on each rank or more",
                   option_word(OPTION_pipeline_schedule, to->schedule));
    if (stages && to->schedule == PIPELINE_ZERO_BUBBLE &&
        to->stages_per_rank > 1)
        diag_error(l->diag, stages->value->range, "the schedule '%s' has one "
                   "stage on each rank",
                   option_word(OPTION_pipeline_schedule, to->schedule));
}

static void read_experts(Lower *l, const Item *item, ExpertItem *to)
{
    GivenOptions given;
    options_read(l, CL_EXPERT_PARALLEL, item, to, &given);
    if (!given.at[OPTION_overlap])
        to->overlap = l->options->defaults.overlap;
}

static void read_item(Lower *l, const Clause *c, const Item *item)
{
    PlanItem planned = {.clause = c, .item = item};
    GivenOptions given;
    if (c->kind == CL_PARALLELIZE && item->style)
        read_style(l, item);
    if (c->kind == CL_FULLY_SHARD)
        read_unit(l, c, item, &planned.unit);
    else if (c->kind == CL_PIPELINE)
        read_pipeline(l, item, &planned.pipeline);
    else if (c->kind == CL_CONTEXT)
        read_context(l, c, item, &planned.context);
    else if (c->kind == CL_EXPERT_PARALLEL)
        read_experts(l, item, &planned.experts);
    else
        options_read(l, c->kind, item, &planned.checkpoint, &given);
    if (c->kind == CL_CHECKPOINT || c->kind == CL_FREEZE || c->kind == CL_EXPERT_PARALLEL)
        refuse_min_params(l, c, item);
    if (c->kind == CL_OFFLOAD)
        planned.offload = read_offload(l, item);
    vec_push(l->arena, &l->planned, planned);
}

/* Warns of a clause that needs items to have an effect, and has none. */
static void check_empty(Lower *l, const Clause *c)
{
    static const bool idle[CLAUSES] = {[CL_FULLY_SHARD] = true, [CL_CHECKPOINT] = true,
                                       [CL_FREEZE] = true, [CL_OFFLOAD] = true};
    if (c->nitems > 0 || !idle[c->kind])
        return;
    diag_warning(l->diag, c->loc, "%s names nothing, so that it has no effect",
                 clause_name(c->kind));
    if (c->kind == CL_OFFLOAD)
        help_offload(l);
    else if (c->naxes)
        diag_help(l->diag, "such as '%s %s { layers.* }'", clause_name(c->kind), c->axis[0].name);
    else
        diag_help(l->diag, "such as '%s { layers.* }'", clause_name(c->kind));
}

static void read_clause(Lower *l, const PlanDecl *p, const Clause *c)
{
    check_empty(l, c);
    int n = 0; /* axes that split the batch */
    for (int i = 0; i < c->naxes; i++) {
        read_axis(l, p, &c->axis[i]);
        names_check_new(l->diag, c->axis, i, "named");
        n += !plan_splits_context(l, &c->axis[i]);
        if (c->kind == CL_FULLY_SHARD && n == 3)
            diag_error(l->diag, c->axis[i].loc, "parameters are sharded over two axes "
                       "that split the batch, or one, and over the axis of %s",
                       clause_name(CL_CONTEXT));
    }
    for (int i = 0; i < c->nitems; i++)
        read_item(l, c, &c->item[i]);
}

void read_plan(Lower *l, const PlanDecl *p)
{
    const PlanDecl *first = file_find_plan(l->file, p->name.name);
    if (first != p)
        diag_twice(l->diag, p->name.loc, first->name.loc,
                   "'%s' is declared twice", p->name.name);
    Frame f;
    push_frame(l, &f, p->name.name, p->name.loc, NULL);
    f.members = true;
    l->pipelined = false;
    l->context = NULL;
    for (int k = 0; k < p->nclauses; k++) {
        l->pipelined |= p->clause[k].kind == CL_PIPELINE;
        if (p->clause[k].kind == CL_CONTEXT)
            l->context = &p->clause[k];
    }
    read_axes(l, p);
    for (int k = 0; k < p->nclauses; k++)
        read_clause(l, p, &p->clause[k]);
    pop_frame(l);
}

/* ---- plans that are not selected ----------------------------------------- */

static void check_paths(Lower *l, const PlanItem *planned)
{
    const Item *item = planned->item;
    const StyleInfo *style = item->style ? style_find(item->style) : NULL;
    bool params = planned->clause->kind == CL_FREEZE ||
                  (style && style->kind == STYLE_PARAMETER);
    if (planned->clause->kind == CL_OFFLOAD || planned->clause->kind == CL_CONTEXT ||
        (item->style && !style))
        return;
    if (item->class_name)
        lower_class_known(l, item);
    for (int i = 0; i < item->npaths; i++)
        lower_path_known(l, &item->path[i], params);
    lower_stage_paths(l, item);
}

static void read_other(Lower *l, const PlanDecl *p, bool modules)
{
    l->planned = (PlanItems){0};
    read_plan(l, p);
    for (int k = 0; k < l->planned.n && modules; k++)
        check_paths(l, &l->planned.at[k]);
}

/* An error in a plan does not stop the compilation of another plan. Without a
 * valid --plan, errors in every plan count. */
void read_other_plans(Lower *l, bool modules)
{
    PlanItems selected = l->planned;
    l->uncut = true;
    for (int i = 0; i < l->file->plan.n; i++) {
        const PlanDecl *p = l->file->plan.at[i];
        bool other =
            l->plan && strcmp(p->name.name, l->plan->name.name) != 0;
        int before = diag_warning_count(l->diag);
        if (p == l->plan)
            continue;
        diag_demote(l->diag, other);
        read_other(l, p, modules);
        diag_demote(l->diag, false);
        if (other && diag_warning_count(l->diag) > before)
            diag_note(l->diag, p->name.loc, "plan '%s' is not selected: --plan "
                      "selects '%s'", p->name.name, l->plan->name.name);
    }
    l->planned = selected;
    l->uncut = false;
}
