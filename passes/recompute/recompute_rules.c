/* recompute_rules.c: decides which values the backward pass has at no cost, and
 * which ops it may recompute.
 *
 * Outside of checkpointed modules only cheap ops, the rows of experts that are copies of
 * tokens, and all-gathers over tensor axes (mesh axes that `parallelize` names) may be
 * recomputed. A *stretch* of checkpointed modules (ir/plan/checkpoint.h) may be recomputed
 * completely, except for results that the plan keeps, and for choices. Values that leave the stretch are
 * inputs of the next one and are saved like its own inputs: else a chain of
 * checkpoints would be one long stretch, recomputed all together. A value that
 * leaves the stretch may be recomputed only if cheap ops alone compute it from
 * the stretch's inputs.
 */
#include "ir/plan/checkpoint.h"
#include "ir/units.h"
#include "passes/recompute/recompute.h"

bool recompute_is_way_back(const Pair *r, const Op *op)
{
    return r->outer != NULL || op->phase == PH_BACKWARD ||
           op->phase == PH_OPTIMIZER;
}

bool recompute_available(const Pair *r, const Value *v)
{
    if (r->outer != NULL && v->def == NULL)
        return v->index >= r->forward->ncarry;
    if (v->def == NULL)
        return true;
    Value *back = value_map_get(&r->back, v);
    if (back != NULL && back->def != NULL)
        return true;
    if (r->outer != NULL)
        return false;
    return v->def->phase == PH_INIT || v->def->kind == OP_param ||
           v->def->kind == OP_input || v->def->kind == OP_base ||
           v->def->kind == OP_scalar || v->def->kind == OP_split_key;
}

/* ---- stretches ---- */

int recompute_stretch(const Pair *r, const Op *op)
{
    return op->id < r->nops ? r->stretch[op->id] : 0;
}

void recompute_find_stretches(Pair *r)
{
    const Program *p = r->p;
    const char *loop = r->outer != NULL ? r->forward->path : NULL;
    /* The rounds of experts are a stretch: the memory of one suffices. */
    bool rounds = r->outer != NULL && r->forward->rounds;

    r->nops = p->nops;
    r->stretch = NEW_ARRAY(p->arena, int, p->nops);
    r->easy = NEW_ARRAY(p->arena, Answer, p->nvalues);
    for (const Op *op = r->from->first; op != NULL; op = op->next)
        if (op->phase == PH_FORWARD)
            r->stretch[op->id] = rounds ? 1 : checkpoint_stretch(p, op->path, loop);
}

/* Whether the forward pass reads v outside of its stretch. */
static bool leaves(const Pair *r, const Value *v, int stretch)
{
    int n;
    Op *const *reader = uses_readers(r->uses, v, &n);

    for (int k = 0; k < n; k++)
        if (reader[k]->phase == PH_FORWARD &&
            recompute_stretch(r, reader[k]) != stretch)
            return true;
    for (int i = 0; r->outer != NULL && i < r->forward->ncarry; i++)
        if (r->from->yield[i] == v)
            return true;
    return false;
}

/* Each token is copied several times. */
static bool copies_tokens(OpKind kind)
{
    return kind == OP_gather_rows || kind == OP_gather_pairs;
}

static bool is_cheap_to_recompute(const Pair *r, const Op *op)
{
    if (op->kind == OP_all_gather)
        return !op_is_unit_gather(op) &&
               (attr_axes(op) & ~r->p->plan.tensor_axes) == 0;
    if (copies_tokens(op->kind))
        return true;
    return op_info(op->kind)->cheap && op->nouts == 1;
}

/* Whether only cheap ops compute v from the stretch's inputs. */
static bool is_easy(const Pair *r, const Value *v, int stretch)
{
    const Op *op = v->def;

    if (op == NULL || recompute_stretch(r, op) != stretch || v->id >= r->nvalues)
        return true;
    if (r->easy[v->id] == UNKNOWN) {
        bool easy = is_cheap_to_recompute(r, op);
        for (int i = 0; i < op->nargs && easy; i++)
            easy = is_easy(r, op->arg[i], stretch);
        r->easy[v->id] = easy ? YES : NO;
    }
    return r->easy[v->id] == YES;
}

/* Whether a stretch reads the result of a unit's gather: then the backward pass
 * may gather it too, unless the plan says that it stays gathered. */
static bool serves_stretch(const Pair *r, const Value *v)
{
    if (unit_stays_gathered(r->p, attr_unit(v->def)))
        return false;
    int n;
    Op *const *reader = uses_readers(r->uses, v, &n);
    for (int k = 0; k < n; k++)
        if (recompute_stretch(r, reader[k]) != 0)
            return true;
    return false;
}

/* Whether the forward pass's results of an op stay. Choices are saved: repeated from sums in
 * another order, topk could make others, and the gradient would be that of another function.
 * What follows from the choices alone is saved too, because it is small; but not for each of
 * many rounds. */
static bool stays_saved(const Pair *r, OpKind kind)
{
    bool rounds = r->outer != NULL && r->forward->rounds;
    return kind == OP_topk || (!rounds && (kind == OP_limit_choices || kind == OP_group_rows));
}

bool recompute_clonable(const Pair *r, const Value *v)
{
    const Op *op = v->def;

    if (op == NULL || op_info(op->kind)->effect || stays_saved(r, op->kind))
        return false;
    if (op_is_unit_gather(op))
        return !r->plain && serves_stretch(r, v);
    int stretch = r->plain ? 0 : recompute_stretch(r, op);
    if (stretch != 0)
        return !checkpoint_keeps(r->p, op) &&
               (!leaves(r, v, stretch) || is_easy(r, v, stretch));
    /* A reduction reads a row to compute one number, which is saved. */
    bool reduces = op->kind == OP_sum || op->kind == OP_max;
    bool gathers = op->kind == OP_all_gather && r->p->train.recompute != RECOMPUTE_ALL;
    bool copies = copies_tokens(op->kind) && r->p->train.recompute == RECOMPUTE_FUSED;
    return op->body == NULL && is_cheap_to_recompute(r, op) && !reduces && !gathers && !copies;
}
