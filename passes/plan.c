/* plan.c: the user's plan, resolved to parameters and inputs.
 *
 * requires: STAGE_GLOBAL; Program.plan as the frontend resolved it
 * ensures:  Param.type has the compute placement (before FSDP storage) and
 *           Param.unit its unit's name, Input.type the split of the batch;
 *           every style fits the sizes of what it names, or the user was
 *           told (that its pattern and its layouts fit the model, the
 *           frontend has seen to). What styles ask of boundaries stays in
 *           the plan: passes/layouts.h reads it there.
 *
 * before   plan "p" axes={tp}
 *            style ColwiseParallel "w1" axis=tp in(R -> R) …
 *            unit axis=dp paths("w1") reshard=-1 prefetch=2
 *          param "w1.weight" : f32[128, 64] …
 *          input "x" : f32[8, 64]
 * after    param "w1.weight" : f32[128/tp, 64] … unit="w1"
 *          input "x" : f32[8/dp, 64]
 *
 * Every axis that no `parallelize` names splits dim 0 of every input.
 */
#include <string.h>

#include "ir/units.h"
#include "passes/layouts.h"
#include "passes/pass.h"

/* A size that an axis does not divide is reported where the plan first asks
 * for it: further styles and ports that meet it are the same mistake. */
typedef struct Refusal {
    int axis;
    int64_t size;
} Refusal;

typedef struct Plan {
    Program *p;
    VEC(Refusal) refused;
} Plan;

static bool first_refusal(Plan *c, int axis, int64_t size)
{
    for (int i = 0; i < c->refused.n; i++)
        if (c->refused.at[i].axis == axis && c->refused.at[i].size == size)
            return false;
    Refusal r = {axis, size};
    vec_push(c->p->arena, &c->refused, r);
    return true;
}

/* ---- which dim of which parameter a style splits ------------------------- */

static const struct {
    StyleKind style;
    const char *class, *param;
    int dim; /* -1: it stays Replicate */
} param_rule[] = {
    {STYLE_COLWISE, "Linear", "weight", 0},
    {STYLE_COLWISE, "Linear", "bias", 0},
    {STYLE_COLWISE, "Embedding", "weight", 1},
    {STYLE_ROWWISE, "Linear", "weight", 1},
    {STYLE_ROWWISE, "Linear", "bias", -1},
    {STYLE_ROWWISE, "Embedding", "weight", 0},
};
enum { PARAM_RULES = sizeof param_rule / sizeof *param_rule };

static Param *find_param(Program *p, const char *module, const char *name)
{
    const char *path = *module ? arena_printf(p->arena, "%s.%s", module, name)
                               : name;
    int i = ir_param_index(p, path);
    return i < 0 ? NULL : &p->param.at[i];
}

static void note_param(const Program *p, const Param *q)
{
    diag_note(p->diag, q->loc, "'%s' is %s", q->name,
              type_text(p->arena, &q->type, &p->mesh));
}

static void split_param(Plan *c, const Style *s, Param *q, int dim)
{
    Program *p = c->p;
    const Mesh *m = &p->mesh;
    AxisPlace old = q->type.place.ax[s->axis];
    AxisPlace with[MAX_AXES] = {{0}};
    if (m->size[s->axis] == 1)
        return;
    if (old.kind == AX_S && old.dim != dim) {
        diag_error(p->diag, s->loc,
                   "'%s' is split along dim %d by this style and along dim "
                   "%d by another", q->name, dim, old.dim);
        note_param(p, q);
        diag_help(p->diag, "parameters that are tied need styles that split "
                           "them alike");
        return;
    }
    with[s->axis] = (AxisPlace){AX_S, (uint8_t)dim, 0};
    Type t = q->type;
    t.place = place_override(m, &t, &t.place, 1u << s->axis, with);
    int64_t parts = type_parts(&t, m, dim);
    if (t.dim[dim] % parts == 0) {
        q->type = t;
    } else if (first_refusal(c, s->axis, t.dim[dim])) {
        diag_error(p->diag, s->loc,
                   "axis '%s' of size %lld does not divide dim %d of '%s' "
                   "(%lld)", m->name[s->axis], (long long)m->size[s->axis],
                   dim, q->name, (long long)t.dim[dim]);
        note_param(p, q);
        diag_help(p->diag, "choose a size that is a multiple of %lld, or "
                           "another mesh", (long long)parts);
    }
}

/* ---- styles on modules --------------------------------------------------- */

