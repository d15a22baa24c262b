/* random_plan.c: draws a random mesh and plan that are legal for a model.
 *
 * Styles may ask for any layout whose sizes divide. A dim is split only if the
 * product of all mesh axes divides it, so layouts that are combined on one dim
 * never conflict, or, in some plans, if it can be padded. FSDP units may have
 * any sizes: runs are padded.
 */
#include "ir/plan/items.h"
#include "ir/plan/styles.h"
#include "passes/pad/pad.h"
#include "tests/unit/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_UNITS = 8 };

/* ---- the mesh ---------------------------------------------------------- */

uint32_t random_mesh(Program *p, Rng *r, const char *shape)
{
    static const char *const shapes[] = {"1x1", "2x1", "1x2", "2x2",
                                         "2x2", "3x2", "2x4", "1x3"};
    char text[32];
    int64_t i = rng_below(r, 8);
    snprintf(text, sizeof text, "%s", shape ? shape : shapes[i]);
    static const char *const names[] = {"dp", "tp", "cp", "ep"};
    for (char *s = strtok(text, "x"); s && p->mesh.n < MAX_MESH_AXES;
         s = strtok(NULL, "x")) {
        p->mesh.name[p->mesh.n] = names[p->mesh.n];
        p->mesh.size[p->mesh.n++] = atoi(s);
    }
    uint32_t all = (1u << p->mesh.n) - 1;
    switch (rng_below(r, 10)) {
    case 0:
        return all;
    case 1:
        return 0;
    case 2:
        return all & ~1u; /* the outermost axis is tensor-parallel */
    default:
        return all & 1u;
    }
}

/* ---- sizes ------------------------------------------------------------- */

/* A plan under construction. */
typedef struct Planner {
    Program *p;
    Rng *r;
    const PadClasses *pads; /* NULL: all sizes must divide */
} Planner;

static bool may_split(const Planner *g, const PadClass *k)
{
    return k->size % mesh_ranks(&g->p->mesh) == 0 ||
           (g->pads && !k->block.why);
}

/* ---- layouts ----------------------------------------------------------- */

/* A port of a module. */
typedef struct Ports {
    const char *path;
    Port port;
    const Value *value; /* NULL: not found */
} Ports;

static void match_port(Op *op, void *context)
{
    Ports *want = context;
    if (op->kind == OP_boundary && !want->value &&
        strcmp(attr_path(op), want->path) == 0 &&
        port_equal(attr_port(op), want->port))
        want->value = op->out[0];
}

static const Value *port_value(const Planner *g, const char *path, bool in,
                               int i)
{
    Program *p = g->p;
    Ports want = {path, {in, i}, NULL};
    ir_walk(p->step, match_port, &want);
    return want.value;
}

static bool may_split_value(const Planner *g, const Value *v, int d)
{
    PadClass alone = {.size = v->type.dim[d], .block = {"", {0}}};
    return may_split(g, g->pads ? pad_class(g->pads, v, d) : &alone);
}

static Layout random_layout(const Planner *g, const Value *v)
{
    Layout l = {LAYOUT_REPLICATE, 0};
    if (!v || v->type.ndim == 0 || rng_chance(g->r, 40))
        return l;
    if (dtype_is_float(v->type.dtype) && rng_chance(g->r, 5))
        return (Layout){LAYOUT_PARTIAL, 0};
    int n = v->type.ndim, d = (int)rng_below(g->r, n);
    int64_t parts = mesh_ranks(&g->p->mesh) * g->p->train.accumulate;
    bool even = d > 0 || g->p->train.accumulate == 1 ||
                v->type.dim[0] % parts == 0;
    if (!even || !may_split_value(g, v, d))
        return l;
    return (Layout){LAYOUT_SHARD, rng_chance(g->r, 50) ? d : d - n};
}

static void pair(const Planner *g, const Value *v, Layout *from, Layout *to)
{
    *from = random_layout(g, v);
    *to = rng_chance(g->r, 40) ? *from : random_layout(g, v);
}

/* ---- styles ------------------------------------------------------------ */

