/* split_collectives.c: splits a collective whose groups have several ranks on each
 * of several nodes into collectives inside nodes and between them.
 *
 * requires: STAGE_FUSED; every axis is inside nodes or between them
 *           (split_node_axis.c)
 * ensures:  an all-gather first gathers between nodes, from each of the others
 *           one rank's part of a tensor, then inside the node; a reduce-scatter
 *           does the reverse. A large all-reduce is a reduce-scatter
 *           inside the node, an all-reduce between nodes, an all-gather inside.
 *           So a node's ranks together receive a tensor once, not each of them.
 *           These stay one collective: all-to-alls, maxima, all-reduces of less
 *           than 64 KiB in all, gathers in place, tensors that cannot be split
 *           over both without padding, and those that an axis between nodes
 *           splits first
 *
 * before   mesh dp.in=2@1 dp.out=4@2
 *          node_size 2
 *            %w.2 = all_gather{axes={dp.in, dp.out}, unit="layers.*",
 *                   prefetch=1} %w : f32[64, 64] forward
 *            %dw.2 = reduce_scatter{axes={dp.in, dp.out}, unit="layers.*"} %dw
 *                   : f32[64, 64]~dp.in~dp.out backward
 * after      %w.3 = all_gather{axes={dp.out}, unit="layers.*", prefetch=0} %w
 *                   : f32[64, 64]~dp.in forward
 *            %w.2 = all_gather{axes={dp.in}, unit="layers.*", prefetch=1} %w.3
 *                   : f32[64, 64] forward
 *            %dw.3 = reduce_scatter{axes={dp.in}, unit="layers.*"} %dw
 *                   : f32[64, 64]~dp.in+dp.out backward
 *            %dw.2 = reduce_scatter{axes={dp.out}, unit="layers.*"} %dw.3
 *                   : f32[64, 64]~dp.in~dp.out backward
 */
#include "ir/analysis/alias.h"
#include "passes/pass.h"

#include <string.h>

/* An all-reduce of fewer bytes takes the time of its rounds: one is faster than
 * three. */
enum { LEAST_BYTES = 64 << 10 };

/* The axes of a collective that are inside nodes, and between them. */
typedef struct NodeAxes {
    uint32_t in, out;
} NodeAxes;

static NodeAxes node_axes_of(const Program *p, const Op *op)
{
    uint32_t between = mesh_between_nodes(&p->mesh), axes = 0;
    for (int a = 0; a < p->mesh.n; a++)
        if ((attr_axes(op) >> a & 1) && p->mesh.size[a] > 1)
            axes |= 1u << a;
    return (NodeAxes){axes & ~between, axes & between};
}

/* Whether t, which both kinds of axes split, is split first over those inside
 * nodes, into parts that the others split without padding. */
static bool nests(const Program *p, const Type *t, NodeAxes l)
{
    const Mesh *m = &p->mesh;
    Type unflattened = *t;
    for (int a = 0; a < m->n; a++)
        for (int b = 0; b < m->n; b++) {
            AxisPlace x = t->place.ax[a], y = t->place.ax[b];
            bool same = x.kind == y.kind && x.dim == y.dim;
            bool after = x.kind == AX_FLAT ? a > b : x.order > y.order;
            if ((l.in >> a & 1) && (l.out >> b & 1) && same && after)
                return false;
        }
    for (int a = 0; a < m->n; a++)
        if (unflattened.place.ax[a].kind == AX_FLAT)
            unflattened.place.ax[a] = (AxisPlace){0};
    return type_flat_run(&unflattened, m) % mesh_group(m, type_flat_axes(t)) == 0;
}

static Type placed_as(Type t, uint32_t axes, const Placement *as)
{
    for (int a = 0; a < MAX_AXES; a++)
        if (axes >> a & 1)
            t.place.ax[a] = as->ax[a];
    return t;
}

/* Adds a collective over some axes before op, for all its members. `to` has the
 * values that it makes; its attributes besides the axes are those of op. */
static Op *add_before(Program *p, Op *op, OpKind kind, uint32_t axes,
                      Value **from, Value **to)
{
    Build b = ir_build_at(p, op, op);
    Attr attr[MAX_ATTRS] = {{0}};
    if (kind == op->kind)
        memcpy(attr, op->attr, sizeof attr);
    Op *added = ir_op_typed(&b, kind, 0, NULL, attr, 0, NULL, NULL);
    set_attr_axes(added, axes);
    ir_set_members(added, op->nargs, arena_copy(p->arena, from,
                                                (size_t)op->nargs *
                                                    sizeof *from), to);
    added->why = op->why;
    return added;
}

