/* recompute.c: decides which forward values are saved for the backward pass and
 * which are recomputed.
 *
 * requires: STAGE_STORED. The backward pass reads forward values: those that a
 *           forward loop stacks for its backward loop, and those of the step's
 *           own ops
 * ensures:  the same results, with the fewest bytes saved from which all other
 *           values can be recomputed by cheap (elementwise) ops and all-gathers
 *           over tensor axes (mesh axes that `parallelize` names). The
 *           recomputation is inserted in the backward pass before its first
 *           use. Matmuls, attention and other collectives are recomputed only
 *           in modules that the plan's `checkpoint` names. There every op may
 *           be, loops and reductions included, so that only the module's inputs
 *           and the values of `keep=` are saved. Every recomputed op is marked
 *           `recomputed`, except gathers of units
 *
 *   before
 *     %out, %ys, %zs = loop{n=4, reverse=false} : … {
 *       %y = exp %x : f32[8, 64/tp] forward
 *       %z = all_gather{axes={tp}, …} %y : f32[8, 64] forward
 *       …
 *       yield %v, %y, %z
 *     }
 *     %dh, %dw = loop{n=4, reverse=true} : … {
 *       stack %yi = %ys : f32[8, 64/tp]
 *       stack %zi = %zs : f32[8, 64]
 *       %dwi = einsum{…} %du, %zi : f32[64, 64] backward
 *   after
 *     %out, %ys = loop{n=4, reverse=false} : … {
 *       …
 *       yield %v, %y
 *     }
 *     %dh, %dw = loop{n=4, reverse=true} : … {
 *       stack %yi = %ys : f32[8, 64/tp]
 *       %z.2 = all_gather{axes={tp}, …} %yi : f32[8, 64] backward recomputed
 *       %dwi = einsum{…} %du, %z.2 : f32[64, 64] backward
 *
 * Loops and their backward loops are matched from outside in: a backward loop
 * is the loop of phase BACKWARD that reads stacks that a forward loop has made.
 * Corresponding values of the two bodies follow from the operands.
 * recompute_rules.c says what may be recomputed, recompute_cut.c chooses,
 * recompute_rewrite.c rewrites the program.
 */
#include "passes/recompute/recompute.h"

#include "ir/units.h"
#include "passes/pass.h"

/* ---- corresponding values ---- */

/* The forward value that a value of the backward pass equals; NULL: none. */
static Value *origin_of(const Pair *r, Value *v)
{
    Value *forward = value_map_get(&r->origin, v);
    return forward == NULL && r->outer == NULL ? v : forward;
}

static Value *find_counterpart(const Pair *r, const Op *op, int i,
                               const Value *arg)
{
    int n;
    Op *const *reader = uses_readers(r->uses, arg, &n);

    for (int j = 0; j < n; j++) {
        const Op *o = reader[j];
        if (o->region != r->from || o->kind != op->kind ||
            o->phase == PH_BACKWARD || o == op)
            continue;
        for (int k = 0; k < o->nargs; k++)
            if (o->arg[k] == arg &&
                type_equal(&o->out[k]->type, &op->out[i]->type))
                return o->out[k];
    }
    return NULL;
}

/* Matches the ops that autodiff and storage insert in both passes: casts of
 * parameters to the compute type, and gathers of units. */
static void match_counterparts(Pair *r)
{
    for (Op *op = r->to->first; op != NULL; op = op->next) {
        if (op->phase != PH_BACKWARD ||
            (op->kind != OP_cast && !op_is_unit_gather(op)))
            continue;
        for (int i = 0; i < op->nargs; i++) {
            Value *arg = origin_of(r, op->arg[i]);
            Value *counterpart = arg ? find_counterpart(r, op, i, arg) : NULL;
            if (counterpart != NULL)
                recompute_match(r, counterpart, op->out[i]);
        }
    }
}

static bool read_by_backward(const Pair *r, const Value *v)
{
    int n;
    Op *const *reader = uses_readers(r->uses, v, &n);

    for (int k = 0; k < n; k++)
        if (reader[k]->phase == PH_BACKWARD)
            return true;
    return false;
}

