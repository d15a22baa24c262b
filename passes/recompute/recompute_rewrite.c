/* recompute_rewrite.c: rewrites the backward pass: it reads saved values, and
 * recomputes the others right before their first reader.
 *
 * If a recomputed stretch of modules (ir/plan/checkpoint.h) gathers a unit, its
 * gather joins the backward pass's own gather of that unit. A cheap value that
 * was recomputed for other recomputed ops is not kept live for a late reader:
 * it is recomputed a second time, from the values that would be saved without
 * checkpoint.
 */
#include <string.h>

#include "base/bug.h"
#include "ir/units.h"
#include "passes/recompute/recompute.h"

void recompute_match(Pair *r, Value *forward, Value *back)
{
    if (value_map_get(&r->back, forward) == NULL)
        value_map_set(r->p, &r->back, forward, back);
    value_map_set(r->p, &r->origin, back, forward);
}

/* ---- positions ---- */

static bool comes_before(const Op *a, const Op *b)
{
    while (a != NULL && a != b)
        a = a->next;
    return a == b;
}

/* Moves the producer of v, a gather of a unit, before op. */
static void ensure_before(Value *v, Op *op)
{
    if (v->def == NULL || op == NULL || v->def->region != op->region ||
        comes_before(v->def, op))
        return;
    for (int i = 0; i < v->def->nargs; i++)
        ensure_before(v->def->arg[i], op);
    ir_move(v->def, op->region, op);
}

/* The value of the backward region for a saved or available forward value. */
static Value *bring(Pair *r, Value *v)
{
    Value *back = value_map_get(&r->back, v);
    const Op *f = r->forward;

    if (back != NULL || r->outer == NULL)
        return back != NULL ? back : v;
    if (v->def == NULL && v->index >= f->ncarry) {
        Value *outside = bring(r->outer, f->arg[v->index]);
        ensure_before(outside, r->backward);
        if (v->index < f->ncarry + f->nstack)
            back = ir_loop_add_stack(r->p, r->backward, outside);
        else
            back = ir_loop_add_free(r->p, r->backward, outside);
    } else {
        Value *stacked = ir_loop_add_yield(r->p, r->forward, v);
        Value *outside = bring(r->outer, stacked);
        back = ir_loop_add_stack(r->p, r->backward, outside);
    }
    recompute_match(r, v, back);
    return back;
}

/* ---- recomputed ops ---- */

static Value *rematerialize(Pair *r, Value *v, Op *before);

static Build build_at(const Pair *r, const Op *op, Op *before)
{
    return (Build){.p = r->p, .region = r->to, .before = before, .phase = PH_BACKWARD,
                   .loc = op->loc, .path = op->path};
}

/* Records result i of an op as the recomputed v. */
static void record_repeated(Pair *r, Value *v, const Op *copy, int i)
{
    memcpy(copy->out[i]->why, v->why, sizeof v->why);
    value_map_set(r->p, &r->made, v, copy->out[i]);
}

/* Clones an op with operands of the backward region; a loop with its body. */
static Op *repeat(Pair *r, Op *op, Value **args, Op *before)
{
    Build b = build_at(r, op, before);
    Op *copy = ir_clone_with(&b, op, args);
    copy->recomputed = true;
    if (copy->body)
        for_ops(inner, copy->body)
            inner->recomputed = true;
    return copy;
}

static void clone_whole(Pair *r, Op *op, Op *before)
{
    Value **args = NEW_ARRAY(r->p->arena, Value *, op->nargs + 1);

    for (int i = 0; i < op->nargs; i++)
        args[i] = rematerialize(r, op->arg[i], before);
    Op *copy = repeat(r, op, args, before);
    for (int i = 0; i < op->nouts; i++)
        record_repeated(r, op->out[i], copy, i);
}

/* Clones the members of a grouped collective that are recomputed. */
static void clone_members(Pair *r, Op *op, Op *before)
{
    Arena *a = r->p->arena;
    int *member = NEW_ARRAY(a, int, op->nouts), n = 0;
    Value **args = NEW_ARRAY(a, Value *, op->nouts);
    Type *types = NEW_ARRAY(a, Type, op->nouts);
    const char **names = NEW_ARRAY(a, const char *, op->nouts);

    for (int i = 0; i < op->nouts; i++) {
        if (!r->making[op->out[i]->id])
            continue;
        member[n] = i;
        args[n] = rematerialize(r, op->arg[i], before);
        types[n] = op->out[i]->type;
        names[n++] = op->out[i]->name;
    }
    Build b = build_at(r, op, before);
    Op *copy = ir_op_typed(&b, op->kind, n, args, op->attr, n, types, names);
    copy->why = op->why;
    copy->recomputed = true;
    for (int i = 0; i < n; i++)
        record_repeated(r, op->out[member[i]], copy, i);
}

/* ---- gathers of units ---- */

