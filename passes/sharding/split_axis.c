/* split_axis.c: splits an axis of the mesh into two; see split_axis.h. */
#include "passes/sharding/split_axis.h"

#include <string.h>

bool split_axis_fits(Program *p, Loc loc, const char *why, const char *advice)
{
    if (p->mesh.n < MAX_AXES - MAX_LOOP_AXES)
        return true;
    diag_error(p->diag, loc, "%s: it cannot be split, the mesh has %d axes "
               "after other splits", why, p->mesh.n);
    return diag_help(p->diag, "%s", advice);
}

/* Inserts a bit after bit `axis`, with the same value. */
static uint32_t repeat_bit(uint32_t axes, int axis)
{
    uint32_t low = (2u << axis) - 1;
    return (axes & low) | (axes & ~low) << 1 | (axes >> axis & 1) << (axis + 1);
}

static void split_mesh(Program *p, int axis, const AxisPart part[2])
{
    Mesh *m = &p->mesh;
    const char *name = m->name[axis];
    for (int a = m->n++; a > axis + 1; a--) {
        m->name[a] = m->name[a - 1];
        m->size[a] = m->size[a - 1];
        m->stride[a] = m->stride[a - 1];
    }
    for (int i = 0; i < 2; i++) {
        m->name[axis + i] = arena_printf(p->arena, "%s%s", name,
                                         part[i].suffix);
        m->size[axis + i] = part[i].size;
        m->stride[axis + i] = part[i].stride;
    }
}

void split_axis(Program *p, int axis, const AxisPart part[2])
{
    split_mesh(p, axis, part);
    p->mesh.zigzag = repeat_bit(p->mesh.zigzag, axis);
    p->plan.tensor_axes = repeat_bit(p->plan.tensor_axes, axis);
    p->plan.pipeline.axes = repeat_bit(p->plan.pipeline.axes, axis);
    p->plan.context.axes = repeat_bit(p->plan.context.axes, axis);
    p->plan.experts.axes = repeat_bit(p->plan.experts.axes, axis);
    for (int i = 0; i < p->plan.nunits; i++) {
        Unit *u = &p->plan.unit[i];
        u->axes = repeat_bit(u->axes, axis);
        u->replicate_axis += u->replicate_axis > axis;
    }
}

void split_axis_styles(Program *p, int axis)
{
    PlanSpec *plan = &p->plan;
    Style *all = NEW_ARRAY(p->arena, Style, 2 * plan->nstyles + 1);
    int n = 0;
    for (int i = 0; i < plan->nstyles; i++) {
        Style s = plan->style[i];
        if (s.axis == axis)
            all[n++] = s;
        s.axis += s.axis >= axis;
        all[n++] = s;
    }
    plan->style = all;
    plan->nstyles = n;
}

/* ---- types --------------------------------------------------------------- */

static void split_placement(Placement *place, int axis)
{
    AxisPlace *ax = place->ax, here = ax[axis];
    memmove(ax + axis + 1, ax + axis,
            sizeof *ax * (size_t)(MAX_AXES - axis - 1));
    if (here.kind != AX_S)
        return;
    for (int a = 0; a < MAX_AXES; a++)
        if (a != axis && ax[a].kind == AX_S && ax[a].dim == here.dim &&
            ax[a].order >= here.order)
            ax[a].order++;
}

static void split_value(Value *v, int axis)
{
    split_placement(&v->type.place, axis);
    memmove(v->why + axis + 1, v->why + axis,
            sizeof *v->why * (size_t)(MAX_AXES - axis - 1));
}

static void split_region(Region *r, int axis)
{
    for (int i = 0; i < r->nargs; i++)
        split_value(r->arg[i], axis);
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nouts; i++)
            split_value(op->out[i], axis);
        if (op_is_conversion(op->kind))
            set_attr_axes(op, repeat_bit(attr_axes(op), axis));
        if (op->body)
            split_region(op->body, axis);
    }
}

void split_axis_types(Program *p, int axis)
{
    for (int i = 0; i < p->plan.nstyles; i++)
        p->plan.style[i].axis += p->plan.style[i].axis > axis;
    for (int i = 0; i < p->param.n; i++)
        split_placement(&p->param.at[i].type.place, axis);
    for (int i = 0; i < p->input.n; i++)
        split_placement(&p->input.at[i].type.place, axis);
    split_region(p->step, axis);
}