/* Whether Colwise or Rowwise may split the module's parameter. */
static bool splits(const Planner *g, const Module *m, bool colwise)
{
    const Program *p = g->p;
    const char *name = arena_printf(p->arena, "%s.weight", m->path);
    int i = ir_param_index(p, name);
    if (i < 0)
        return false; /* tied */
    bool rows = colwise == (strcmp(m->class, "Linear") == 0);
    return may_split_value(g, p->param.at[i].value, rows ? 0 : 1);
}

static void split_style(const Planner *g, const Module *m, Style *s,
                        bool colwise)
{
    Rng *r = g->r;
    bool linear = strcmp(m->class, "Linear") == 0;
    const Value *in = port_value(g, m->path, true, 0);
    const Value *out = port_value(g, m->path, false, 0);
    s->kind = colwise ? STYLE_COLWISE : STYLE_ROWWISE;
    s->nin = s->nout = 1;
    s->in_from[0] = random_layout(g, in);
    s->in_to[0] = (Layout){LAYOUT_REPLICATE, 0};
    s->out_from[0] = (Layout){LAYOUT_SHARD, -1};
    if (!colwise && linear)
        s->in_to[0] = (Layout){LAYOUT_SHARD, -1};
    if (!colwise)
        s->out_from[0] = (Layout){LAYOUT_PARTIAL, 0};
    if (linear && rng_chance(r, 60))
        s->in_from[0] = s->in_to[0];
    s->out_to[0] = random_layout(g, out);
    if (colwise && rng_chance(r, 60))
        s->out_to[0] = s->out_from[0];
}

static void sequence_style(const Planner *g, const Module *m, Style *s)
{
    const Value *v = port_value(g, m->path, true, 0);
    Layout l = {LAYOUT_SHARD, 1};
    if (v->type.ndim < 2 || !may_split_value(g, v, 1))
        l = (Layout){LAYOUT_REPLICATE, 0};
    s->kind = STYLE_SEQUENCE;
    s->nin = s->nout = 1;
    s->in_from[0] = s->in_to[0] = s->out_from[0] = s->out_to[0] = l;
}

static void prepare_side(const Planner *g, const Module *m, bool in, Style *s)
{
    Rng *r = g->r;
    int n = in ? m->nin : m->nout;
    *(in ? &s->nin : &s->nout) = n;
    for (int i = 0; i < n; i++) {
        const Value *v = port_value(g, m->path, in, i);
        Layout *from = in ? &s->in_from[i] : &s->out_from[i];
        Layout *to = in ? &s->in_to[i] : &s->out_to[i];
        if (rng_chance(r, 80))
            pair(g, v, from, to);
    }
}

static void prepare_style(const Planner *g, const Module *m, Style *s)
{
    bool in = rng_chance(g->r, 60);
    s->kind = in ? STYLE_PREPARE_INPUT : STYLE_PREPARE_OUTPUT;
    prepare_side(g, m, in, s);
}

static const Module *module_at(const Program *p, const char *path)
{
    int i = 0;
    while (strcmp(p->module.at[i].path, path) != 0)
        i++;
    return &p->module.at[i];
}

/* Adds output layouts to some modules with input layouts, as part of the style
 * or as a second one. */
static void prepare_outputs(const Planner *g)
{
    PlanSpec *plan = &g->p->plan;
    int n = plan->nstyles;
    for (int i = 0; i < n; i++) {
        Style *s = &plan->style[i];
        if (s->kind != STYLE_PREPARE_INPUT || !rng_chance(g->r, 50))
            continue;
        const Module *m = module_at(g->p, s->path);
        if (rng_chance(g->r, 50)) {
            s->kind = STYLE_PREPARE_INPUT_OUTPUT;
        } else {
            Style *own = &plan->style[plan->nstyles++];
            *own = (Style){.kind = STYLE_PREPARE_OUTPUT, .path = s->path,
                           .axis = s->axis};
            s = own;
        }
        prepare_side(g, m, false, s);
    }
}

