/* expert_groups.c: decides how the rows of experts are grouped.
 *
 * The rows [g, h, x, r, d] are those of g x h groups of tokens and x shards of the experts.
 * Tokens are grouped where the plan splits them, so that a rank groups its own: g are the
 * parts of the batch, h those of sequences. On the axes of the clause `expert_parallel`
 * dispatch=all_to_all does that too; its all-to-all changes the split from g or h to x. Axes of
 * `parallelize` may split sequences between modules. With dispatch=gather ranks group the
 * tokens of all ranks on these axes, each for its experts.
 *
 *   plan experts(dp, ep) { expert_parallel ep { layers.*.moe } } on 4x2, batch 64
 *   gather       g = 4, x = 2        all_to_all   g = 8, x = 2
 */
#include <math.h>
#include <string.h>

#include "frontend/lower/lower.h"

/* The axis of this name as a bit; 0: none. */
static uint32_t axis_named(const Mesh *m, const char *name)
{
    for (int a = 0; a < m->n; a++)
        if (strcmp(m->name[a], name) == 0)
            return 1u << a;
    return 0;
}

uint32_t lower_clause_axes(const Lower *l, ClauseKind kind)
{
    uint32_t axes = 0;
    for (int i = 0; l->plan && i < l->plan->nclauses; i++) {
        const Clause *c = &l->plan->clause[i];
        for (int k = 0; c->kind == kind && k < c->naxes; k++)
            axes |= axis_named(&l->p->mesh, c->axis[k].name);
    }
    return axes;
}

static const char *class_of(const Program *p, const char *path)
{
    for (int i = 0; i < p->module.n; i++)
        if (strcmp(p->module.at[i].path, path) == 0)
            return p->module.at[i].class;
    return "";
}

static bool item_names(const Program *p, const Item *item, const char *path)
{
    if (item->class_name)
        return strcmp(item->class_name, class_of(p, path)) == 0;
    for (int i = 0; i < item->npaths; i++)
        if (path_overlaps(item->path[i].text, path))
            return true;
    return false;
}

bool lower_item_names(const Lower *l, const Item *item, const char *path)
{
    for (const char *at = path; !item_names(l->p, item, at); at = path_parent(l->arena, at))
        if (!*at)
            return false;
    return true;
}

const PlanItem *lower_expert_item(const Lower *l, const char *path)
{
    for (int i = 0; i < l->planned.n; i++) {
        const PlanItem *planned = &l->planned.at[i];
        if (planned->clause->kind == CL_EXPERT_PARALLEL &&
            lower_item_names(l, planned->item, path))
            return planned;
    }
    return NULL;
}

/* The axis of the context has two pieces of each sequence (passes/sharding/plan.c). */
enum { SEQUENCE_PIECES = 2 };

int64_t lower_expert_rows(const ExpertGroups *g, const Choices *c)
{
    int64_t most = choices_most_rows(c);
    double rows = ceil(g->buffer * (double)choices_pairs(c) / (double)c->shards);
    return g->buffer > 0 && rows < (double)most ? (int64_t)rows : most;
}

/* A rank receives the tokens of n - 1 others of its group, or n - 1 blocks of rows, each of
 * one n-th of buffer x k rows for each of its tokens; a capacity bounds the buffer. Where only
 * axes of `parallelize` split the experts, tokens are on all ranks as a rule, which need not be
 * gathered. */
Dispatch lower_expert_dispatch(const Lower *l, const PlanItem *planned, const Choices *c)
{
    uint32_t axes = lower_clause_axes(l, CL_EXPERT_PARALLEL);
    double n = (double)mesh_group(&l->p->mesh, axes), buffer = planned->experts.buffer;
    if (planned->experts.dispatch != DISPATCH_BY_BYTES)
        return planned->experts.dispatch;
    if (!(axes & ~lower_clause_axes(l, CL_PARALLELIZE)))
        return DISPATCH_GATHER;
    double most = choices_capacity(c) > 0 ? fmin(choices_capacity(c), n) : n;
    double rows = (buffer > 0 && buffer < most ? buffer : most) * (double)c->k;
    return rows < n ? DISPATCH_ALL_TO_ALL : DISPATCH_GATHER;
}

/* The choices where the module first groups rows: all its calls move tokens in one way. */
static Choices first_choices(const Lower *l, const char *path, const Choices *c)
{
    for_ops(op, l->p->step)
        if (op->kind == OP_group_rows && strcmp(op->path, path) == 0)
            return group_choices(op);
    return *c;
}

ExpertGroups lower_expert_groups(const Lower *l, const char *path, const Choices *c)
{
    const Mesh *m = &l->p->mesh;
    const PlanItem *planned = lower_expert_item(l, path);
    uint32_t experts = planned ? lower_clause_axes(l, CL_EXPERT_PARALLEL) : 0;
    uint32_t context = lower_clause_axes(l, CL_CONTEXT);
    uint32_t all = l->plan ? (1u << m->n) - 1 : 1;
    uint32_t tensor = lower_clause_axes(l, CL_PARALLELIZE);
    uint32_t batch = all & ~(tensor | lower_clause_axes(l, CL_PIPELINE) | context);
    Choices first = first_choices(l, path, c);
    tensor &= experts;
    if (planned && lower_expert_dispatch(l, planned, &first) == DISPATCH_GATHER) {
        batch &= ~experts;
        context &= ~experts;
        tensor = 0;
    }
    int64_t micro = l->p->train.accumulate > 1 ? l->p->train.accumulate : 1;
    int64_t pieces = context ? SEQUENCE_PIECES : 1;
    /* Sizes that the axes do not divide are refused where inputs are split. */
    return (ExpertGroups){
        .batch = common_divisor(c->batch, micro * mesh_group(m, batch)),
        .sequence = common_divisor(c->length, pieces * mesh_group(m, context | tensor)),
        .shards = mesh_group(m, experts), .buffer = planned ? planned->experts.buffer : 0,
        .loc = planned ? planned->item->loc : (Loc){0}};
}
