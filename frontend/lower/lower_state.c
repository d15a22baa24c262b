/* lower_state.c: lowers updates of states.
 *
 * An `update` is lowered where it is, and takes effect at the end of the step:
 *
 *   before   update mean = 0.9 * mean + 0.1 * sum(x, 0)
 *   after    %sum = sum{dims=[0], …} %x                          in the loop, or not
 *            …
 *            %scale = scale{by=0.9} %mean : f32[4 x 8] optimizer      at the end
 *            %sum.3 = offset{by=0} %sum.2 : f32[4 x 8] optimizer
 *            %scale.2 = scale{by=0.1} %sum.3 : f32[4 x 8] optimizer
 *            %mean.new = add %scale, %scale.2 : f32[4 x 8] optimizer
 *            assign{param="layers.*.mean"} %mean.new optimizer
 *
 * All elementwise ops between the state and the last reduction move to the end of
 * the step: there they run after the sum over ranks and microbatches, for all
 * layers of an array together. A loop yields the operands of these ops.
 */
#include "frontend/lower/lower.h"
#include "ir/path.h"

/* ---- the statement ------------------------------------------------------- */

static bool was_trained(const Lower *l, const Stmt *s)
{
    for (int i = 0; i < l->trained->update.n; i++)
        if (l->trained->update.at[i].stmt == s)
            return true;
    return false;
}

/* Reports a second update in a step, or one in each iteration of a loop over an
 * array that the state's module does not belong to. */
static bool is_updated_once(Lower *l, const Stmt *s, int candidate)
{
    const Candidate *c = &l->candidate.at[candidate];
    for (const Level *at = l->level; at->outer; at = at->outer)
        if (!instance_is_below(c->owner, at->array))
            return lower_error(l, s->loc, "a step updates a state once",
                               "state '%s' is updated in each iteration of a loop over '%s'",
                               c->param.name, at->array->name);
    for (int i = 0; i < l->update.n; i++)
        if (l->update.at[i].candidate == candidate) {
            lower_error(l, s->loc, "a step updates a state once: call the module once",
                        "state '%s' is updated twice", c->param.name);
            lower_note(l, l->update.at[i].stmt->loc, "the first update is here");
            return false;
        }
    return true;
}

/* The value as a tensor in f32 of the state's shape; NULL after an error. */
static Value *state_value(Lower *l, const Stmt *s, const Type *want, Datum d)
{
    if (datum_is_number(d))
        return lower_f32(l, s->value->range, datum_number(d))
                   ? ir_full(&l->b, datum_number(d), DT_F32, want->ndim, want->dim)
                   : NULL;
    if (d.kind == DATUM_POISON)
        return NULL;
    Type layer = *want;
    while (layer.nstack > 0)
        type_pop_stack(&layer);
    if (d.kind == DATUM_TENSOR && type_same_shape(&d.tensor->type, &layer))
        return ir_cast(&l->b, d.tensor, DT_F32);
    lower_error(l, s->value->range, NULL, "state '%s' is %s, its new value is %s",
                s->target[0].name, type_text(l->arena, &layer, &(Mesh){0}),
                datum_text(l->arena, d));
    return NULL;
}

/* The state that the module of the current frame updates; -1 after an error. */
static int updated_state(const Lower *l, const Stmt *s)
{
    const Instance *m = l->frame->instance;
    const Binding *b = m ? find_name(m->members, s->target[0].name) : NULL;
    bool fine = b && b->datum.kind == DATUM_PARAM && !lower_is_refused(l, s->value);
    return fine && l->candidate.at[b->datum.integer].param.module_state ? (int)b->datum.integer
                                                                        : -1;
}

bool lower_takes_update(Lower *l, const Stmt *s)
{
    int candidate = updated_state(l, s);
    if (candidate < 0)
        return false;
    if (program_trains(l->p))
        return is_updated_once(l, s, candidate);
    if (!was_trained(l, s))
        lower_error(l, s->loc, "updates take effect in training only",
                    "state '%s' is updated only where the model is evaluated",
                    l->candidate.at[candidate].param.name);
    return false;
}

