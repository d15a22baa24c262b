/* layouts.c: finds what the plan's styles require at a boundary; see layouts.h. */
#include "passes/sharding/layouts.h"


void style_port(const Style *s, Port port, Layout *from, Layout *to)
{
    bool in = port.input;
    int i = port.index;
    *from = *to = (Layout){LAYOUT_NONE, 0};
    if (i >= (in ? s->nin : s->nout))
        return;
    *from = in ? s->in_from[i] : s->out_from[i];
    *to = in ? s->in_to[i] : s->out_to[i];
}

const char *port_text(Arena *a, const Op *op)
{
    Port port = attr_port(op);
    return arena_printf(a, "%sput %d", port.input ? "in" : "out", port.index);
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
    bool grad = attr_grad(op);
    int ndim = op->out[0]->type.ndim;
    for (int a = 0; a < MAX_AXES; a++) {
        Constraint *c = &by_axis[a];
        *c = (Constraint){0};
        if (a >= p->mesh.n || p->mesh.size[a] == 1)
            continue;
        const Style *s = style_of_boundary(p, op, a);
        if (!s)
            continue;
        Layout from, to;
        style_port(s, attr_port(op), &from, &to);
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
