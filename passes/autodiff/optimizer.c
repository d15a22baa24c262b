/* optimizer.c: expands parameter updates into primitive operators.
 *
 * requires: STAGE_STORED, or the global program after autodiff
 * ensures:  no `update` ops. They are replaced by elementwise ops on the
 *           parameter, its gradient and its states, in their storage placement.
 *           The order of operations is PyTorch's. Scalars that several updates
 *           need are computed once for each group of parameters with equal
 *           settings. If the gradients are scaled (clipping, loss
 *           scale), each is multiplied by the scale where it is read. With a
 *           loss scale, a step whose gradients are not finite selects the old
 *           values
 *
 *   before
 *     %w.new, %w.m.new, %w.v.new = update{param="w"} %w, %dw.2, %lr,
 *                                  %bias1, %bias2, %w.m, %w.v
 *   after (AdamW, weight_decay 0.1, betas 0.9 and 0.95, eps 1e-8)
 *     %scale = scale{by=-0.1} %lr : f32[] optimizer
 *     %shrink = offset{by=1} %scale : f32[] optimizer
 *     %mul = mul %w, %shrink : f32[4] optimizer
 *     %step_size = div %lr, %bias1 : f32[] optimizer
 *     %root = sqrt %bias2 : f32[] optimizer
 *     %scale.2 = scale{by=0.9} %w.m : f32[4] optimizer
 *     %scale.3 = scale{by=0.0999…} %dw.2 : f32[4] optimizer
 *     %w.m.new = add %scale.2, %scale.3 : f32[4] optimizer
 *     %mul.2 = mul %dw.2, %dw.2 : f32[4] optimizer
 *     %scale.4 = scale{by=0.95} %w.v : f32[4] optimizer
 *     %scale.5 = scale{by=0.0500…} %mul.2 : f32[4] optimizer
 *     %w.v.new = add %scale.4, %scale.5 : f32[4] optimizer
 *     %sqrt = sqrt %w.v.new : f32[4] optimizer
 *     %div = div %sqrt, %root : f32[4] optimizer
 *     %offset = offset{by=1e-08} %div : f32[4] optimizer
 *     %mul.3 = mul %w.m.new, %step_size : f32[4] optimizer
 *     %div.2 = div %mul.3, %offset : f32[4] optimizer
 *     %w.new = sub %mul, %div.2 : f32[4] optimizer
 *
 * The stacked update runs as a loop over layers (optimizer_layers.c) in three
 * cases. The layers of a parameter that stays gathered are not contiguous in
 * memory. Ranks of a pipeline have unequal numbers of layers. Tensors in host
 * memory are fetched layer by layer. One loop updates all
 * parameters of an array of modules, or of a unit that is in host memory: then an
 * iteration handles the states of one layer of the unit.
 */
#include "base/bug.h"
#include "passes/fsdp/offload.h"
#include "passes/autodiff/autodiff.h"

#include <string.h>

enum { MAX_RESULTS = 1 + MAX_UPDATE_STATES }; /* the parameter and its states */

/* Scalars that the updates of a group of parameters share; NULL: not built yet. */
typedef struct Shared {
    double lr_factor, decay; /* of the group */
    Value *lr;        /* of the group */
    Value *shrink;    /* 1 - lr weight_decay */
    Value *step_size; /* lr / bias1; of Adafactor min(lr, bias2) */
    Value *root;      /* sqrt(bias2) */
} Shared;
typedef VEC(Shared *) Groups;

/* A copy, in the place of which the direction of Muon's update is computed. */
typedef struct Direction {
    Op *copy;
    int param;
} Direction;
typedef VEC(Direction) Directions;
typedef VEC(Factored) Factoreds;

typedef struct Updater {
    Build b;
    const Train *train;
    const Op *op;
    Shared *shared;
    Directions *directions;
    Factoreds *factored;
} Updater;