/* Places single parameters, whatever the style of their module. */
static void place_params(const Planner *g, uint32_t tensor_axes)
{
    Program *p = g->p;
    PlanSpec *plan = &p->plan;
    bool any = rng_chance(g->r, 30);
    for (int a = 0; a < p->mesh.n; a++)
        for (int i = 0; any && i < p->param.n; i++) {
            const Param *q = &p->param.at[i];
            if (!(tensor_axes >> a & 1) || !q->value || q->type.ndim == 0 ||
                !rng_chance(g->r, 25))
                continue;
            int d = (int)rng_below(g->r, q->type.ndim);
            Style *s = &plan->style[plan->nstyles++];
            *s = (Style){.kind = STYLE_PARAMETER, .path = q->name, .axis = a,
                         .nin = 1};
            s->in_to[0] = (Layout){LAYOUT_REPLICATE, 0};
            if (may_split_value(g, q->value, d))
                s->in_to[0] = (Layout){LAYOUT_SHARD, d};
            s->in_from[0] = s->in_to[0];
        }
}

static bool random_style(const Planner *g, const Module *m, int axis, Style *s)
{
    Rng *r = g->r;
    *s = (Style){.path = m->path, .axis = axis};
    bool linear = strcmp(m->class, "Linear") == 0;
    if (*m->path == 0 || rng_chance(r, 20))
        return false;
    if (linear || strcmp(m->class, "Embedding") == 0) {
        bool colwise = rng_chance(r, 50);
        if (strstr(m->path, "down") || strstr(m->path, "wo"))
            colwise = rng_chance(r, 15);
        if (!splits(g, m, colwise))
            return false;
        split_style(g, m, s, colwise);
    } else if (strstr(m->class, "Norm") && rng_chance(r, 60)) {
        sequence_style(g, m, s);
    } else {
        prepare_style(g, m, s);
    }
    return true;
}

/* ---- units ------------------------------------------------------------- */

static void random_unit(Program *p, Rng *r, uint32_t data_axes, Unit *u)
{
    int axis[2], n = 0;
    while (n < 2) {
        int a = (int)rng_below(r, p->mesh.n);
        if (data_axes >> a & 1)
            axis[n++] = a;
    }
    *u = (Unit){.axes = 1u << axis[0],
                .replicate_axis = axis[1] == axis[0] ? -1 : axis[1],
                .strategy = rng_chance(r, 15) ? STRATEGY_NO_SHARD
                                              : STRATEGY_NONE,
                .reshard = (int)rng_pick(r, -1, -1, 0, 1),
                .prefetch = (int)rng_pick(r, -1, -1, 0, 1, 2)};
    const Module *m = &p->module.at[rng_below(r, p->module.n)];
    if (rng_chance(r, 20) && *m->path) {
        u->kind = UNIT_EVERY;
        u->class = m->class;
        return;
    }
    if (rng_chance(r, 10)) {
        u->kind = UNIT_MIN_PARAMS;
        u->min_params = 100;
        return;
    }
    const char **path = NEW_ARRAY(p->arena, const char *, 2);
    path[0] = m->path;
    path[1] = p->module.at[rng_below(r, p->module.n)].path;
    u->kind = UNIT_PATHS;
    u->path = path;
    u->npaths = !strchr(path[0], '*') && !strchr(path[1], '*') && *path[0] &&
                        *path[1] && strcmp(path[0], path[1]) != 0
                    ? 2
                    : 1;
}

/* Once for all microbatches, sometimes. */
static void random_often(Unit *u, Rng *r)
{
    bool sharded = u->strategy != STRATEGY_NO_SHARD;
    u->reduce = sharded && rng_chance(r, 25) ? PER_STEP : PER_MICROBATCH;
    u->overlap = !rng_chance(r, 25);
    if (!sharded || u->reshard > 0 || !rng_chance(r, 25))
        return;
    u->gather = PER_STEP;
    u->reshard = 0;
}

/* The number of dots in a path: 0 for a module of the root. */
static int path_depth(const char *path)
{
    int n = 0;
    for (; *path; path++)
        n += *path == '.';
    return n;
}

