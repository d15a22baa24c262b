/* recompute.c: what is kept for the backward pass, and what is made again.
 *
 * Wants: STAGE_STORED. The backward pass reads forward values: those that a
 * forward loop stacks for its mirror, and those of the step's own ops.
 * Leaves: the same program in effect, with the least bytes kept that suffice
 * to compute the rest again from by cheap ops (elementwise)
 * and by all-gathers over tensor-parallel axes. These are repeated in the
 * backward pass, in front of their first use. Matmuls, attention and other
 * collectives never run twice.
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
 *       %z.2 = all_gather{axes={tp}, …} %yi : f32[8, 64] backward
 *       %dwi = einsum{…} %du, %z.2 : f32[64, 64] backward
 *
 * Loops and their mirrors are matched from outside in: a mirror is the loop
 * of phase BACKWARD that takes stacks which a forward loop has made. Which
 * value of the one body is which of the other follows from their operands.
 * The choice is recompute_cut.c's.
 */
#include "passes/recompute.h"

#include <string.h>

#include "base/bug.h"
#include "passes/pass.h"

/* ---- what is where ---- */

static void match(Pair *r, Value *forward, Value *back)
{
    if (value_map_get(&r->back, forward) == NULL)
        value_map_set(r->p, &r->back, forward, back);
    value_map_set(r->p, &r->origin, back, forward);
}

/* The forward value that a value of the way back equals; NULL: none. */
static Value *origin_of(const Pair *r, Value *v)
{
    Value *forward = value_map_get(&r->origin, v);
    return forward == NULL && r->outer == NULL ? v : forward;
}

static bool is_unit_gather(const Op *op)
{
    if (op->kind != OP_all_gather)
        return false;
    const char *unit = op_attr(op, "unit").s;
    return unit != NULL && unit[0] != '\0';
}

/* What autodiff and storage put into both passes: copies of parameters in the
 * compute type, and the gathers of units. */
static bool is_in_both(const Op *op)
{
    return op->kind == OP_cast || is_unit_gather(op);
}

static Value *find_twin(const Pair *r, const Op *op, int i, const Value *arg)
{
    for (Op *o = r->from->first; o != NULL; o = o->next) {
        if (o->kind != op->kind || o->phase == PH_BACKWARD || o == op)
            continue;
        for (int k = 0; k < o->nargs; k++)
            if (o->arg[k] == arg &&
                type_equal(&o->out[k]->type, &op->out[i]->type))
                return o->out[k];
    }
    return NULL;
}

static void match_twins(Pair *r)
{
    for (Op *op = r->to->first; op != NULL; op = op->next) {
        if (op->phase != PH_BACKWARD || !is_in_both(op))
            continue;
        for (int i = 0; i < op->nargs; i++) {
            Value *arg = origin_of(r, op->arg[i]);
            Value *twin = arg ? find_twin(r, op, i, arg) : NULL;
            if (twin != NULL)
                match(r, twin, op->out[i]);
        }
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
            match(r, f->body->yield[operand->index], b->body->arg[k]);
            continue;
        }
        for (int i = f->ncarry; i < f->nargs; i++)
            if (f->arg[i] == operand && stack == (i < f->ncarry + f->nstack))
                match(r, f->body->arg[i], b->body->arg[k]);
    }
}

/* The loop that a backward loop is the mirror of; NULL: none. */
static Op *forward_loop(const Pair *r, const Op *b)
{
    for (int k = b->ncarry; k < b->ncarry + b->nstack; k++) {
        Value *operand = origin_of(r, b->arg[k]);
        Op *f = operand ? operand->def : NULL;
        if (f != NULL && f->kind == OP_loop && f->phase == PH_FORWARD &&
            operand->index >= f->ncarry && loop_trips(f) == loop_trips(b) &&
            loop_reverse(f) != loop_reverse(b))
            return f;
    }
    return NULL;
}

/* ---- the choice ---- */

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
           v->def->kind == OP_scalar;
}

bool recompute_clonable(const Pair *r, const Value *v)
{
    const Op *op = v->def;

    if (op == NULL || op->body != NULL)
        return false;
    if (op->kind == OP_all_gather) {
        uint32_t axes = (uint32_t)op_attr(op, "axes").i;
        return !is_unit_gather(op) && (axes & ~r->p->plan.tensor_axes) == 0;
    }
    /* A reduction reads a row to save one number: it is kept. */
    bool reduces = op->kind == OP_sum || op->kind == OP_max;
    return op_info(op->kind)->cheap && op->nouts == 1 && !reduces;
}

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