static void apply_style(Plan *c, const Style *s, const Module *m)
{
    for (int i = 0; i < PARAM_RULES; i++) {
        if (param_rule[i].style != s->kind ||
            strcmp(param_rule[i].class, m->class) != 0)
            continue;
        Param *q = find_param(c->p, m->path, param_rule[i].param);
        if (q && param_rule[i].dim >= 0)
            split_param(c, s, q, param_rule[i].dim);
    }
}

static void apply_styles(Plan *c)
{
    Program *p = c->p;
    for (int i = 0; i < p->plan.nstyles; i++)
        for (int k = 0; k < p->module.n; k++) {
            const Style *s = &p->plan.style[i];
            const Module *m = &p->module.at[k];
            if (path_matches(s->path, m->path))
                apply_style(c, s, m);
        }
}

/* ---- units, states, inputs ----------------------------------------------- */

static void name_units(Program *p)
{
    for (int i = 0; i < p->param.n; i++) {
        Param *q = &p->param.at[i];
        q->unit = unit_name_of_param(p, i);
        if (q->state_of >= 0)
            q->type.place = p->param.at[q->state_of].type.place;
    }
}

/* Every data axis splits dim 0, the outer axes major. */
static void split_input(Program *p, Input *in)
{
    const Mesh *m = &p->mesh;
    AxisPlace with[MAX_AXES] = {{0}};
    uint32_t data = ((1u << m->n) - 1) & ~p->plan.tensor_axes;
    if (in->type.ndim == 0)
        return;
    for (int a = 0; a < m->n; a++)
        with[a].kind = AX_S;
    Type t = in->type;
    t.place = place_override(m, &t, &t.place, data, with);
    int64_t parts = type_parts(&t, m, 0);
    if (t.dim[0] % parts == 0) {
        in->type = t;
        return;
    }
    Loc loc = p->train.loc.file ? p->train.loc : in->loc;
    diag_error(p->diag, loc, "a batch of %lld cannot be split over %lld "
               "data-parallel ranks", (long long)t.dim[0], (long long)parts);
    diag_note(p->diag, in->loc, "dim 0 of '%s' is the batch", in->name);
    diag_help(p->diag, "choose a batch that is a multiple of %lld",
              (long long)parts);
}

/* ---- what styles ask of boundaries --------------------------------------- */

static void check_layout(Plan *c, const Op *op, const Style *s, Layout l)
{
    Program *p = c->p;
    const Type *t = &op->out[0]->type;
    int64_t size = p->mesh.size[s->axis];
    int dim = l.dim < 0 ? l.dim + t->ndim : l.dim;
    if (l.kind != LAYOUT_SHARD)
        return;
    if (dim < 0 || dim >= t->ndim)
        diag_error(p->diag, s->loc, "Shard(%d) of a tensor with %d dims",
                   l.dim, t->ndim);
    else if (t->dim[dim] % size && first_refusal(c, s->axis, t->dim[dim]))
        diag_error(p->diag, s->loc,
                   "axis '%s' of size %lld does not divide dim %d (%lld) "
                   "that %s splits", p->mesh.name[s->axis], (long long)size,
                   dim, (long long)t->dim[dim], style_text(p->arena, s));
    else
        return;
    diag_note(p->diag, op->loc, "%s of '%s' is %s", port_text(p->arena, op),
              op_attr(op, "path").s, type_text(p->arena, t, &p->mesh));
    if (dim >= 0 && dim < t->ndim)
        diag_help(p->diag, "choose a size that is a multiple of %lld, or "
                           "another mesh", (long long)size);
}

static void check_boundary(Op *op, void *context)
{
    Plan *c = context;
    const Program *p = c->p;
    if (op->kind != OP_boundary || op_attr(op, "grad").i)
        return;
    for (int a = 0; a < p->mesh.n; a++) {
        const Style *s = style_of_path(p, op_attr(op, "path").s, a);
        if (!s || p->mesh.size[a] == 1)
            continue;
        Layout from, to;
        style_port(s, op_attr(op, "port").s, &from, &to);
        check_layout(c, op, s, to);
        check_layout(c, op, s, from);
    }
}

void pass_plan(Program *p, const TargetInfo *t)
{
    (void)t;
    Plan c = {.p = p};
    apply_styles(&c);
    name_units(p);
    for (int i = 0; i < p->input.n; i++)
        split_input(p, &p->input.at[i]);
    ir_walk(p->step, check_boundary, &c);
}
