/* loop_axis.c: converts a loop axis of the mesh into a loop; see loop_axis.h.
 *
 * requires: LoopAxis.inside, LoopAxis.total and LoopAxis.gather are filled in;
 *           the operands of totals are computed inside; no op inside depends on
 *           a result of the loop
 * ensures:  ops that were inside are in the body of a loop, forward ops before
 *           backward ops; inputs and `base` values (where a part begins) that
 *           differ between iterations are stacked operands; sums over the
 *           iterations are carries in f32
 */
#include <string.h>

#include "base/bug.h"
#include "passes/microbatch/loop_axis.h"

/* Operands of the loop by kind, and the body's arguments for them. */
typedef struct Entries {
    ValueVec start, stack, free;
    ValueMap inner;
} Entries;

/* ---- types --------------------------------------------------------------- */

/* The type of one iteration's part. */
static Type part_type(const LoopAxis *t, Type whole)
{
    AxisPlace *at = &whole.place.ax[t->axis];
    if (at->kind == AX_S)
        whole.dim[at->dim] /= t->n;
    *at = (AxisPlace){0};
    type_normalize(&whole, &t->p->mesh);
    return whole;
}

Type loop_axis_stack(const LoopAxis *t, Type whole)
{
    Type part = part_type(t, whole);
    if (!type_push_stack(&part, t->n, 0))
        ir_too_deep(t->p, t->p->train.loc);
    return part;
}

void loop_axis_fit_attributes(Op *op)
{
    const Type *out = op->nouts ? &op->out[0]->type : NULL;
    if (op->kind == OP_full || op->kind == OP_zeros ||
        op->kind == OP_reshape || op->kind == OP_broadcast ||
        op->kind == OP_random) {
        AttrList dims = *attr_dims(op);
        for (int d = 0; d < dims.n; d++)
            dims.v[d] = out->dim[d];
        set_attr_dims(op, dims);
    }
    if (op->kind == OP_iota)
        set_attr_n(op, out->dim[0]);
    if (op->kind == OP_group_rows) { /* groups; the experts of a shard stay */
        AttrList shape = *attr_shape(op);
        for (int d = 0; d < out->ndim; d++)
            shape.v[d] = out->dim[d];
        set_attr_shape(op, shape);
    }
}

static void strip_value(const LoopAxis *t, Value *v)
{
    v->type = part_type(t, v->type);
    v->why[t->axis] = (Why){0};
}

/* Removes the loop axis from the types and attributes of the op and its body. */
static void strip_op(const LoopAxis *t, Op *op)
{
    for (int i = 0; i < op->nouts; i++)
        strip_value(t, op->out[i]);
    loop_axis_fit_attributes(op);
    for (int i = 0; op->body && i < op->body->nargs; i++)
        strip_value(t, op->body->arg[i]);
    for (Op *o = op->body ? op->body->first : NULL; o; o = o->next)
        strip_op(t, o);
}

/* ---- operands ------------------------------------------------------------ */

static bool becomes_stack(const LoopAxis *t, const Value *v)
{
    bool outside = v->def && (v->def->kind == OP_input ||
                              v->def->kind == OP_base);
    return v->type.place.ax[t->axis].kind != AX_R ||
           (outside && v->type.nstack > 0);
}

static void find_entries(LoopAxis *t, Entries *e)
{
    for (const Op *op = t->r->first; op; op = op->next)
        for (int i = 0; loop_axis_has(t, op) && i < op->nargs; i++) {
            Value *v = op->arg[i];
            if (loop_axis_has(t, v->def) || vec_has(&e->stack, v) ||
                vec_has(&e->free, v))
                continue;
            if (becomes_stack(t, v))
                vec_push(t->p->arena, &e->stack, v);
            else
                vec_push(t->p->arena, &e->free, v);
        }
}

/* Converts a local slice of a value that is the same in all iterations into a
 * stack of the slices: the loop axis is minor in its dim, and the parts are
 * contiguous. */
static void fold(const LoopAxis *t, Value *v)
{
    Op *op = v->def;
    op->kind = OP_fold;
    set_attr_dim(op, v->type.place.ax[t->axis].dim);
    set_attr_n(op, t->n);
    v->type = loop_axis_stack(t, v->type);
    v->why[t->axis] = (Why){0};
}

/* Converts an all-gather of what the iterations yield into an unfold of the
 * stack that the loop returns. */
static void unfold(Op *gather, int dim, Value *stack)
{
    gather->kind = OP_unfold;
    set_attr_dim(gather, dim);
    gather->arg[0] = stack;
}

/* Inputs and bases are stored by iteration: the loop axis is major in dim 0. */
static void stack_entry(LoopAxis *t, Value *v)
{
    if (v->type.place.ax[t->axis].kind == AX_R)
        return; /* stacked by another loop */
    if (v->def && loop_axis_converts(v->def, t->axis)) {
        fold(t, v);
        return;
    }
    if (!v->def || (v->def->kind != OP_input && v->def->kind != OP_base))
        bug("loop axis: %%%s differs between iterations", v->name);
    v->type = loop_axis_stack(t, v->type);
    v->why[t->axis] = (Why){0};
    if (v->def->kind == OP_input)
        t->p->input.at[attr_input(v->def)].type = v->type;
}