static Value *factor(Updater *u, OpKind kind, Value *x, double by,
                     const char *hint)
{
    Attr attr[MAX_ATTRS] = {{.f = by}};
    return ir_value(&u->b, kind, 1, &x, attr, hint);
}

/* x a + y b */
static Value *weighted_sum(Updater *u, Value *x, double a, Value *y, double b)
{
    Value *left = factor(u, OP_scale, x, a, NULL);
    Value *right = factor(u, OP_scale, y, b, NULL);
    return ir_binary(&u->b, OP_add, left, right);
}

static Value *old_state(const Updater *u, int i)
{
    return update_old(u->op, 1 + i);
}

static Value *gradient(Updater *u)
{
    Value *const *arg = u->op->arg;
    if (update_first_state(u->op) <= UPDATE_FACTOR)
        return arg[UPDATE_GRAD];
    return ir_binary(&u->b, OP_mul, arg[UPDATE_GRAD], arg[UPDATE_FACTOR]);
}

/* The learning rate of the parameter's group. */
static Value *learning_rate(Updater *u)
{
    Shared *s = u->shared;
    Value *lr = u->op->arg[UPDATE_LR];
    if (s->lr_factor == 1.0)
        return lr;
    if (s->lr == NULL)
        s->lr = factor(u, OP_scale, lr, s->lr_factor, "group_lr");
    return s->lr;
}

/* The gradient plus weight decay, as in Adam and SGD. */
static Value *decayed_gradient(Updater *u)
{
    Value *g = gradient(u);
    if (u->shared->decay == 0.0)
        return g;
    Value *pull = factor(u, OP_scale, u->op->arg[UPDATE_PARAM],
                         u->shared->decay, NULL);
    return ir_binary(&u->b, OP_add, g, pull);
}

/* The parameter shrunk by weight decay, as in AdamW and Lion. */
static Value *decayed_param(Updater *u)
{
    Value *param = u->op->arg[UPDATE_PARAM];
    if (u->shared->decay == 0.0)
        return param;
    if (u->shared->shrink == NULL) {
        Value *part = factor(u, OP_scale, learning_rate(u), -u->shared->decay,
                             NULL);
        u->shared->shrink = factor(u, OP_offset, part, 1.0, "shrink");
    }
    return ir_binary(&u->b, OP_mul, param, u->shared->shrink);
}

static void adam_step(Updater *u, Value *param, Value *g, Value **result)
{
    const Train *t = u->train;
    Value *const *arg = u->op->arg;
    Shared *s = u->shared;

    if (s->step_size == NULL) {
        Value *args[] = {learning_rate(u), arg[UPDATE_BIAS1]};
        s->step_size = ir_value(&u->b, OP_div, 2, args, NULL, "step_size");
        s->root = ir_value(&u->b, OP_sqrt, 1, &arg[UPDATE_BIAS2], NULL, "root");
    }
    Value *m = weighted_sum(u, old_state(u, 0), t->beta1, g, 1.0 - t->beta1);
    Value *square = ir_binary(&u->b, OP_mul, g, g);
    Value *v =
        weighted_sum(u, old_state(u, 1), t->beta2, square, 1.0 - t->beta2);
    Value *spread =
        ir_binary(&u->b, OP_div, ir_unary(&u->b, OP_sqrt, v), s->root);
    double eps = t->optimizer == OPT_MUON ? t->adamw_eps : t->eps;
    Value *divisor = factor(u, OP_offset, spread, eps, NULL);
    Value *step = ir_binary(&u->b, OP_mul, m, s->step_size);
    step = ir_binary(&u->b, OP_div, step, divisor);
    result[0] = ir_binary(&u->b, OP_sub, param, step);
    result[1] = m;
    result[2] = v;
}

static void expand_adamw(Updater *u, Value **result)
{
    Value *param = decayed_param(u);
    adam_step(u, param, gradient(u), result);
}

static void expand_adam(Updater *u, Value **result)
{
    Value *g = decayed_gradient(u);
    adam_step(u, u->op->arg[UPDATE_PARAM], g, result);
}

