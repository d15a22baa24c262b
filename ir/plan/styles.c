/* styles.c: attaches the plan's styles to boundaries and parameters; see
 * styles.h. */
#include "ir/plan/styles.h"

#include <string.h>

static const struct {
    uint32_t sides;
    const char *name;
} style_kinds[] = {
    [STYLE_COLWISE] = {STYLE_INPUTS | STYLE_OUTPUTS, "ColwiseParallel"},
    [STYLE_ROWWISE] = {STYLE_INPUTS | STYLE_OUTPUTS, "RowwiseParallel"},
    [STYLE_SEQUENCE] = {STYLE_INPUTS | STYLE_OUTPUTS, "SequenceParallel"},
    [STYLE_PREPARE_INPUT] = {STYLE_INPUTS, "PrepareModuleInput"},
    [STYLE_PREPARE_OUTPUT] = {STYLE_OUTPUTS, "PrepareModuleOutput"},
    [STYLE_PREPARE_INPUT_OUTPUT] = {STYLE_INPUTS | STYLE_OUTPUTS,
                                    "PrepareModuleInputOutput"},
    [STYLE_PARAMETER] = {0, "Parameter"},
};

uint32_t style_sides(StyleKind k)
{
    return style_kinds[k].sides;
}

const char *style_name(StyleKind k)
{
    return style_kinds[k].name;
}

const Style *style_of_path(const Program *p, const char *path, int axis)
{
    for (int i = 0; i < p->plan.nstyles; i++) {
        const Style *s = &p->plan.style[i];
        if (s->axis == axis && strcmp(s->path, path) == 0)
            return s;
    }
    return NULL;
}

const Style *style_of_boundary(const Program *p, const Op *op, int axis)
{
    const AttrList *styles = attr_styles(op);
    int64_t i = axis < styles->n ? styles->v[axis] : -1;
    return i < 0 ? NULL : &p->plan.style[i];
}

/* ---- boundaries ---------------------------------------------------------- */

/* The style of a port on an axis; -1: none. A module may have one style for its
 * inputs and one for its outputs. */
static int style_of_port(const Program *p, const char *path, Port port,
                         int axis)
{
    uint32_t side = port.input ? STYLE_INPUTS : STYLE_OUTPUTS;
    for (int i = 0; i < p->plan.nstyles; i++) {
        const Style *s = &p->plan.style[i];
        if (s->axis == axis && (style_sides(s->kind) & side) &&
            strcmp(s->path, path) == 0)
            return i;
    }
    return -1;
}

static void attach_boundary(const Program *p, Op *op)
{
    if (op->kind != OP_boundary)
        return;
    AttrList styles = {0};
    for (int a = 0; a < p->mesh.n; a++) {
        int style = style_of_port(p, attr_path(op),
                                  attr_port(op), a);
        styles.v[a] = style;
        if (style >= 0)
            styles.n = p->mesh.n;
    }
    set_attr_styles(op, styles);
}

/* ---- parameters ---------------------------------------------------------- */

/* The style of a module does not apply to parameters for which the plan has a
 * line of their own. */
static bool placed_itself(const Program *p, int param, int axis)
{
    const char *name = p->param.at[param].name;
    for (int i = 0; i < p->plan.nstyles; i++) {
        const Style *s = &p->plan.style[i];
        if (s->kind == STYLE_PARAMETER && s->axis == axis &&
            strcmp(s->path, name) == 0)
            return true;
    }
    return false;
}

static void mark_split(Program *p, int param, int dim, int style)
{
    StyleSplit split = {style, dim};
    vec_push(p->arena, &p->param.at[param].split, split);
}

/* Colwise splits the result's last dim, which the biases have too. Rowwise
 * splits the dim that is contracted or looked up; the biases stay Replicate. */
static void split_module(Program *p, int style)
{
    const Style *s = &p->plan.style[style];
    bool colwise = s->kind == STYLE_COLWISE;
    const Weight *w = module_weight(ir_module(p, s->path));
    if (!w || s->whole || (!colwise && s->kind != STYLE_ROWWISE))
        return;
    if (!placed_itself(p, w->param, s->axis))
        mark_split(p, w->param, colwise ? w->out_dim : w->in_dim, style);
    for (int i = 0; i < w->nbiases && colwise; i++)
        if (!placed_itself(p, w->bias[i], s->axis))
            mark_split(p, w->bias[i], 0, style);
}

static void apply_parameter_style(Program *p, int style)
{
    const Style *s = &p->plan.style[style];
    int dim = s->in_to[0].dim, param = ir_param_index(p, s->path);
    if (param >= 0 && p->param.at[param].state_of < 0 && s->nin == 1 &&
        s->in_to[0].kind == LAYOUT_SHARD && dim >= 0 &&
        dim < p->param.at[param].type.ndim)
        mark_split(p, param, dim, style);
}

void styles_attach(Program *p)
{
    for_ops(op, p->step)
        attach_boundary(p, op);
    for (int i = 0; i < p->param.n; i++)
        p->param.at[i].split.n = 0;
    for (int i = 0; i < p->plan.nstyles; i++)
        if (p->plan.style[i].kind == STYLE_PARAMETER)
            apply_parameter_style(p, i);
        else
            split_module(p, i);
}
