/* propagate_fixed.c: determines the placements of ops that have no choice.
 *
 * The plan places parameters and inputs; a gradient is placed as its parameter
 * is, an update as both; outputs of the step are replicated. On the axis of its
 * parameter's FSDP unit a gradient is Partial until the pass storage adds the
 * reduce-scatter.
 */
#include "base/bug.h"
#include "ir/units.h"
#include "passes/sharding/propagate.h"

bool op_is_fixed(const Op *op)
{
    if (op->kind == OP_sumsq)
        return op->arg[0]->def && op->arg[0]->def->kind == OP_finish_grad;
    return !op_info(op->kind)->rule && op->kind != OP_loop;
}

static const Placement *param_place(const Program *p, const Op *op)
{
    return &p->param.at[attr_param(op)].type.place;
}

static Placement grad_place(const Program *p, const Op *op)
{
    int param = attr_param(op);
    Placement place = *param_place(p, op);
    const Unit *u = sharding_unit(p, param);
    uint32_t axes = u ? unit_axes(p, u) : 0;
    for (int a = 0; a < p->mesh.n; a++)
        if (axes >> a & 1)
            place.ax[a] = (AxisPlace){AX_P, 0, 0};
    return place;
}

Placement fixed_want(const Program *p, const Op *op, int i)
{
    Placement replicate = {0};
    if (op->kind == OP_finish_grad)
        return grad_place(p, op);
    if (op->kind == OP_assign)
        return *param_place(p, op);
    bool scalar = op->kind == OP_update && i >= UPDATE_LR &&
                  i < update_first_state(op);
    bool whole = op->kind == OP_output && op->arg[i]->type.ndim > 0;
    if (scalar || (op->kind == OP_output && !whole))
        return replicate;
    Placement place = op->arg[i]->type.place;
    for (int a = 0; whole && a < p->mesh.n; a++)
        if (place.ax[a].kind != AX_S)
            place.ax[a] = (AxisPlace){0};
    return place;
}

Placement fixed_place(const Program *p, const Op *op, int o)
{
    Placement place = {0};
    switch ((int)op->kind) {
    case OP_param:
        return *param_place(p, op);
    case OP_update:
        return update_old(op, o)->type.place;
    case OP_input:
        return p->input.at[attr_input(op)].type.place;
    case OP_finish_grad:
        return grad_place(p, op);
    case OP_sumsq:
        for (int a = 0; a < p->mesh.n; a++)
            if (op->arg[0]->type.place.ax[a].kind != AX_R)
                place.ax[a].kind = AX_P;
        return place;
    case OP_scalar:
    case OP_split_key:
        return place;
    default:
        return op->out[o]->type.place;
    }
}

uint32_t constrained_axes(const Constraint by_axis[MAX_AXES], bool from,
                          AxisPlace with[MAX_AXES])
{
    uint32_t axes = 0;
    for (int a = 0; a < MAX_AXES; a++) {
        with[a] = from ? by_axis[a].from : by_axis[a].to;
        if (by_axis[a].style)
            axes |= 1u << a;
    }
    return axes;
}