/* 1 where x > 0, -1 where x < 0, else x: a zero, such as an element of padding,
 * or NaN, which must not stay hidden. */
static Value *sign(Updater *u, Value *x)
{
    Value *above = ir_unary(&u->b, OP_step, x);
    Value *below = ir_unary(&u->b, OP_step, ir_unary(&u->b, OP_neg, x));
    Value *negative[] = {below, ir_unary(&u->b, OP_neg, below), x};
    Value *positive[] = {
        above, above, ir_value(&u->b, OP_select, 3, negative, NULL, NULL)};
    return ir_value(&u->b, OP_select, 3, positive, NULL, "sign");
}

/* Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023. */
static void expand_lion(Updater *u, Value **result)
{
    const Train *t = u->train;
    Value *param = decayed_param(u), *g = gradient(u), *m = old_state(u, 0);

    Value *direction =
        sign(u, weighted_sum(u, m, t->beta1, g, 1.0 - t->beta1));
    Value *step = ir_binary(&u->b, OP_mul, direction, learning_rate(u));
    result[0] = ir_binary(&u->b, OP_sub, param, step);
    result[1] = weighted_sum(u, m, t->beta2, g, 1.0 - t->beta2);
}

/* torch.optim.Muon. The direction replaces a copy of the averaged gradient when
 * all updates are expanded: then a loop has the matrices of a stack apart. */
static void expand_muon(Updater *u, Value **result)
{
    const Train *t = u->train;
    Value *param = decayed_param(u), *g = gradient(u);
    double left = 1.0 - t->momentum;

    Value *m = weighted_sum(u, old_state(u, 0), t->momentum, g, left);
    Value *average =
        t->nesterov ? weighted_sum(u, m, t->momentum, g, left) : m;
    Value *direction = ir_value(&u->b, OP_copy, 1, &average, NULL, "direction");
    Direction todo = {direction->def, attr_param(u->op)};
    vec_push(u->b.p->arena, u->directions, todo);
    Value *step = ir_binary(&u->b, OP_mul, direction, learning_rate(u));
    result[0] = ir_binary(&u->b, OP_sub, param, step);
    result[1] = m;
}

static Op *copied(Updater *u, Value *x)
{
    return ir_value(&u->b, OP_copy, 1, &x, NULL, NULL)->def;
}

/* torch.optim.Adafactor. The means and the direction are computed in place of copies when all
 * updates are expanded, as Muon's. */
static void expand_adafactor(Updater *u, Value **result)
{
    Shared *s = u->shared;
    Value *const *arg = u->op->arg;
    if (s->step_size == NULL) {
        Value *args[] = {learning_rate(u), arg[UPDATE_BIAS2]};
        s->step_size = ir_value(&u->b, OP_minimum, 2, args, NULL, "rate");
    }
    Value *param = decayed_param(u), *g = gradient(u);
    Factored f = {.param = attr_param(u->op), .rate = s->step_size,
                  .share = arg[UPDATE_BIAS1]};
    f.weight = copied(u, arg[UPDATE_PARAM]);
    f.row = copied(u, old_state(u, 0));
    result[1] = f.row->out[0];
    if (param->type.ndim > 1) {
        f.column = copied(u, old_state(u, 1));
        result[2] = f.column->out[0];
    }
    f.gradient = copied(u, g);
    vec_push(u->b.p->arena, u->factored, f);
    result[0] = ir_binary(&u->b, OP_sub, param, f.gradient->out[0]);
}

static void expand_sgd(Updater *u, Value **result)
{
    Value *g = decayed_gradient(u);

    if (u->train->momentum != 0.0) {
        Value *state =
            factor(u, OP_scale, old_state(u, 0), u->train->momentum, NULL);
        g = ir_binary(&u->b, OP_add, state, g);
        result[1] = g;
    }
    Value *step = ir_binary(&u->b, OP_mul, g, learning_rate(u));
    result[0] = ir_binary(&u->b, OP_sub, u->op->arg[UPDATE_PARAM], step);
}