/* The values between two collectives: op's operands, or its results, with some
 * axes placed as in its results, or its operands. */
static Value **values_between(Program *p, const Op *op, uint32_t axes)
{
    Value **to = NEW_ARRAY(p->arena, Value *, op->nargs + 1);
    for (int i = 0; i < op->nargs; i++) {
        const Value *from = op->arg[i], *result = op->out[i];
        to[i] = ir_new_value(p, result->name,
                             placed_as(from->type, axes, &result->type.place),
                             result->loc);
        to[i]->region = op->region;
        for (int a = 0; a < MAX_AXES; a++)
            to[i]->why[a] = axes >> a & 1 ? result->why[a] : from->why[a];
    }
    return to;
}

/* Makes two of op: the new one over `first`, before it. */
static void split_in_two(Program *p, Op *op, uint32_t first, uint32_t second)
{
    Value **between = values_between(p, op, first);
    Op *added = add_before(p, op, op->kind, first, op->arg, between);
    if (op->kind == OP_all_gather)
        set_attr_prefetch(added, 0);
    for (int i = 0; i < op->nargs; i++)
        op->arg[i] = between[i];
    set_attr_axes(op, second);
}

/* Whether an all-reduce's operand can be cut over more axes, which are minor to
 * those that cut it in runs already. */
static bool can_be_cut(const Program *p, const Type *t, uint32_t axes)
{
    Type cut = *t;
    uint32_t flat = type_flat_axes(t);
    for (int a = 0; a < p->mesh.n; a++) {
        if (t->place.ax[a].kind == AX_PMAX ||
            ((flat >> a & 1) && (axes & ((1u << a) - 1))))
            return false;
        if (axes >> a & 1)
            cut.place.ax[a] = (AxisPlace){.kind = AX_FLAT};
    }
    return !flat || nests(p, &cut, (NodeAxes){0});
}

/* Makes three of an all-reduce. */
static void split_sum(Program *p, Op *op, NodeAxes l)
{
    Value **part = values_between(p, op, 0);
    Value **sum = values_between(p, op, 0);
    for (int i = 0; i < op->nargs; i++)
        for (int a = 0; a < p->mesh.n; a++) {
            if (l.in >> a & 1)
                part[i]->type.place.ax[a] = sum[i]->type.place.ax[a] =
                    (AxisPlace){.kind = AX_FLAT};
            if (l.out >> a & 1)
                sum[i]->type.place.ax[a] = (AxisPlace){0};
        }
    add_before(p, op, OP_reduce_scatter, l.in, op->arg, part);
    add_before(p, op, OP_all_reduce, l.out, part, sum);
    Op *last = add_before(p, op, OP_all_gather, l.in, sum, op->out);
    last->loc = op->loc;
    ir_remove(op);
}

static void split(Program *p, Op *op)
{
    NodeAxes l = node_axes_of(p, op);
    int64_t bytes = 0;
    bool nested = true, cut = true, in_place = false;
    if (!l.in || !l.out)
        return;
    for (int i = 0; i < op->nargs; i++) {
        bytes += type_local_bytes(&op->arg[i]->type, &p->mesh);
        nested &= nests(p, op->kind == OP_all_gather ? &op->arg[i]->type
                                                     : &op->out[i]->type, l);
        cut &= can_be_cut(p, &op->arg[i]->type, l.in);
        in_place |= value_gathered_from(p, op->out[i]) != NULL;
    }
    if (op->kind == OP_all_gather && nested && !in_place)
        split_in_two(p, op, l.out, l.in);
    else if (op->kind == OP_reduce_scatter && nested)
        split_in_two(p, op, l.in, l.out);
    else if (op->kind == OP_all_reduce && cut && bytes >= LEAST_BYTES)
        split_sum(p, op, l);
}

static void split_region(Program *p, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_loop)
            split_region(p, op->body);
        else if (op_is_collective(op->kind))
            split(p, op);
    }
}

void pass_split_collectives(Program *p, const TargetInfo *t)
{
    (void)t;
    if (mesh_between_nodes(&p->mesh))
        split_region(p, p->step);
}
