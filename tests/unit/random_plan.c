/* random_plan.c: a random mesh and plan that are legal for a model.
 *
 * Styles may ask for any layout whose sizes divide; a dim is only split where
 * all axes of the mesh together divide it, so that layouts that meet on one
 * dim never clash. FSDP units may have any sizes: runs are padded.
 */
#include "tests/unit/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the mesh ---------------------------------------------------------- */

uint32_t random_mesh(Program *p, Rng *r, const char *shape)
{
    static const char *const shapes[] = {"1x1", "2x1", "1x2", "2x2",
                                         "2x2", "3x2", "2x4"};
    char text[32];
    int64_t i = rng_below(r, 7);
    snprintf(text, sizeof text, "%s", shape ? shape : shapes[i]);
    static const char *const names[] = {"dp", "tp", "cp", "ep"};
    for (char *s = strtok(text, "x"); s && p->mesh.n < MAX_AXES;
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
        return all & ~1u; /* tensor parallel outside */
    default:
        return all & 1u;
    }
}

/* ---- layouts ----------------------------------------------------------- */

/* What a module's port looks like. */
typedef struct Ports {
    const char *path, *port;
    const Type *type; /* NULL: not found */
} Ports;

static void match_port(Op *op, void *context)
{
    Ports *want = context;
    if (op->kind == OP_boundary && !want->type &&
        strcmp(op_attr(op, "path").s, want->path) == 0 &&
        strcmp(op_attr(op, "port").s, want->port) == 0)
        want->type = &op->out[0]->type;
}

static const Type *port_type(Program *p, const char *path, bool in, int i)
{
    Ports want = {path, arena_printf(p->arena, "%s%d", in ? "in" : "out", i),
                  NULL};
    ir_walk(p->step, match_port, &want);
    return want.type;
}

static Layout random_layout(const Program *p, Rng *r, const Type *t)
{
    Layout l = {LAYOUT_REPLICATE, 0};
    if (!t || t->ndim == 0 || rng_chance(r, 40))
        return l;
    if (dtype_is_float(t->dtype) && rng_chance(r, 5))
        return (Layout){LAYOUT_PARTIAL, 0};
    int d = (int)rng_below(r, t->ndim);
    if (t->dim[d] % mesh_ranks(&p->mesh) != 0)
        return l;
    return (Layout){LAYOUT_SHARD, rng_chance(r, 50) ? d : d - t->ndim};
}

static void pair(const Program *p, Rng *r, const Type *t, Layout *from,
                 Layout *to)
{
    *from = random_layout(p, r, t);
    *to = rng_chance(r, 40) ? *from : random_layout(p, r, t);
}

/* ---- styles ------------------------------------------------------------ */

/* Whether Colwise / Rowwise may split the parameter of the module. */
static bool splits(const Program *p, const Module *m, bool colwise)
{
    const char *name = arena_printf(p->arena, "%s.weight", m->path);
    int i = ir_param_index(p, name);
    if (i < 0)
        return false; /* tied */
    bool rows = colwise == (strcmp(m->class, "Linear") == 0);
    return p->param.at[i].type.dim[rows ? 0 : 1] % mesh_ranks(&p->mesh) == 0;
}

static void split_style(Program *p, Rng *r, const Module *m, Style *s,
                        bool colwise)
{
    bool linear = strcmp(m->class, "Linear") == 0;
    const Type *in = port_type(p, m->path, true, 0);
    const Type *out = port_type(p, m->path, false, 0);
    s->kind = colwise ? STYLE_COLWISE : STYLE_ROWWISE;
    s->nin = s->nout = 1;
    s->in_from[0] = random_layout(p, r, in);
    s->in_to[0] = (Layout){LAYOUT_REPLICATE, 0};
    s->out_from[0] = (Layout){LAYOUT_SHARD, -1};
    if (!colwise && linear)
        s->in_to[0] = (Layout){LAYOUT_SHARD, -1};
    if (!colwise)
        s->out_from[0] = (Layout){LAYOUT_PARTIAL, 0};
    if (linear && rng_chance(r, 60))
        s->in_from[0] = s->in_to[0];
    s->out_to[0] = random_layout(p, r, out);
    if (colwise && rng_chance(r, 60))
        s->out_to[0] = s->out_from[0];
}

static void sequence_style(Program *p, const Module *m, Style *s)
{
    const Type *t = port_type(p, m->path, true, 0);
    Layout l = {LAYOUT_SHARD, 1};
    if (t->ndim < 2 || t->dim[1] % mesh_ranks(&p->mesh) != 0)
        l = (Layout){LAYOUT_REPLICATE, 0};
    s->kind = STYLE_SEQUENCE;
    s->nin = s->nout = 1;
    s->in_from[0] = s->in_to[0] = s->out_from[0] = s->out_to[0] = l;
}

static void prepare_style(Program *p, Rng *r, const Module *m, Style *s)
{
    bool in = rng_chance(r, 60);
    int n = in ? m->nin : m->nout;
    s->kind = in ? STYLE_PREPARE_INPUT : STYLE_PREPARE_OUTPUT;
    *(in ? &s->nin : &s->nout) = n;
    for (int i = 0; i < n; i++) {
        const Type *t = port_type(p, m->path, in, i);
        Layout *from = in ? &s->in_from[i] : &s->out_from[i];
        Layout *to = in ? &s->in_to[i] : &s->out_to[i];
        if (rng_chance(r, 80))
            pair(p, r, t, from, to);
    }
}

static bool random_style(Program *p, Rng *r, const Module *m, int axis,
                         Style *s)
{
    *s = (Style){.path = m->path, .axis = axis};
    bool linear = strcmp(m->class, "Linear") == 0;
    if (*m->path == 0 || rng_chance(r, 20))
        return false;
    if (linear || strcmp(m->class, "Embedding") == 0) {
        bool colwise = rng_chance(r, 50);
        if (strstr(m->path, "down") || strstr(m->path, "wo"))
            colwise = rng_chance(r, 15);
        if (!splits(p, m, colwise))
            return false;
        split_style(p, r, m, s, colwise);
    } else if (strstr(m->class, "Norm") && rng_chance(r, 60)) {
        sequence_style(p, m, s);
    } else {
        prepare_style(p, r, m, s);
    }
    return true;
}

/* ---- units ------------------------------------------------------------- */

static void random_unit(Program *p, Rng *r, int axis, Unit *u)
{
    *u = (Unit){.axis = axis,
                .replicate_axis = -1,
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

/* ---- the plan ---------------------------------------------------------- */

void random_plan(Program *p, Rng *r, uint32_t data_axes)
{
    PlanSpec *plan = &p->plan;
    plan->name = "random";
    plan->tensor_axes = ((1u << p->mesh.n) - 1) & ~data_axes;
    plan->style = NEW_ARRAY(p->arena, Style, p->module.n * p->mesh.n + 1);
    plan->unit = NEW_ARRAY(p->arena, Unit, 8);
    for (int a = 0; a < p->mesh.n; a++)
        for (int i = 0; (plan->tensor_axes >> a & 1) && i < p->module.n; i++)
            if (random_style(p, r, &p->module.at[i], a,
                             &plan->style[plan->nstyles]))
                plan->nstyles++;
    for (int a = 0; a < p->mesh.n; a++) {
        if (!(data_axes >> a & 1) || plan->nunits > 0)
            continue;
        int64_t n = rng_below(r, 4);
        for (int64_t i = 0; i < n; i++)
            random_unit(p, r, a, &plan->unit[plan->nunits++]);
    }
}