/* Selects the old value in a step that changes nothing. */
static Value *where_good(Updater *u, Value *new, Value *old)
{
    Value *args[] = {u->op->arg[UPDATE_GOOD], new, old};
    return ir_value(&u->b, OP_select, 3, args, NULL, NULL);
}

typedef void Expand(Updater *u, Value **result);
static Expand *const expand_table[OPTIMIZERS] = {
    [OPT_SGD] = expand_sgd,
    [OPT_ADAM] = expand_adam,
    [OPT_ADAMW] = expand_adamw,
    [OPT_LION] = expand_lion,
    [OPT_MUON] = expand_muon,
    [OPT_ADAFACTOR] = expand_adafactor,
};

/* Whether the layers of the parameter's shard, or of its low-precision copy,
 * which the update writes too, are not contiguous. */
static bool is_stored_separately(const Program *p, const Param *param)
{
    bool separate = param->gathered;
    for (int i = 0; i < p->param.n; i++) {
        const Param *copy = &p->param.at[i];
        separate |= copy->gathered && copy->state_of >= 0 &&
                    &p->param.at[copy->state_of] == param;
    }
    return separate;
}

/* Replacements of results of updates, which later ops have yet to read. */
typedef struct Pending {
    ValueMap to;
    bool any;
} Pending;

static void read_pending(const Pending *pending, Op *op)
{
    for (int i = 0; i < op->nargs && pending->any; i++) {
        Value *to = value_map_get(&pending->to, op->arg[i]);
        op->arg[i] = to ? to : op->arg[i];
    }
}

/* What the expansions of all updates share. */
typedef struct Expansion {
    Groups groups;
    Pending pending;
    Directions directions;
    Factoreds factored;
} Expansion;

/* The shared scalars of the parameter's group. Groups with equal settings are
 * one. */
static Shared *group_of(Program *p, Groups *groups, const Param *param)
{
    Shared new = {.lr_factor = param_lr_factor(param),
                  .decay = param_weight_decay(&p->train, param)};
    for (int i = 0; i < groups->n; i++)
        if (groups->at[i]->lr_factor == new.lr_factor &&
            groups->at[i]->decay == new.decay)
            return groups->at[i];
    Shared *shared = arena_copy(p->arena, &new, sizeof new);
    vec_push(p->arena, groups, shared);
    return shared;
}

/* Expands one update; returns the first op that replaces it. */
static Op *expand(Program *p, Op *op, Expansion *x)
{
    const Param *param = &p->param.at[attr_param(op)];
    Updater u = {.train = &p->train,
                 .op = op,
                 .shared = group_of(p, &x->groups, param),
                 .directions = &x->directions,
                 .factored = &x->factored};
    Value *result[MAX_RESULTS] = {NULL};

    u.b = ir_build_at(p, op, op);
    if (op->nouts > MAX_RESULTS)
        bug("an update with %d results", op->nouts);
    Op *last = op->prev;
    expand_table[param_optimizer(&p->train, param)](&u, result);
    if (p->train.ema > 0)
        result[op->nouts - 1] = weighted_sum(&u, old_state(&u, op->nouts - 2), p->train.ema,
                                             result[0], 1.0 - p->train.ema);
    for (int i = 0; i < op->nouts; i++) {
        if (update_first_state(op) > UPDATE_GOOD)
            result[i] = where_good(&u, result[i], update_old(op, i));
        value_map_set(p, &x->pending.to, op->out[i], result[i]);
        x->pending.any = true;
        result[i]->name = op->out[i]->name;
    }
    ir_remove(op);
    return last ? last->next : p->step->first;
}

/* The op after the update (or its expansion) and after casts of the new
 * value. */
static Op *after_update(Op *update)
{
    Op *op = update->next;
    while (op && op->kind == OP_cast)
        op = op->next;
    return op;
}

/* ---- updates of one unit together ---------------------------------------- */