static bool is_way_back(const Pair *r, const Op *op)
{
    return r->outer != NULL || op->phase == PH_BACKWARD ||
           op->phase == PH_OPTIMIZER;
}

static bool is_forward_value(const Value *v)
{
    return v->def != NULL && v->def->phase == PH_FORWARD;
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
        for (int i = 0; is_way_back(r, op) && i < op->nargs; i++)
            if (is_forward_value(op->arg[i]))
                vec_push(a, &r->needed, op->arg[i]);
}

/* ---- carrying it out ---- */

static bool comes_before(const Op *a, const Op *b)
{
    while (a != NULL && a != b)
        a = a->next;
    return a == b;
}

/* Moves the gather of a unit forward to where its results are now needed. */
static void ensure_before(Value *v, Op *op)
{
    if (v->def == NULL || op == NULL || v->def->region != op->region ||
        comes_before(v->def, op))
        return;
    for (int i = 0; i < v->def->nargs; i++)
        ensure_before(v->def->arg[i], op);
    ir_move(v->def, op->region, op);
}

/* A forward value as the way back reads it, saved or passed on there. */
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
    match(r, v, back);
    return back;
}

static Value *make_again(Pair *r, Value *v, Op *before);

static Value *clone(Pair *r, Value *v, Op *before)
{
    const Op *op = v->def;
    bool one_to_one = op_is_collective(op->kind);
    int nargs = one_to_one ? 1 : op->nargs;
    Value **args = NEW_ARRAY(r->p->arena, Value *, nargs + 1);

    for (int i = 0; i < nargs; i++)
        args[i] = make_again(r, op->arg[one_to_one ? v->index : i], before);
    Build b = {.p = r->p,
               .region = r->to,
               .before = before,
               .phase = PH_BACKWARD,
               .loc = op->loc,
               .path = op->path};
    Op *again =
        ir_op_typed(&b, op->kind, nargs, args, op->attr, 1, &v->type, &v->name);
    again->why = op->why;
    memcpy(again->out[0]->why, v->why, sizeof v->why);
    return again->out[0];
}

static Value *make_again(Pair *r, Value *v, Op *before)
{
    Value *made = value_map_get(&r->made, v);

    if (made != NULL)
        return made;
    if (recompute_available(r, v) || (v->id < r->nvalues && r->saved[v->id])) {
        made = bring(r, v);
        ensure_before(made, before);
    } else if (recompute_clonable(r, v)) {
        made = clone(r, v, before);
    } else {
        bug("%%%s is neither kept nor made again", v->name);
    }
    value_map_set(r->p, &r->made, v, made);
    return made;
}

/* What to read instead of v, for an op of the way back. */
static Value *replacement(Pair *r, Value *v, Op *before)
{
    Value *forward = r->outer == NULL ? v : value_map_get(&r->origin, v);

    if (forward == NULL || forward->id >= r->nvalues ||
        !r->again[forward->id] || (r->outer != NULL && v->def != NULL))
        return v;
    return make_again(r, forward, before);
}

static void rewrite(Pair *r)
{
    for (Op *op = r->to->first; op != NULL; op = op->next)
        for (int i = 0; is_way_back(r, op) && i < op->nargs; i++)
            op->arg[i] = replacement(r, op->arg[i], op);
    for (int i = 0; i < r->to->nyields; i++)
        r->to->yield[i] = replacement(r, r->to->yield[i], NULL);
}

static void recompute_pair(Pair *r)
{
    if (r->outer != NULL)
        match_arguments(r);
    match_twins(r);
    for (Op *op = r->to->first; op != NULL; op = op->next) {
        if (op->kind != OP_loop || op->phase != PH_BACKWARD)
            continue;
        Op *f = forward_loop(r, op);
        if (f == NULL)
            continue;
        Pair in = {.p = r->p,
                   .outer = r,
                   .forward = f,
                   .backward = op,
                   .from = f->body,
                   .to = op->body};
        recompute_pair(&in);
    }
    find_needed(r);
    recompute_choose(r);
    rewrite(r);
}

void pass_recompute(Program *p, const TargetInfo *t)
{
    Pair step = {.p = p, .from = p->step, .to = p->step};

    (void)t;
    recompute_pair(&step);
    ir_eliminate_dead(p);
}