static void make_starts(LoopAxis *t, Entries *e, Op *at)
{
    Build b = {.p = t->p, .region = t->r, .before = at, .phase = PH_FORWARD,
               .path = ""};
    for (int i = 0; i < t->total.n; i++) {
        const Op *total = t->total.at[i];
        Type type = part_type(t, total->arg[0]->type);
        if (dtype_is_float(type.dtype))
            type.dtype = DT_F32;
        b.loc = total->loc;
        Value *zero = loop_axis_zero(&b, &type, total->out[0]->name);
        memcpy(zero->why, total->arg[0]->why, sizeof zero->why);
        zero->why[t->axis] = (Why){0};
        vec_push(t->p->arena, &e->start, zero);
    }
}

static Op *open_loop(LoopAxis *t, Entries *e, Op *at)
{
    int n = e->start.n + e->stack.n + e->free.n, k = 0;
    Value **arg = NEW_ARRAY(t->p->arena, Value *, n);
    const ValueVec *lists[] = {&e->start, &e->stack, &e->free};
    for (int l = 0; l < 3; l++)
        for (int i = 0; i < lists[l]->n; i++)
            arg[k++] = lists[l]->at[i];
    Build b = {.p = t->p, .region = t->r, .before = at, .phase = PH_FORWARD,
               .loc = t->loc, .path = t->path};
    Attr attr[MAX_ATTRS] = {{.i = t->n}, {.i = 0}};
    Op *loop = ir_open(&b, OP_loop, n, arg, e->start.n, e->stack.n, attr);
    for (int i = e->start.n; i < n; i++)
        value_map_set(t->p, &e->inner, arg[i], loop->body->arg[i]);
    return loop;
}

/* ---- the body ------------------------------------------------------------ */

static void move_op(LoopAxis *t, const Entries *e, Op *op, Region *body)
{
    for (int i = 0; i < op->nargs; i++) {
        Value *inner = value_map_get(&e->inner, op->arg[i]);
        if (inner)
            op->arg[i] = inner;
    }
    strip_op(t, op);
    ir_move(op, body, NULL);
}

/* Moves ops into the body by phase: an iteration runs forward, then backward. A
 * constant that differs between iterations becomes a forward op. */
static void fill_body(LoopAxis *t, const Entries *e, Region *body)
{
    for (Op *op = t->r->first; op; op = op->next) {
        if (!loop_axis_has(t, op))
            continue;
        if (op->phase == PH_INIT)
            op->phase = PH_FORWARD;
        for (int i = 0; i < op->nargs; i++)
            if (loop_axis_has(t, op->arg[i]->def) &&
                op->arg[i]->def->phase > op->phase)
                op->phase = op->arg[i]->def->phase;
    }
    for (Phase phase = PH_FORWARD; phase <= PH_OPTIMIZER; phase++)
        for (Op *op = t->r->first, *next; op; op = next) {
            next = op->next;
            if (loop_axis_has(t, op) && op->phase == phase)
                move_op(t, e, op, body);
        }
}

/* Reduces a total's all-reduce to the other axes: the loop has summed over its
 * own. */
static void finish_total(LoopAxis *t, Op *total, Value *sum)
{
    Build b = ir_build_at(t->p, total, total);
    uint32_t others = attr_axes(total) & ~(1u << t->axis);
    const Value *old = total->out[0];
    sum = ir_cast(&b, sum, old->type.dtype);
    if (others) {
        set_attr_axes(total, others);
        total->arg[0] = sum;
        return;
    }
    ir_replace_uses(t->r, total->out[0], sum);
    ir_remove(total);
    sum->name = old->name;
    memcpy(sum->why, old->why, sizeof sum->why);
}

void loop_axis_make_loop(LoopAxis *t)
{
    Program *p = t->p;
    Entries e = {.inner = {0}};
    find_entries(t, &e);
    Op *at = loop_axis_insertion_point(t);
    make_starts(t, &e, at);
    for (int i = 0; i < e.stack.n; i++)
        stack_entry(t, e.stack.at[i]);
    Op *loop = open_loop(t, &e, at);
    Region *body = loop->body;
    int n = t->total.n, all = n + t->gather.n;
    int *dim = NEW_ARRAY(p->arena, int, all);
    for (int i = n; i < all; i++)
        dim[i] = t->gather.at[i - n]->arg[0]->type.place.ax[t->axis].dim;
    fill_body(t, &e, body);
    Value **yield = NEW_ARRAY(p->arena, Value *, all + 1);
    for (int i = 0; i < n; i++) {
        Value *x = t->total.at[i]->arg[0];
        bool alone = true;
        for (int k = 0; k < n; k++)
            alone &= k == i || t->total.at[k]->arg[0] != x;
        yield[i] = loop_axis_add(p, body, body->arg[i], x, alone);
    }
    for (int i = n; i < all; i++)
        yield[i] = t->gather.at[i - n]->arg[0];
    ir_yield(p, body, all, yield);
    ir_close(p, loop);
    for (int i = 0; i < n; i++)
        finish_total(t, t->total.at[i], loop->out[i]);
    for (int i = n; i < all; i++)
        unfold(t->gather.at[i - n], dim[i], loop->out[i]);
}
