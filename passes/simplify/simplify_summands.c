/* simplify_summands.c: adds a term that counts once after the reduction instead
 * of before.
 *
 * before   %y = einsum{spec="bk,fk->bf", …} %x, %w : f32[8, 8]+tp forward
 *          %s = mask_to_partial{axes={tp}} %bias : f32[8]+tp forward
 *          %z = add %y, %s : f32[8, 8]+tp forward
 *          %h = all_reduce{axes={tp}} %z : f32[8, 8] forward
 * after    %y = einsum{spec="bk,fk->bf", …} %x, %w : f32[8, 8]+tp forward
 *          %y.2 = all_reduce{axes={tp}} %y : f32[8, 8] forward
 *          %h = add %y.2, %bias : f32[8, 8] forward
 *
 * The bias of a row-parallel Linear is such a term: added to a partial sum it
 * counts on one rank only. After the reduction every rank adds it to its own
 * part, fused with the ops that follow.
 */
#include "passes/simplify/simplify.h"

/* Whether all ranks of the axes have what the op masks. */
static bool on_all_ranks(const Op *mask, uint32_t axes)
{
    for (int a = 0; a < MAX_AXES; a++)
        if ((axes >> a & 1) &&
            axis_place_is_held(mask->arg[0]->type.place.ax[a]))
            return false;
    return true;
}

/* Whether the reduction splits elements regardless of dims: the term has no such
 * part (hierarchical collectives). */
static bool is_flat(const Op *reduce)
{
    bool flat = false;
    for (int a = 0; a < MAX_AXES; a++)
        flat |= reduce->out[0]->type.place.ax[a].kind == AX_FLAT;
    return flat;
}

/* The operand of the sum that is masked to partial; -1: none. */
static int share_of(const Op *sum, const Region *r, uint32_t axes)
{
    if (!sum || sum->region != r ||
        (sum->kind != OP_add && sum->kind != OP_sub) ||
        ir_count_uses(sum->out[0]) != 1)
        return -1;
    for (int i = 0; i < 2; i++) {
        const Type *other = &sum->arg[1 - i]->type, *t = &sum->out[0]->type;
        const Op *mask = sum->arg[i]->def;
        if (mask && mask->kind == OP_mask_to_partial &&
            attr_axes(mask) == axes && on_all_ranks(mask, axes) &&
            type_same_shape(other, t) &&
            other->dtype == t->dtype)
            return i;
    }
    return -1;
}

/* The term in the form that a rank adds to a value placed as `like`: sliced
 * where that is split along a dim that v has. */
static Value *part_for(Build *b, Value *v, const Type *like, uint32_t axes)
{
    Type t = v->type;
    bool split = false;
    for (int a = 0; a < b->p->mesh.n; a++) {
        AxisPlace place = like->place.ax[a];
        int dim = place.dim - (like->ndim - t.ndim);
        if (!(axes >> a & 1) || place.kind != AX_S || dim < 0 ||
            t.dim[dim] == 1)
            continue;
        t.place.ax[a] = (AxisPlace){AX_S, (uint8_t)dim, place.order};
        split = true;
    }
    if (!split)
        return v;
    Attr attr[MAX_ATTRS] = {{.i = axes}};
    return ir_op_typed(b, OP_local_slice, 1, &v, attr, 1, &t, &v->name)->out[0];
}

/* Reduces the sum's other operand, then adds the term. */
static Op *reduce_first(Program *p, Op *reduce, Op *sum, int share)
{
    Value *x = sum->arg[1 - share], *bias = sum->arg[share]->def->arg[0];
    Value *whole = reduce->out[0];
    Type t = whole->type;
    Build b = ir_build_at(p, reduce, reduce);
    Op *first = ir_op_typed(&b, reduce->kind, 1, &x, reduce->attr, 1, &t,
                            &x->name);
    first->why = reduce->why;
    b.loc = sum->loc;
    b.path = sum->path;
    Value *arg[2];
    arg[1 - share] = first->out[0];
    arg[share] = part_for(&b, bias, &t, attr_axes(reduce));
    Op *last = ir_op_typed(&b, sum->kind, 2, arg, sum->attr, 1, &t,
                           &whole->name);
    for (int a = 0; a < p->mesh.n; a++)
        first->out[0]->why[a] = last->out[0]->why[a] = whole->why[a];
    ir_replace_uses(reduce->region, whole, last->out[0]);
    last->out[0]->name = whole->name; /* `reduce` had it and is removed */
    return first;
}

void simplify_summands(Program *p, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->body)
            simplify_summands(p, op->body);
        if ((op->kind != OP_all_reduce && op->kind != OP_reduce_scatter) ||
            op->nargs != 1 || is_flat(op))
            continue;
        Op *sum = op->arg[0]->def;
        int share = share_of(sum, r, attr_axes(op));
        if (share < 0)
            continue;
        Op *taken = sum->arg[share]->def;
        next = reduce_first(p, op, sum, share); /* it may be such a reduction
                                                 * too */
        ir_remove(op);
        ir_remove(sum);
        if (ir_count_uses(taken->out[0]) == 0)
            ir_remove(taken);
    }
}
