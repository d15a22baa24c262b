/* random_states.c: adds states of modules to a random model, and their updates, in the form
 * that `lower` gives them: a statistic of the batch where the layer computes it, and at
 * the end of the step elementwise ops on its stack.
 *
 *   %stat = scale{by=…} %sum : f32[12]                        in the layer
 *   …
 *   %a = offset{by=0} %stats : f32[3 x 12] optimizer          in the step
 *   %new = add %b, %c : f32[3 x 12] optimizer
 *   assign{param="layers.*.state"} %new optimizer
 */
#include "tests/unit/random.h"

#include <string.h>

static int add_state(Model *m, const char *leaf, int ndim)
{
    int i = model_param(m, leaf, ndim, &m->dim);
    Param *q = &m->p->param.at[i];
    q->trainable = q->decay = false;
    q->group = (ParamGroup){0};
    q->module_state = true;
    return i;
}

/* A vector of the current module, or of one in it, that the update reads; -1: none. */
static int followed(const Model *m)
{
    for (int i = m->p->param.n - 1; i >= 0; i--) {
        const Param *q = &m->p->param.at[i];
        if (q->type.ndim == 1 && q->type.dim[0] == m->dim && q->type.nstack == m->depth &&
            !q->module_state && strncmp(q->name, m->path, strlen(m->path)) == 0)
            return i;
    }
    return -1;
}

void model_state(Model *m, Value *h)
{
    Rng *later = m->r, own = {m->r->state ^ 0x7374617465u};
    if (!rng_chance(&own, 30))
        return;
    m->r = &own;
    NewState s = {.mean = add_state(m, "state", 1), .count = -1, .follows = -1};
    if (rng_chance(&own, 50))
        s.follows = followed(m);
    if (rng_chance(&own, 40))
        s.count = add_state(m, "count", 0);
    Build *b = model_at(m);
    AttrList rows = {2, {0, 1}};
    Value *sum = ir_sum(b, ir_cast(b, h, DT_F32), rows, false);
    s.statistic = model_scale(m, sum, 1.0 / (double)(m->batch * m->seq));
    vec_push(m->p->arena, &m->state, s);
    m->r = later;
}

static void assign(Build *b, int param, Value *v)
{
    Attr attr[MAX_ATTRS] = {{.i = param}};
    ir_op(b, OP_assign, 1, &v, attr, NULL);
}

static Value *with_number(Build *b, OpKind kind, Value *x, double by)
{
    Attr attr[MAX_ATTRS] = {{.f = by}};
    return ir_value(b, kind, 1, &x, attr, NULL);
}

/* 0.1, or with a count 1 / (1 + count^2), which the update increases. */
static Value *share_of(Build *b, const NewState *s, Value *change)
{
    if (s->count < 0)
        return with_number(b, OP_scale, change, 0.1);
    Value *count = b->p->param.at[s->count].value;
    Value *square = ir_binary(b, OP_mul, count, count);
    Value *share = ir_unary(b, OP_recip, with_number(b, OP_offset, square, 1));
    assign(b, s->count, with_number(b, OP_offset, count, 1));
    return ir_binary(b, OP_mul, change, share);
}

void model_assign_states(Model *m)
{
    Program *p = m->p;
    Build b = {.p = p, .region = p->step, .phase = PH_OPTIMIZER, .path = ""};
    for (int i = 0; i < m->state.n; i++) {
        const NewState *s = &m->state.at[i];
        Value *v = s->statistic, *old = p->param.at[s->mean].value;
        while (v->region->owner)
            v = ir_loop_add_yield(p, v->region->owner, v);
        v = ir_binary(&b, OP_sub, with_number(&b, OP_offset, v, 0), old);
        if (s->follows >= 0)
            v = ir_binary(&b, OP_add, v, p->param.at[s->follows].value);
        assign(&b, s->mean, ir_binary(&b, OP_add, old, share_of(&b, s, v)));
    }
}