/* Replaces the units by one for each module directly in an array's element, as
 * `every` does for models whose element has several modules of one class. */
static void units_in_element(Program *p, Rng *r, uint32_t data_axes)
{
    PlanSpec *plan = &p->plan;
    const char *element = NULL;
    for (int i = 0; i < p->module.n && !element; i++)
        if (strcmp(p->module.at[i].class, "Layer") == 0)
            element = p->module.at[i].path;
    if (!element)
        return;
    size_t n = strlen(element);
    plan->nunits = 0;
    for (int i = 0; i < p->module.n && plan->nunits < MOST_UNITS; i++) {
        const char *path = p->module.at[i].path;
        if (strncmp(path, element, n) != 0 || path[n] != '.' ||
            path_depth(path + n) > 1)
            continue;
        Unit *u = &plan->unit[plan->nunits++];
        random_unit(p, r, data_axes, u);
        const char **only = NEW_ARRAY(p->arena, const char *, 1);
        *only = path;
        u->kind = UNIT_PATHS;
        u->path = only;
        u->npaths = 1;
        u->reshard = -1;
    }
}

/* ---- checkpoints ------------------------------------------------------- */

static void random_checkpoint(Program *p, Rng *r, Checkpoint *c)
{
    const Module *m = &p->module.at[rng_below(r, p->module.n)];
    *c = (Checkpoint){.keep = (uint32_t)rng_pick(r, 0, 0, 1, 2, 3)};
    if (rng_chance(r, 20) && *m->path) {
        c->class = m->class;
        return;
    }
    const char **path = NEW_ARRAY(p->arena, const char *, 2);
    path[0] = m->path;
    path[1] = p->module.at[rng_below(r, p->module.n)].path;
    c->path = path;
    c->npaths = rng_chance(r, 20) ? 2 : 1;
}

static void random_checkpoints(Program *p, Rng *r)
{
    PlanSpec *plan = &p->plan;
    int64_t n = rng_chance(r, 50) ? 0 : 1 + rng_below(r, 3);
    plan->checkpoint = NEW_ARRAY(p->arena, Checkpoint, 4);
    while (plan->ncheckpoints < n)
        random_checkpoint(p, r, &plan->checkpoint[plan->ncheckpoints++]);
}

/* ---- nodes ------------------------------------------------------------- */

/* Nodes of some ranks: often an axis has several ranks on each of several. */
static void random_nodes(Program *p, Rng *r)
{
    int64_t ranks = mesh_ranks(&p->mesh), size = 1 + rng_below(r, ranks);
    if (ranks > 1 && ranks % size == 0 && mesh_uneven_axis(&p->mesh, size) < 0)
        p->mesh.node = size;
}

/* ---- the pipeline -------------------------------------------------------- */

/* Most models have few units: more than one stage on each of two ranks would often be
 * refused. */
void random_pipeline(Program *p, Rng r)
{
    int64_t axis = rng_below(&r, p->mesh.n), size = p->mesh.size[axis];
    if (size == 1 || !rng_chance(&r, 35) || p->plan.experts.axes >> axis & 1)
        return;
    Pipeline plan = {.axes = 1u << axis,
                     .schedule = (PipelineSchedule)rng_below(&r, 4)};
    bool apart = plan.schedule == PIPELINE_ZERO_BUBBLE;
    if (size > 2 && plan.schedule == PIPELINE_INTERLEAVED)
        plan.schedule = PIPELINE_1F1B;
    else if (size == 2 && !apart && rng_chance(&r, 40))
        plan.stages_per_rank = rng_chance(&r, 80) ? 2 : 3;
    p->plan.pipeline = plan;
    p->train.async_tp = 1;
}

/* ---- the context --------------------------------------------------------- */

/* Whether ranks could pass on the keys of all attentions. */
static bool may_ring(const Program *p)
{
    for_ops(op, p->step)
        if (op->kind == OP_attention &&
            (attr_bias(op) || op->arg[0]->type.dim[1] != op->arg[1]->type.dim[1]))
            return false;
    return true;
}