void lower_add_update(Lower *l, const Stmt *s, Datum d)
{
    int candidate = updated_state(l, s);
    Candidate *c = &l->candidate.at[candidate];
    c->used = true;
    l->b.loc = lower_user_loc(l, s->loc);
    StateUpdate update = {s, candidate, state_value(l, s, &c->param.type, d)};
    vec_push(l->arena, &l->update, update);
}

/* ---- values at the end of the step --------------------------------------- */

typedef VEC(Value *) ValueSet;

/* Values of loops and their counterparts in the step, stacked by layer. */
typedef struct Lift {
    Lower *l;
    Build b;
    VEC(Value *) from;
    VEC(Value *) to;
} Lift;

static bool is_elementwise(const Op *op)
{
    const char *rule = op->nouts == 1 ? op_info(op->kind)->rule : NULL;
    return rule && *rule == '=' && op->kind != OP_broadcast && op->kind != OP_boundary;
}

static bool is_number(const Value *v)
{
    return v->def && v->def->kind == OP_full && v->type.ndim == 0;
}

/* The value as a result of the loops around it. The op `offset` is not linear: a sum
 * over ranks or microbatches is completed before it, and no later op depends on
 * their order. */
static Value *yielded(Lift *t, Value *v)
{
    Attr attr[MAX_ATTRS] = {{.f = 0.0}};
    while (v->region->owner)
        v = ir_loop_add_yield(t->l->p, v->region->owner, v);
    return dtype_is_float(v->type.dtype) ? ir_value(&t->b, OP_offset, 1, &v, attr, v->name) : v;
}

static Value *lift(Lift *t, Value *v);

static Value *lift_op(Lift *t, const Op *op)
{
    Value **arg = NEW_ARRAY(t->l->arena, Value *, op->nargs);
    for (int i = 0; i < op->nargs; i++) {
        const Value *v = op->arg[i];
        arg[i] = is_number(v) ? ir_value(&t->b, OP_full, 0, NULL, v->def->attr, NULL)
                              : lift(t, op->arg[i]);
    }
    return ir_value(&t->b, op->kind, op->nargs, arg, op->attr, op->out[0]->name);
}

static Value *lift_new(Lift *t, Value *v)
{
    const Op *loop = v->def ? NULL : v->region->owner;
    if (v->def && v->def->kind == OP_param)
        return v;
    if (v->def && is_elementwise(v->def))
        return lift_op(t, v->def);
    if (loop && loop_is_stack(loop, v->index))
        return lift(t, loop->arg[v->index]);
    return yielded(t, v);
}

static Value *lift(Lift *t, Value *v)
{
    for (int i = 0; i < t->from.n; i++)
        if (t->from.at[i] == v)
            return t->to.at[i];
    Value *made = lift_new(t, v);
    vec_push(t->l->arena, &t->from, v);
    vec_push(t->l->arena, &t->to, made);
    return made;
}

/* A value that is assigned is computed by the optimizer's phase, and is no other
 * state's. */
static Value *own_value(Lift *t, Value *v, const ValueSet *assigned)
{
    bool own = v->def && v->def->phase == PH_OPTIMIZER && !vec_has(assigned, v);
    return own ? v : ir_value(&t->b, OP_copy, 1, &v, NULL, v->name);
}

void lower_assign_states(Lower *l)
{
    ValueSet assigned = {0};
    Lift t = {.l = l};
    t.b = (Build){.p = l->p, .region = l->p->step, .phase = PH_OPTIMIZER};
    for (int i = 0; i < l->update.n; i++) {
        const StateUpdate *u = &l->update.at[i];
        int param = l->candidate.at[u->candidate].index;
        const Param *state = &l->p->param.at[param];
        Attr attr[MAX_ATTRS] = {{.i = param}};
        t.b.loc = lower_user_loc(l, u->stmt->loc);
        t.b.path = path_parent(l->arena, state->name);
        Value *v = own_value(&t, lift(&t, u->value), &assigned);
        v->name = ir_unique_name(l->p, arena_printf(l->arena, "%s.new", state->value->name));
        vec_push(l->arena, &assigned, v);
        ir_op(&t.b, OP_assign, 1, &v, attr, NULL);
    }
}