/* Whether the update runs as a loop over layers: there are several, and they
 * are not contiguous, ranks of a pipeline have unequal numbers of them, they
 * are fetched from host memory one by one, or Muon or Adafactor need each
 * matrix. */
static bool updates_by_layers(const Program *p, const TargetInfo *t, int param)
{
    const Param *pm = &p->param.at[param];
    OptimizerKind kind = param_optimizer(&p->train, pm);
    return pm->type.nstack > 0 &&
           (is_stored_separately(p, pm) || type_cut(&pm->type) ||
            offload_takes_update(p, t, param) ||
            kind == OPT_MUON || kind == OPT_ADAFACTOR);
}

/* Whether one loop updates both: they belong to the same array of modules; or,
 * if they are offloaded and have a unit, to the same unit, so that an iteration
 * fetches the states of one layer of the unit only. */
static bool go_together(const Program *p, const TargetInfo *t, int one,
                        int other)
{
    const Param *a = &p->param.at[one], *b = &p->param.at[other];
    bool offloaded = offload_takes_update(p, t, one);
    if (offloaded != offload_takes_update(p, t, other) ||
        a->type.nstack != b->type.nstack || !a->unit != !b->unit)
        return false;
    for (int i = 0; i < a->type.nstack; i++)
        if (a->type.stack[i] != b->type.stack[i])
            return false;
    if (offloaded && a->unit)
        return strcmp(a->unit, b->unit) == 0;
    size_t n = strcspn(a->name, "*0123456789");
    return strncmp(a->name, b->name, n + 1) == 0;
}

/* The last update after `first` that the same loop runs. Moves the producers of
 * the updates' operands before them, and the assignments after the last. */
static Op *gather_updates(Program *p, const TargetInfo *t, Op *first)
{
    int param = attr_param(first);
    Op *last = first;
    for (Op *op = first->next; op; op = op->next)
        if (op->kind == OP_update) {
            int other = attr_param(op);
            if (!updates_by_layers(p, t, other) ||
                !go_together(p, t, param, other))
                break;
            last = op;
        } else if (op->kind != OP_assign && op->kind != OP_cast &&
                   op->kind != OP_param && op->kind != OP_scalar) {
            break;
        }
    Op *end = after_update(last);
    for (Op *op = first, *next; op != last; op = next) {
        next = op->next;
        if (op->kind == OP_param || op->kind == OP_scalar)
            ir_move(op, op->region, first);
        else if (op->kind == OP_assign)
            ir_move(op, op->region, end);
    }
    return last;
}

/* Expands the updates from op on that one loop runs; returns the first op after
 * them. */
static Op *expand_by_layers(Program *p, const TargetInfo *t, Op *op,
                            Expansion *x)
{
    Op *last = gather_updates(p, t, op), *end = after_update(last);
    Op *begin = NULL;
    for (Op *next; op != end; op = next) {
        next = op->next;
        if (op->kind != OP_update)
            continue;
        Op *made = expand(p, op, x);
        begin = begin ? begin : made;
    }
    for (Op *reader = begin; reader; reader = reader->next)
        read_pending(&x->pending, reader);
    x->pending = (Pending){0};
    optimizer_by_layers(p, begin, end);
    return end;
}

void pass_optimizer(Program *p, const TargetInfo *t)
{
    Expansion x = {0};

    optimizer_norm(p);
    optimizer_states(p);
    for (Op *op = p->step->first, *next; op != NULL; op = next) {
        next = op->next;
        read_pending(&x.pending, op);
        if (op->kind != OP_update)
            continue;
        if (updates_by_layers(p, t, attr_param(op)))
            next = expand_by_layers(p, t, op, &x);
        else
            expand(p, op, &x);
    }
    for (int i = 0; i < x.directions.n; i++)
        optimizer_direction(p, x.directions.at[i].copy, x.directions.at[i].param);
    for (int i = 0; i < x.factored.n; i++)
        optimizer_factored(p, &x.factored.at[i]);
}