/* The backward region's own gather of v's unit, on v's stage; NULL: none. */
static Op *unit_gather(const Pair *r, const Value *v)
{
    for (Op *op = r->to->first; op != NULL; op = op->next)
        if (op_is_unit_gather(op) && op->phase == PH_BACKWARD &&
            strcmp(attr_unit(op), attr_unit(v->def)) == 0 &&
            type_same_holder(&op->out[0]->type, &v->type))
            return op;
    return NULL;
}

static void add_member(Pair *r, Op *gather, Value *shard, const Value *v)
{
    Arena *a = r->p->arena;
    int n = gather->nargs;
    Value **arg = NEW_ARRAY(a, Value *, n + 1);
    Value **out = NEW_ARRAY(a, Value *, n + 1);

    memcpy(arg, gather->arg, sizeof *arg * (size_t)n);
    memcpy(out, gather->out, sizeof *out * (size_t)n);
    arg[n] = shard;
    out[n] = ir_new_value(r->p, v->name, v->type, v->loc);
    ir_set_members(gather, n + 1, arg, out);
}

static void regather(Pair *r, Value *v, Op *before)
{
    Op *op = v->def, *gather = unit_gather(r, v);
    Value *shard = op->arg[v->index];

    if (gather == NULL) {
        Build b = build_at(r, op, before);
        shard = rematerialize(r, shard, before);
        gather = ir_op_typed(&b, op->kind, 1, &shard, op->attr, 1, &v->type,
                             &v->name);
        gather->why = op->why;
    } else {
        ensure_before(gather->out[0], before);
        add_member(r, gather, rematerialize(r, shard, gather), v);
    }
    record_repeated(r, v, gather, gather->nouts - 1);
}

static Value *rematerialize(Pair *r, Value *v, Op *before)
{
    Value *made = value_map_get(&r->made, v);

    if (made != NULL)
        return made;
    if (recompute_available(r, v) || (v->id < r->nvalues && r->saved[v->id])) {
        made = bring(r, v);
        ensure_before(made, before);
    } else {
        if (!recompute_clonable(r, v))
            bug("%%%s is neither saved nor recomputed", v->name);
        if (op_is_unit_gather(v->def))
            regather(r, v, before);
        else if (op_is_collective(v->def->kind))
            clone_members(r, v->def, before);
        else
            clone_whole(r, v->def, before);
        made = value_map_get(&r->made, v);
    }
    value_map_set(r->p, &r->made, v, made);
    return made;
}

/* ---- second recomputation ---- */

/* Whether kernels run between the recomputed value and its reader: then
 * recomputing it is better than keeping it live. */
static bool waits_long(const Value *made, const Op *before)
{
    const Op *from = made->def;

    if (from == NULL || before == NULL || from->region != before->region)
        return false;
    for (const Op *op = from->next; op != NULL && op != before; op = op->next)
        if (!op_info(op->kind)->cheap)
            return true;
    return false;
}

/* Whether v stays live for late readers: values that would be saved if only
 * cheap ops were recomputed, and results of collectives. */
static bool is_held(const Pair *r, const Value *v)
{
    return recompute_available(r, v) || r->saved[v->id] || r->held[v->id] ||
           op_is_collective(v->def->kind);
}

/* Computes v from these values by cheap ops. */
static Value *make_late(Pair *r, Value *v, Op *before)
{
    Value *late = value_map_get(&r->late, v);

    if (late != NULL)
        return late;
    if (is_held(r, v))
        return rematerialize(r, v, before);
    Value **args = NEW_ARRAY(r->p->arena, Value *, v->def->nargs + 1);
    for (int i = 0; i < v->def->nargs; i++)
        args[i] = make_late(r, v->def->arg[i], before);
    Op *copy = repeat(r, v->def, args, before);
    value_map_set(r->p, &r->late, v, copy->out[0]);
    return copy->out[0];
}

/* ---- readers ---- */

/* The forward value that an op of the backward pass reads, if it is recomputed;
 * else NULL. */
static Value *wanted_value(const Pair *r, Value *v)
{
    Value *forward = r->outer == NULL ? v : value_map_get(&r->origin, v);

    if (forward == NULL || forward->id >= r->nvalues ||
        !r->recomputed[forward->id] || (r->outer != NULL && v->def != NULL))
        return NULL;
    return forward;
}

/* The value that an op of the backward pass reads instead of v. */
static Value *replacement(Pair *r, Value *v, Op *before)
{
    Value *forward = wanted_value(r, v);

    if (forward == NULL)
        return v;
    Value *made = value_map_get(&r->made, forward);
    if (r->held != NULL && (made == NULL || waits_long(made, before)))
        return make_late(r, forward, before);
    return rematerialize(r, forward, before);
}

void recompute_rewrite(Pair *r)
{
    for (Op *op = r->to->first; op != NULL; op = op->next)
        for (int i = 0; recompute_is_way_back(r, op) && i < op->nargs; i++)
            op->arg[i] = replacement(r, op->arg[i], op);
    for (int i = 0; i < r->to->nyields; i++)
        r->to->yield[i] = replacement(r, r->to->yield[i], NULL);
}
