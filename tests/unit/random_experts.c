/* random_experts.c: builds the mixtures of experts of a random model. */
#include "ir/analysis/choices.h"
#include "tests/unit/random.h"

static Value *ternary(Build *b, OpKind kind, Value *x, Value *y, Value *z)
{
    Attr attr[MAX_ATTRS] = {{.i = x->type.dtype}};
    Value *args[] = {x, y, z};
    return ir_value(b, kind, 3, args, attr, NULL);
}

static Value *weight(Model *m, const char *name, int64_t experts, int64_t out, int64_t in,
                     DType dtype)
{
    int64_t dims[] = {experts, out, in};
    int w = model_param(m, model_name(m, name), 3, dims);
    return ir_cast(model_at(m), model_param_value(m, w), dtype);
}

/* The squared distances of the scores to the last chosen one, which has no gradient: two
 * experts that nearly equal scores put in another order have nearly no weight. */
static Value *choose(Model *m, Value *h, int64_t experts, int64_t n, Value **ids)
{
    Build *b = model_at(m);
    Value *w = weight(m, "router", 1, experts, m->dim, h->type.dtype);
    w = ir_reshape(b, w, 2, (int64_t[]){experts, m->dim});
    Value *scores = ir_einsum(b, "bsd,ed->bse", DT_F32, h, w);
    Attr attr[MAX_ATTRS] = {{.i = n}, {.i = rng_chance(m->r, 80)}};
    Op *top = ir_op(b, OP_topk, 1, &scores, attr, "v");
    Attr last[MAX_ATTRS] = {{.i = 2}, {.i = n - 1}, {.i = 1}};
    Value *least = ir_value(b, OP_slice, 1, &top->out[0], last, NULL);
    Value *x = ir_binary(b, OP_sub, top->out[0], ir_unary(b, OP_detach, least));
    *ids = top->out[1];
    return ir_unary(b, OP_tanh, ir_binary(b, OP_mul, x, x));
}

/* The axis that splits experts, which the first mixture of the model decides; -1: none. */
static int experts_axis(Model *m)
{
    Program *p = m->p;
    int axis = (int)rng_below(m->r, p->mesh.n + 1);
    for (int a = 0; a < p->mesh.n; a++)
        if (p->plan.experts.axes >> a & 1)
            return a;
    if (axis == p->mesh.n || p->mesh.size[axis] == 1)
        return -1;
    if (!p->plan.experts.nitems)
        p->plan.experts = (Experts){0, NEW(p->arena, ExpertItem), 1};
    p->plan.experts.axes = 1u << axis;
    p->plan.experts.item->dispatch = DISPATCH_GATHER;
    return axis;
}

/* Limits the choices of some experts in f32: rounding in 16 bits could change a choice, and so drop
 * another token. Returns the limit; 0: none. */
static int64_t limit_choices(Model *m, DType dtype, int64_t experts, Value **ids)
{
    const int64_t *dim = (*ids)->type.dim;
    bool limited = rng_chance(m->r, 40);
    int64_t limit = 1 + rng_below(m->r, 1 + 2 * dim[1] * dim[2] / experts);
    if (!limited || dtype != DT_F32)
        return 0;
    Attr attr[MAX_ATTRS] = {{.i = experts}, {.i = limit}};
    Value *args[] = {*ids, *ids};
    *ids = ir_op(model_at(m), OP_limit_choices, 2, args, attr, "kept")->out[0];
    return limit;
}

/* Some number that divides n and is at most 4. */
static int64_t divisor(Model *m, int64_t n)
{
    int64_t d = 1 + rng_below(m->r, 4);
    return n % d ? 1 : d;
}

/* Each token is sent to some experts of two layers; a weight multiplies what the expert's first
 * layer or its second one returns. */
Value *random_experts(Model *m, Value *h)
{
    Build *b = model_at(m);
    DType dtype = h->type.dtype;
    int axis = experts_axis(m);
    int64_t shards = axis < 0 ? divisor(m, 2) : m->p->mesh.size[axis];
    int64_t experts = shards * (1 + rng_below(m->r, 3)) + (shards == 1);
    int64_t n = 2 + rng_below(m->r, experts - 1);
    int64_t hidden = 2 * (1 + rng_below(m->r, m->dim));
    int64_t g = divisor(m, h->type.dim[0]), s = divisor(m, h->type.dim[1]);
    Value *ids, *weights = choose(m, h, experts, n, &ids);
    int64_t limit = limit_choices(m, dtype, experts, &ids);
    Choices of = {h->type.dim[0], h->type.dim[1], n, g, s, shards, experts / shards, limit};
    int64_t rows = choices_most_rows(&of), fewer = 1 + rng_below(m->r, rows);
    if (m->p->plan.experts.nitems && m->p->plan.experts.item->buffer > 0)
        rows = fewer;
    AttrList shape = {5, {g, s, shards, rows, experts / shards}};
    Op *group = ir_group_rows(b, ids, shape, limit, "rows");
    Value *pair = group->out[0], *row = group->out[1], *ends = group->out[2];
    Value *by = ternary(b, OP_gather_pairs, weights, pair, row);
    by = ir_cast(b, ir_reshape(b, by, 5, (int64_t[]){g, s, shards, rows, 1}), dtype);
    Value *x = ternary(b, OP_gather_rows, h, pair, row);
    x = ternary(b, OP_grouped_matmul, x, weight(m, "up", experts, hidden, m->dim, dtype), ends);
    bool early = rng_chance(m->r, 50);
    x = ir_unary(b, OP_tanh, x);
    if (early)
        x = ir_binary(b, OP_mul, x, by);
    x = ternary(b, OP_grouped_matmul, x, weight(m, "down", experts, m->dim, hidden, dtype), ends);
    if (!early)
        x = ir_binary(b, OP_mul, x, by);
    x = ternary(b, OP_combine_rows, x, pair, row);
    return ir_binary(b, OP_add, h, ir_unary(b, OP_tanh, x));
}
