/* optimizer_parts.c: gives the optimizers that read complete matrices (Muon, Adafactor) the
 * matrix of which a rank has a part, and takes the rank's part of a result.
 *
 *   %w.all = all_gather{axes={dp}} %w : f32[64, 256]            of f32[64, 256]~dp
 *   %row.part = local_slice{axes={tp}} %row : f32[64/tp, 1]     for a matrix f32[64/tp, 256]
 *   %part = local_slice{axes={dp}} %result : f32[64, 256]~dp
 */
#include "passes/autodiff/autodiff.h"
#include "passes/sharding/reshard.h"

Value *optimizer_scale(Build *b, Value *x, double by)
{
    Attr attr[MAX_ATTRS] = {{.f = by}};
    return ir_value(b, OP_scale, 1, &x, attr, NULL);
}

/* A loop that is cut into stages has no constants of its own. */
Value *optimizer_constant(Program *p, const Op *at, double x)
{
    const Op *top = at;
    while (top->region->owner)
        top = top->region->owner;
    Build b = ir_build_at(p, top, (Op *)top);
    return ir_loop_inside(p, ir_scalar_const(&b, x), at->region);
}

static Placement without(const Mesh *m, Placement place, AxisKind kind)
{
    for (int a = 0; a < m->n; a++)
        if (place.ax[a].kind == kind)
            place.ax[a] = (AxisPlace){AX_R, 0, 0};
    return place;
}

/* One op for all axes of runs: gathers them, or takes a rank's run. */
static Value *convert_runs(Build *b, OpKind kind, Value *x, uint32_t axes,
                           const Placement *to, Why why)
{
    if (!axes)
        return x;
    Attr attr[MAX_ATTRS] = {{0}};
    attr[op_attr_index(kind, ATTR_axes)].i = axes;
    Type t = x->type;
    t.place = *to;
    Op *op = ir_op_typed(b, kind, 1, &x, attr, 1, &t, &x->name);
    op->why = why;
    for (int a = 0; a < b->p->mesh.n; a++)
        op->out[0]->why[a] = axes >> a & 1 ? why : x->why[a];
    return op->out[0];
}

Value *optimizer_gather_runs(Build *b, Value *x, Why why)
{
    Placement runs = without(&b->p->mesh, x->type.place, AX_FLAT);
    return convert_runs(b, OP_all_gather, x, type_flat_axes(&x->type), &runs, why);
}

Value *optimizer_whole(Build *b, Value *x, Why why)
{
    const Mesh *m = &b->p->mesh;
    Placement all = without(m, without(m, x->type.place, AX_S), AX_P);
    return reshard_emit(b, x, &all, why);
}

Value *optimizer_split_like(Build *b, Value *x, const Type *like, Why why)
{
    Placement to = x->type.place;
    for (int a = 0; a < b->p->mesh.n; a++) {
        AxisPlace at = like->place.ax[a];
        if (at.kind == AX_S && x->type.dim[at.dim] == like->dim[at.dim])
            to.ax[a] = at;
    }
    return reshard_emit(b, x, &to, why);
}

Value *optimizer_take_part(Build *b, Value *x, const Type *like, Why why)
{
    Placement runs = without(&b->p->mesh, like->place, AX_FLAT);
    x = reshard_emit(b, x, &runs, why);
    return convert_runs(b, OP_local_slice, x, type_flat_axes(like), &like->place,
                        why);
}
