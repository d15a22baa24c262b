/* random_model.c: builds a random model: parameters, modules, loops;
 * random_statements.c builds its statements.
 *
 * A model has the form that `lower` gives it: parameters and constants before
 * the inputs, boundaries at the ports of every module, an array of layers as a
 * loop whose stacked parameters are sliced one layer at a time.
 */
#include "tests/unit/random.h"

#include <math.h>
#include <string.h>

#include "passes/autodiff/autodiff.h"

/* ---- numbers (splitmix64) ---------------------------------------------- */

uint64_t rng_next(Rng *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t rng_below(Rng *r, int64_t n)
{
    return (int64_t)(rng_next(r) % (uint64_t)n);
}

bool rng_chance(Rng *r, int percent)
{
    return rng_below(r, 100) < percent;
}

double rng_normal(Rng *r)
{
    double u = ((double)(rng_next(r) >> 11) + 1) / 9007199254740993.0;
    double v = (double)(rng_next(r) >> 11) / 9007199254740992.0;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ---- levels ------------------------------------------------------------ */

Build *model_at(Model *m)
{
    Build *b = &m->level[m->depth].b;
    b->path = m->path;
    return b;
}

static Value *bring(Model *m, Level *l, Value *outer, bool stack)
{
    for (int i = 0; i < l->brought.n; i++)
        if (l->brought.at[i].outer == outer)
            return l->brought.at[i].arg;
    Brought b = {outer, stack ? ir_loop_add_stack(m->p, l->loop, outer)
                              : ir_loop_add_free(m->p, l->loop, outer)};
    vec_push(m->p->arena, &l->brought, b);
    return b.arg;
}

Value *model_reach(Model *m, Value *v, int from)
{
    for (int k = from + 1; k <= m->depth; k++)
        v = bring(m, &m->level[k], v, v->type.nstack > 0);
    return v;
}

/* ---- parameters -------------------------------------------------------- */

static Build at_start(Model *m, Phase phase)
{
    return (Build){.p = m->p,
                   .region = m->p->step,
                   .before = m->first_input,
                   .phase = phase,
                   .path = m->path};
}

/* Settings of one in three parameters, without a draw of the model's numbers.
 * Muon updates matrices only, and three of four. */
static ParamGroup random_group(const Model *m, bool matrix)
{
    Rng r = {m->r->state ^ 0x67726f7570u};
    ParamGroup group = {rng_chance(&r, 50) ? 0.25 : 0,
                        rng_chance(&r, 50) ? 0.3 : 0, false};
    if (!rng_chance(&r, 33))
        group = (ParamGroup){0};
    group.adamw = m->p->train.optimizer == OPT_MUON &&
                  (!matrix || rng_chance(&r, 25));
    return group;
}

int model_param(Model *m, const char *leaf, int ndim, const int64_t *dim)
{
    Program *p = m->p;
    Param param = {.trainable = !rng_chance(m->r, 8),
                   .decay = rng_chance(m->r, 50),
                   .group = random_group(m, ndim == 2),
                   .state_of = -1};
    param.name =
        *m->path ? arena_printf(p->arena, "%s.%s", m->path, leaf) : leaf;
    param.init = (Init){.kind = INIT_NORMAL, .a = 1};
    param.type = (Type){.dtype = DT_F32, .nstack = m->depth, .ndim = ndim};
    for (int i = 0; i < m->depth; i++)
        param.type.stack[i] = loop_trips(m->level[i + 1].loop);
    for (int i = 0; i < ndim; i++)
        param.type.dim[i] = dim[i];
    Build b = at_start(m, PH_FORWARD);
    Attr attr[MAX_ATTRS] = {{.i = p->param.n}};
    Op *op =
        ir_op_typed(&b, OP_param, 0, NULL, attr, 1, &param.type, &param.name);
    param.value = op->out[0];
    vec_push(p->arena, &p->param, param);
    return p->param.n - 1;
}

Value *model_narrow(Model *m, Value *x)
{
    return ir_cast(model_at(m), x, m->p->train.precision);
}

Value *model_param_value(Model *m, int param)
{
    return model_narrow(m, model_reach(m, m->p->param.at[param].value, 0));
}

Value *model_param_wide(Model *m, int param)
{
    Value *v = model_param_value(m, param);
    Rng own = *m->r; /* a copy: r's later numbers do not depend on this part */
    return rng_chance(&own, 75) ? ir_cast(model_at(m), v, DT_F32) : v;
}

/* ---- random numbers ----------------------------------------------------- */

/* Each iteration of a loop has its own key. */
static Value *key_at(Model *m, int depth)
{
    Level *l = &m->level[depth];
    if (l->key)
        return l->key;
    if (depth == 0) {
        Build b = at_start(m, PH_FORWARD);
        Attr attr[MAX_ATTRS] = {{.s = "random"}};
        return l->key = ir_value(&b, OP_scalar, 0, NULL, attr, "key");
    }
    Build b = m->level[depth - 1].b;
    b.before = l->loop;
    Value *key = key_at(m, depth - 1);
    Attr attr[MAX_ATTRS] = {{.i = loop_trips(l->loop)}, {.i = 0},
                            {.i = 1}};
    Value *keys = ir_value(&b, OP_split_key, 1, &key, attr, "keys");
    return l->key = ir_loop_add_stack(m->p, l->loop, keys);
}

Value *model_key(Model *m)
{
    return key_at(m, m->depth);
}

Value *model_random(Model *m, const Value *x)
{
    Value *key = model_key(m);
    Attr attr[MAX_ATTRS] = {{.i = m->sites++}, {.l = {.n = x->type.ndim}}};
    for (int d = 0; d < x->type.ndim; d++)
        attr[1].l.v[d] = x->type.dim[d];
    attr[2] = attr[1];
    return ir_value(model_at(m), OP_random, 1, &key, attr, NULL);
}

/* ---- modules ----------------------------------------------------------- */

const char *model_name(Model *m, const char *prefix)
{
    return arena_printf(m->p->arena, "%s%d", prefix, m->nmodules++);
}

Opened model_open(Model *m, const char *name, const char *class, int nin,
                  int nout)
{
    Opened o = {m->p->module.n, m->path};
    m->path =
        *m->path ? arena_printf(m->p->arena, "%s.%s", m->path, name) : name;
    Module module = {.path = m->path,
                     .class = class,
                     .nin = nin,
                     .nout = nout,
                     .first_param = m->p->param.n};
    vec_push(m->p->arena, &m->p->module, module);
    return o;
}

void model_close(Model *m, Opened o)
{
    Module *module = &m->p->module.at[o.module];
    module->nparams = m->p->param.n - module->first_param;
    m->path = o.outer;
}

Value *model_in(Model *m, Value *x, int i)
{
    return ir_boundary(model_at(m), x, m->path, (Port){true, i}, false);
}

Value *model_out(Model *m, Value *x, int i)
{
    return ir_boundary(model_at(m), x, m->path, (Port){false, i}, false);
}

Linear model_linear(Model *m, const char *name, int64_t in, int64_t out,
                    bool bias)
{
    Opened o = model_open(m, name, "Linear", 1, 1);
    Linear l = {
        .path = m->path, .bias = -1, .in = in, .out = out, .level = m->depth};
    l.weight = model_param(m, "weight", 2, (int64_t[]){out, in});
    if (bias)
        l.bias = model_param(m, "bias", 1, &out);
    model_close(m, o);
    vec_push(m->p->arena, &m->linear, l);
    return l;
}

Value *model_call(Model *m, const Linear *l, Value *x)
{
    static const char *const spec[] = {NULL, "k,fk->f", "sk,fk->sf",
                                       "bsk,fk->bsf", "bshk,fk->bshf"};
    const char *outer = m->path;
    m->path = l->path;
    x = model_narrow(m, model_in(m, x, 0));
    Value *y =
        model_einsum(m, spec[x->type.ndim], x, model_param_value(m, l->weight));
    if (l->bias >= 0)
        y = ir_binary(model_at(m), OP_add, y, model_param_value(m, l->bias));
    y = model_out(m, y, 0);
    m->path = outer;
    return y;
}

/* ---- small compositions ------------------------------------------------ */

Value *model_einsum(Model *m, const char *spec, Value *x, Value *y)
{
    return ir_einsum(model_at(m), spec, m->p->train.precision,
                     model_narrow(m, x), model_narrow(m, y));
}

Value *model_scale(Model *m, Value *x, double by)
{
    Attr attr[MAX_ATTRS] = {{.f = by}};
    return ir_value(model_at(m), OP_scale, 1, &x, attr, NULL);
}

Value *model_offset(Model *m, Value *x, double by)
{
    Attr attr[MAX_ATTRS] = {{.f = by}};
    return ir_value(model_at(m), OP_offset, 1, &x, attr, NULL);
}

Value *model_mean(Model *m, Value *x, int dim)
{
    AttrList dims = {1, {dim}};
    Value *sum = ir_sum(model_at(m), x, dims, true);
    return model_scale(m, sum, 1.0 / (double)x->type.dim[dim]);
}

Value *model_norm(Model *m, Value *x)
{
    Build *b = model_at(m);
    Value *mean = model_mean(m, ir_binary(b, OP_mul, x, x), x->type.ndim - 1);
    Value *r = ir_unary(b, OP_rsqrt, model_offset(m, mean, 0.5));
    return ir_binary(b, OP_mul, x, r);
}

static Value *sum_of_all(Model *m, Value *x)
{
    AttrList dims = {.n = x->type.ndim};
    for (int d = 0; d < x->type.ndim; d++)
        dims.v[d] = d;
    return ir_sum(model_at(m), x, dims, false);
}

static Value *mean_of_all(Model *m, Value *x)
{
    return model_scale(m, sum_of_all(m, x),
                       1 / (double)type_elements(&x->type));
}

/* 1 where the label is not the ignored one. */
static Value *counted_labels(Model *m, Value *labels)
{
    Build *b = model_at(m);
    Value *ignored = ir_scalar_const(b, (double)rng_below(m->r, 4));
    Value *equal = ir_binary(b, OP_equal, labels, ignored);
    return model_offset(m, ir_unary(b, OP_neg, equal), 1);
}

Value *model_cross_entropy(Model *m, Value *logits, Value *labels)
{
    Build *b = model_at(m);
    AttrList last = {1, {logits->type.ndim - 1}};
    Value *most = ir_unary(b, OP_detach, ir_max(b, logits, last, true));
    Value *shifted = ir_binary(b, OP_sub, logits, most);
    Value *sum = ir_sum(b, ir_unary(b, OP_exp, shifted), last, false);
    Attr attr[MAX_ATTRS] = {{.i = logits->type.dim[last.v[0]]}};
    Value *hot = ir_value(b, OP_onehot, 1, &labels, attr, NULL);
    Value *log = ir_unary(b, OP_log, sum);
    bool ignores = rng_chance(m->r, 30);
    Value *counts = ignores ? counted_labels(m, labels) : NULL;
    if (ignores) {
        Type wide = labels->type;
        wide.dim[wide.ndim++] = 1;
        Value *column = ir_reshape(b, counts, wide.ndim, wide.dim);
        hot = ir_binary(b, OP_mul, hot, column);
        log = ir_binary(b, OP_mul, log, counts);
    }
    Value *at = ir_sum(b, ir_binary(b, OP_mul, shifted, hot), last, false);
    Value *losses = ir_binary(b, OP_sub, log, at);
    if (!ignores)
        return mean_of_all(m, losses);
    Value *divisor = ir_binary(b, OP_maximum, sum_of_all(m, counts),
                               ir_scalar_const(b, 1.0));
    return ir_binary(b, OP_div, sum_of_all(m, losses), divisor);
}

/* ---- the model --------------------------------------------------------- */

static Value *add_input(Model *m, const char *name, Type t, int64_t below)
{
    Program *p = m->p;
    Input input = {.name = name, .type = t, .below = below};
    Attr attr[MAX_ATTRS] = {{.i = p->input.n}};
    Op *op = ir_op_typed(model_at(m), OP_input, 0, NULL, attr, 1, &t, &name);
    input.value = op->out[0];
    vec_push(p->arena, &p->input, input);
    if (!m->first_input)
        m->first_input = op;
    return input.value;
}

static Value *embed(Model *m)
{
    Opened o = model_open(m, "tok", "Embedding", 1, 1);
    Value *ids = model_in(m, m->tokens, 0);
    int table = model_param(m, "weight", 2, (int64_t[]){m->vocab, m->dim});
    Value *args[] = {model_param_value(m, table), ids};
    Value *h = ir_value(model_at(m), OP_embedding, 2, args, NULL, "h");
    h = model_out(m, h, 0);
    model_close(m, o);
    m->table = table;
    return h;
}

/* The head may reuse the embedding's table as its weight. */
static Value *head(Model *m, Value *h, Value *labels)
{
    Linear l;
    if (m->p->train.async_tp == 1 && rng_chance(m->r, 40))
        m->p->train.head_chunk = 1 + rng_below(m->r, 12);
    if (m->table >= 0 && rng_chance(m->r, 40)) {
        Opened o = model_open(m, "head", "Linear", 1, 1);
        model_close(m, o);
        l = (Linear){.path = "head", .weight = m->table, .bias = -1};
    } else {
        l = model_linear(m, "head", m->dim, m->vocab, rng_chance(m->r, 30));
    }
    return model_cross_entropy(m, model_call(m, &l, model_norm(m, h)), labels);
}

/* No two terms cancel, as only rounding errors would remain. */
static Value *write_loss(Model *m, Value *h, Value *labels)
{
    Build *b = model_at(m);
    switch (rng_below(m->r, 4)) {
    case 0:
        return mean_of_all(m, ir_binary(b, OP_mul, h, h));
    case 1:
        return mean_of_all(m, ir_unary(b, OP_sigmoid, h));
    default:
        return head(m, h, labels);
    }
}

static DType random_precision(Rng *r)
{
    int64_t x = rng_below(r, 10);
    return x < 3 ? DT_BF16 : x < 4 ? DT_F16 : DT_F32;
}

/* A model without a trained parameter is refused: adds one. */
static Value *with_gain(Model *m, Value *h)
{
    Program *p = m->p;
    if (autodiff_flow(p, h)[h->id])
        return h;
    int gain = model_param(m, "gain", 1, &m->dim);
    p->param.at[gain].trainable = true;
    Value *by = ir_cast(model_at(m), model_param_value(m, gain), h->type.dtype);
    return ir_binary(model_at(m), OP_mul, h, by);
}

static void choose_sizes(Model *m, uint32_t data_axes)
{
    int64_t parts = 1;
    for (int a = 0; a < m->p->mesh.n; a++)
        parts *= data_axes >> a & 1 ? m->p->mesh.size[a] : 1;
    m->batch = parts == 8 ? 8 : parts == 6 ? 6 : rng_pick(m->r, 12, 12, 12, 24);
    int64_t micro = rng_chance(m->r, 40) ? 2 + rng_below(m->r, 3) : 1;
    if (micro > 1)
        m->batch = parts * micro * (parts < 4 ? rng_pick(m->r, 1, 2, 2, 3) : 1);
    int64_t rows = m->batch / (parts * micro), pieces = rng_pick(m->r, 1, 1, 1, 1, 2, 3);
    pieces = rows % pieces == 0 ? pieces : 1;
    m->seq = m->times * rng_pick(m->r, 4, 4, 4, 6, 8);
    m->dim = m->times * rng_pick(m->r, 12, 12, 12, 24, 8, 10);
    m->vocab = m->times * rng_pick(m->r, 12, 16, 13, 10, 13, 3);
    m->p->train = (Train){.batch = m->batch,
                          .seq = m->seq,
                          .accumulate = micro,
                          .recompute = (Recompute)rng_pick(m->r, 0, 0, 1, 2),
                          .async_tp = pieces,
                          .precision = random_precision(m->r),
                          .reduce = rng_chance(m->r, 15) ? DT_BF16 : DT_F32,
                          .optimizer = (OptimizerKind)rng_below(m->r, OPTIMIZERS),
                          .lr = 0.1,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .eps = 1e-3,
                          .weight_decay = rng_chance(m->r, 70) ? 0.1 : 0,
                          .momentum = rng_chance(m->r, 50) ? 0.9 : 0,
                          .clip = rng_chance(m->r, 40) ? 0.3 : 0,
                          .loss_scale = rng_chance(m->r, 25) ? 256 : 0,
                          .nesterov = rng_chance(m->r, 60),
                          .ns_steps = 1 + rng_below(m->r, 5),
                          .adjust_lr = (LrAdjustment)rng_below(m->r, 3),
                          .adamw_eps = 1e-3,
                          .beta2_decay = -0.8,
                          .eps1 = 0.01,
                          .eps2 = 0.1,
                          .clip_threshold = rng_pick(m->r, 1, 1, 0, 3),
                          .ema = rng_chance(m->r, 20) ? 0.75 : 0,
                          .schedule = {.kind = (ScheduleKind)rng_below(m->r, 3),
                                       .warmup = rng_below(m->r, 3),
                                       .steps = 4,
                                       .min_lr = 0.01}};
}

void random_model(Program *p, Rng *r, uint32_t data_axes)
{
    random_large_model(p, r, data_axes, 1);
}

void random_large_model(Program *p, Rng *r, uint32_t data_axes, int64_t times)
{
    Model model = {
        .p = p, .r = r, .path = "", .times = times, .table = -1, .left = 14};
    Model *m = &model;
    m->level[0].b =
        (Build){.p = p, .region = p->step, .phase = PH_FORWARD, .path = ""};
    p->model = "Random";
    choose_sizes(m, data_axes);
    Module root = {.path = "", .class = "Random", .nin = 2, .nout = 1};
    vec_push(p->arena, &p->module, root);
    Type ids = {.dtype = DT_I32, .ndim = 2, .dim = {m->batch, m->seq}};
    Type real = {.dtype = p->train.precision,
                 .ndim = 3,
                 .dim = {m->batch, m->seq, m->dim}};
    bool has_table = rng_chance(r, 70);
    m->tokens = add_input(m, "tokens", ids, m->vocab);
    Value *labels = add_input(m, "labels", ids, m->vocab);
    Value *h = has_table ? embed(m) : add_input(m, "x", real, 0);
    int64_t statements = 1 + rng_below(r, 4);
    for (int64_t i = 0; i < statements; i++) {
        Known k = {h, 0};
        vec_push(p->arena, &m->known, k);
        h = random_statement(m, h);
    }
    model_state(m, h);
    h = with_gain(m, h);
    Value *loss = ir_cast(model_at(m), write_loss(m, h, labels), DT_F32);
    Attr attr[MAX_ATTRS] = {{.s = "loss"}};
    ir_op(model_at(m), OP_output, 1, &loss, attr, NULL);
    model_assign_states(m);
    p->module.at[0].nparams = p->param.n;
}