/* A unit that storage gathers once for both passes is available in both: its
 * gathered values correspond to themselves. */
static void match_saved_gathers(Pair *r)
{
    for (Op *op = r->from->first; op != NULL; op = op->next) {
        if (!op_is_unit_gather(op) || op->phase != PH_FORWARD)
            continue;
        bool saved = false;
        for (int i = 0; i < op->nouts && !saved; i++)
            saved = read_by_backward(r, op->out[i]);
        for (int i = 0; i < op->nouts && saved; i++)
            recompute_match(r, op->out[i], op->out[i]);
    }
}

static void match_arguments(Pair *r)
{
    const Op *f = r->forward, *b = r->backward;

    for (int k = b->ncarry; k < b->nargs; k++) {
        Value *operand = origin_of(r->outer, b->arg[k]);
        bool stack = k < b->ncarry + b->nstack;
        if (operand == NULL)
            continue;
        if (stack && operand->def == f && operand->index >= f->ncarry) {
            recompute_match(r, f->body->yield[operand->index], b->body->arg[k]);
            continue;
        }
        for (int i = f->ncarry; i < f->nargs; i++)
            if (f->arg[i] == operand && stack == (i < f->ncarry + f->nstack))
                recompute_match(r, f->body->arg[i], b->body->arg[k]);
    }
}

/* The forward loop of a backward loop; NULL: none. */
static Op *forward_loop(const Pair *r, const Op *b)
{
    for (int k = b->ncarry; k < b->ncarry + b->nstack; k++) {
        Value *operand = origin_of(r, b->arg[k]);
        Op *f = operand ? operand->def : NULL;
        if (f != NULL && f->kind == OP_loop && f->phase == PH_FORWARD &&
            operand->index >= f->ncarry && loop_trips(f) == loop_trips(b) &&
            attr_reverse(f) != attr_reverse(b))
            return f;
    }
    return NULL;
}

/* ---- forward values that the backward pass reads ---- */

static bool is_read(const Value *v)
{
    const Region *r = v->region;

    for (const Op *op = r->first; op != NULL; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v)
                continue;
            bool slice = op->kind == OP_loop && i >= op->ncarry;
            if (!slice || is_read(op->body->arg[i]))
                return true;
        }
    for (int i = 0; i < r->nyields; i++)
        if (r->yield[i] == v)
            return true;
    return false;
}

static void find_needed(Pair *r)
{
    Arena *a = r->p->arena;

    if (r->outer != NULL) {
        const Region *to = r->to;
        for (int k = 0; k < to->nargs; k++) {
            Value *v = value_map_get(&r->origin, to->arg[k]);
            if (v != NULL && is_read(to->arg[k]))
                vec_push(a, &r->needed, v);
        }
        return;
    }
    for (Op *op = r->to->first; op != NULL; op = op->next)
        for (int i = 0; recompute_is_way_back(r, op) && i < op->nargs; i++) {
            const Op *def = op->arg[i]->def;
            if (def != NULL && def->phase == PH_FORWARD)
                vec_push(a, &r->needed, op->arg[i]);
        }
}

static void recompute_pair(Pair *r)
{
    if (r->outer != NULL)
        match_arguments(r);
    else
        match_saved_gathers(r);
    match_counterparts(r);
    for (Op *op = r->to->first; op != NULL; op = op->next) {
        if (op->kind != OP_loop || op->phase != PH_BACKWARD)
            continue;
        Op *f = forward_loop(r, op);
        if (f == NULL)
            continue;
        Pair in = {.p = r->p,
                   .uses = r->uses,
                   .outer = r,
                   .forward = f,
                   .backward = op,
                   .from = f->body,
                   .to = op->body};
        recompute_pair(&in);
    }
    find_needed(r);
    recompute_choose(r);
    recompute_rewrite(r);
}

void pass_recompute(Program *p, const TargetInfo *t)
{
    Uses uses = uses_find(p);
    Pair step = {.p = p, .uses = &uses, .from = p->step, .to = p->step};

    (void)t;
    recompute_pair(&step);
    ir_eliminate_dead(p);
}
