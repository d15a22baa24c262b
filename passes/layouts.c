/* layouts.c: finds what the plan's styles require: placements at a boundary,
 * and the dims of parameters that they split; see layouts.h. */
#include "passes/layouts.h"

#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "ir/roles.h"
#include "ir/units.h"

const Style *style_of_path(const Program *p, const char *path, int axis)
{
    for (int i = 0; i < p->plan.nstyles; i++) {
        const Style *s = &p->plan.style[i];
        if (s->axis == axis && path_matches(s->path, path))
            return s;
    }
    return NULL;
}

static bool is_input(const char *port)
{
    return strncmp(port, "in", 2) == 0;
}

/* A module may have one style for its inputs and one for its outputs. */
const Style *style_of_port(const Program *p, const char *path,
                           const char *port, int axis)
{
    uint32_t side = is_input(port) ? STYLE_INPUTS : STYLE_OUTPUTS;
    for (int i = 0; i < p->plan.nstyles; i++) {
        const Style *s = &p->plan.style[i];
        if (s->axis == axis && (style_sides(s->kind) & side) &&
            path_matches(s->path, path))
            return s;
    }
    return NULL;
}

static void add_split(const Program *p, StyleSplits *list, const Style *s,
                      int param, int dim)
{
    StyleSplit split = {s, param, dim};
    vec_push(p->arena, list, split);
}

/* Whether the plan names the parameter itself and its placement on the axis. */
static bool placed_itself(const Program *p, int param, int axis)
{
    for (int i = 0; i < p->plan.nstyles; i++) {
        const Style *s = &p->plan.style[i];
        if (s->kind == STYLE_PARAMETER && s->axis == axis &&
            path_matches(s->path, p->param.at[param].name))
            return true;
    }
    return false;
}

/* Colwise splits the result's last dim, which the biases have too. Rowwise
 * splits the dim that is contracted or looked up; the biases stay Replicate. */
static void split_module(const Program *p, const Style *s, const char *module,
                         const WeightRoles *roles, StyleSplits *list)
{
    int n;
    bool colwise = s->kind == STYLE_COLWISE;
    const WeightRole *r = weight_role_of(roles, module, &n);
    if (!r || s->whole || (!colwise && s->kind != STYLE_ROWWISE))
        return;
    if (!placed_itself(p, r->param, s->axis))
        add_split(p, list, s, r->param, colwise ? r->out_dim : r->in_dim);
    for (int i = 0; i < r->nbiases && colwise; i++)
        if (!placed_itself(p, r->bias[i], s->axis))
            add_split(p, list, s, r->bias[i], 0);
}

static void split_parameters(const Program *p, const Style *s,
                             StyleSplits *list)
{
    for (int i = 0; i < p->param.n; i++) {
        const Param *q = &p->param.at[i];
        int dim = s->in_to[0].dim;
        if (q->state_of < 0 && s->nin == 1 &&
            s->in_to[0].kind == LAYOUT_SHARD && dim >= 0 &&
            dim < q->type.ndim && path_matches(s->path, q->name))
            add_split(p, list, s, i, dim);
    }
}

StyleSplits style_splits(const Program *p)
{
    StyleSplits list = {0};
    WeightRoles roles = weight_roles(p);
    for (int i = 0; i < p->plan.nstyles; i++) {
        const Style *s = &p->plan.style[i];
        if (s->kind == STYLE_PARAMETER)
            split_parameters(p, s, &list);
        else if (s->kind == STYLE_COLWISE || s->kind == STYLE_ROWWISE)
            for (int k = 0; k < p->module.n; k++)
                if (path_matches(s->path, p->module.at[k].path))
                    split_module(p, s, p->module.at[k].path, &roles, &list);
    }
    return list;
}

void style_port(const Style *s, const char *port, Layout *from, Layout *to)
{
    bool in = is_input(port);
    int i = atoi(port + (in ? 2 : 3));
    *from = *to = (Layout){LAYOUT_NONE, 0};
    if (i >= (in ? s->nin : s->nout))
        return;
    *from = in ? s->in_from[i] : s->out_from[i];
    *to = in ? s->in_to[i] : s->out_to[i];
}

const char *port_text(Arena *a, const Op *op)
{
    const char *port = op_attr(op, "port").s;
    bool in = is_input(port);
    return arena_printf(a, "%sput %s", in ? "in" : "out", port + (in ? 2 : 3));
}

/* False: the layout requires nothing. */
static bool placed(Layout l, int ndim, AxisPlace *to)
{
    int dim = l.dim < 0 ? l.dim + ndim : l.dim;
    switch (l.kind) {
    case LAYOUT_NONE:
        return false;
    case LAYOUT_REPLICATE:
        *to = (AxisPlace){AX_R, 0, 0};
        return true;
    case LAYOUT_SHARD:
        *to = (AxisPlace){AX_S, (uint8_t)dim, 0};
        return dim >= 0 && dim < ndim;
    case LAYOUT_PARTIAL:
        *to = (AxisPlace){AX_P, 0, 0};
        return true;
    }
    return false;
}

static Layout dual(Layout l)
{
    if (l.kind == LAYOUT_PARTIAL)
        l.kind = LAYOUT_REPLICATE;
    return l;
}

void layout_of_boundary(const Program *p, const Op *op,
                        Constraint by_axis[MAX_AXES])
{
    const char *path = op_attr(op, "path").s, *port = op_attr(op, "port").s;
    bool grad = op_attr(op, "grad").i;
    int ndim = op->out[0]->type.ndim;
    for (int a = 0; a < MAX_AXES; a++) {
        Constraint *c = &by_axis[a];
        *c = (Constraint){0};
        if (a >= p->mesh.n || p->mesh.size[a] == 1)
            continue;
        const Style *s = style_of_port(p, path, port, a);
        if (!s)
            continue;
        Layout from, to;
        style_port(s, port, &from, &to);
        if (grad && from.kind == LAYOUT_REPLICATE &&
            to.kind == LAYOUT_REPLICATE)
            continue;
        if (!placed(grad ? dual(from) : to, ndim, &c->to))
            continue;
        c->style = s;
        if (!placed(grad ? to : from, ndim, &c->from))
            c->from = c->to;
        else if (grad && to.kind != LAYOUT_SHARD)
            c->from.kind = to.kind == LAYOUT_PARTIAL ? AX_R : AX_P;
    }
}

Placement place_override(const Mesh *m, const Type *t, const Placement *base,
                         uint32_t axes, const AxisPlace with[MAX_AXES])
{
    Type shape = *t;
    shape.place = *base;
    for (int a = 0; a < m->n; a++) {
        if (!(axes >> a & 1))
            continue;
        shape.place.ax[a] = with[a];
        /* Minor to all others: type_normalize closes the gap. */
        if (with[a].kind == AX_S)
            shape.place.ax[a].order = UINT8_MAX;
    }
    type_normalize(&shape, m);
    return shape.place;
}

const char *style_text(Arena *a, const Style *s)
{
    if (s->kind == STYLE_PARAMETER)
        return arena_printf(a, "%s on %s",
                            s->in_to[0].kind == LAYOUT_SHARD
                                ? arena_printf(a, "Shard(%d)", s->in_to[0].dim)
                                : "Replicate", s->path);
    return arena_printf(a, "%s on %s", style_name(s->kind),
                        *s->path ? s->path : "model");
}