/* Whether n ranks can split the sequences of inputs, and the heads of attentions that no
 * other axis splits. */
static bool may_split_sequences(const Program *p, int64_t n)
{
    for (int i = 0; i < p->input.n; i++) {
        const Type *t = &p->input.at[i].type;
        if (t->ndim > 1 && t->dim[1] % n)
            return false;
    }
    for_ops(op, p->step)
        if (op->kind == OP_attention && p->plan.context.exchange == EXCHANGE_HEADS &&
            op->arg[1]->type.dim[2] % n)
            return false;
    return true;
}

static void random_context(Program *p, Rng *r, uint32_t data_axes)
{
    bool tensor = false; /* it may split heads already */
    for (int a = 0; a < p->mesh.n; a++)
        tensor |= (p->plan.tensor_axes & ~p->plan.pipeline.axes) >> a & 1 && p->mesh.size[a] > 1;
    p->plan.context.exchange =
        rng_chance(r, tensor ? 20 : 60) ? EXCHANGE_HEADS : EXCHANGE_GATHER;
    if (may_ring(p) && rng_chance(r, 50))
        p->plan.context.exchange = EXCHANGE_RING;
    for (int a = 0; a < p->mesh.n; a++)
        if ((data_axes >> a & 1) && p->mesh.size[a] > 1 && !p->plan.context.axes &&
            may_split_sequences(p, p->mesh.size[a]) && rng_chance(r, 60))
            p->plan.context.axes = 1u << a;
}

/* ---- the plan ---------------------------------------------------------- */

void random_plan(Program *p, Rng *r, uint32_t data_axes)
{
    PlanSpec *plan = &p->plan;
    Planner g = {p, r, rng_chance(r, 40) ? pad_classes(p) : NULL};
    plan->name = "random";
    data_axes &= ~plan->pipeline.axes;
    plan->tensor_axes = ((1u << p->mesh.n) - 1) & ~data_axes;
    plan->style = NEW_ARRAY(p->arena, Style, (2 * p->module.n + p->param.n) *
                                                     p->mesh.n + 1);
    plan->unit = NEW_ARRAY(p->arena, Unit, MOST_UNITS);
    for (int a = 0; a < p->mesh.n; a++)
        for (int i = 0; (plan->tensor_axes >> a & 1) && i < p->module.n &&
                        !(plan->pipeline.axes >> a & 1); i++)
            if (random_style(&g, &p->module.at[i], a,
                             &plan->style[plan->nstyles]))
                plan->nstyles++;
    for (int64_t i = data_axes ? rng_below(r, 4) : 0; i > 0; i--)
        random_unit(p, r, data_axes, &plan->unit[plan->nunits++]);
    random_checkpoints(p, r);
    if (rng_chance(r, 30))
        plan->offload = (uint32_t)(1 + rng_below(r, 3));
    /* A copy of the generator: r's later numbers do not depend on this part. */
    Rng own = *r;
    g.r = &own;
    for (int i = 0; i < plan->nunits; i++)
        random_often(&plan->unit[i], &own);
    prepare_outputs(&g);
    place_params(&g, plan->tensor_axes & ~plan->pipeline.axes);
    if (data_axes && rng_chance(&own, 50))
        units_in_element(p, &own, data_axes);
    for (int i = 0; i < plan->nunits; i++)
        if (plan->unit[i].replicate_axis >= 0 && rng_chance(&own, 50)) {
            plan->unit[i].axes |= 1u << plan->unit[i].replicate_axis;
            plan->unit[i].replicate_axis = -1;
        }
    random_nodes(p, &own);
    random_context(p, &own, data_axes);
    items_attach(p);
    find_weights(p);
    styles_attach(p);
}

bool random_may_refuse(const char *pass)
{
    static const char *const refuses[] = {
        "split_kv_axis", "pad", "propagate", "stages", "accumulate", "chunk", "async_tp",
        "transfers"};
    for (size_t i = 0; i < sizeof refuses / sizeof *refuses; i++)
        if (strcmp(pass, refuses[i]) == 0)
            return true;
    return false;
}
