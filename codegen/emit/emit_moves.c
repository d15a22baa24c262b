/* emit_moves.c: emits statements that move data: collectives between ranks,
 * local slices, transfers from and to host memory, and copies within a rank.
 *
 * A collective is one call with a list of parts; a part is `outer` rows of
 * `inner` contiguous elements in every rank's arena (ParcPart in parc_rt.h).
 *
 *   parc_all_gather(rt, 1, AXIS_dp, 1, (ParcPart[]){
 *       {.src = AT_w_shard, .dst = AT_w, .outer = 1, .inner = 8192},
 *   });
 *
 * The comment above the call states the plan's id, the reason and the bytes.
 */
#include "codegen/emit/emitter.h"
#include "codegen/move_block.h"

#include "base/bug.h"

/* "{.src = …, .dst = …, …}" */
static const char *part_text(Emitter *e, Value *from, Value *to, MoveBlock b)
{
    Arena *a = e->p->arena;
    bool rows = b.outer > 1;
    const char *text = arena_printf(
        a, "{.src = %s, .dst = %s, .outer = %s, .inner = %s",
        value_row_offset(e, from), value_offset(e, to),
        rows ? own_rows_of(e, &from->type, b.outer) : "1",
        rows ? arena_printf(a, "%lld", (long long)b.inner)
             : own_rows_of(e, &from->type, b.inner));
    if (value_is_inside(from))
        text = arena_printf(a, "%s, .inside = true", text);
    if (b.middle)
        text = arena_printf(a, "%s, .middle = %lld", text,
                            (long long)b.middle);
    if (b.valid)
        text = arena_printf(a, "%s, .valid = %lld", text, (long long)b.valid);
    if (b.zigzag)
        text = arena_printf(a, "%s, .zigzag = true", text);
    if (b.minor)
        text = arena_printf(a, "%s, .minor = true", text);
    if (from->type.dtype != DT_F32)
        text = arena_printf(a, "%s, .type = %s", text,
                            c_parc_type(from->type.dtype));
    return arena_printf(a, "%s}", text);
}

static void collective_comment(Emitter *e, const Op *op,
                               const CollectiveInfo *c)
{
    Arena *a = e->p->arena;
    out_line(e->o, "/* %s %s over %s: %s", c->label, c->kind,
             c_comment(a, c->axis), c_comment(a, c->tensor));
    out_line(e->o, " * %s", c_comment(a, op->why.text ? op->why.text : ""));
    out_line(e->o, " * %s%s, %s */", bytes_text(a, c->bytes),
             c->in_place ? ", in place: no data moves" : "",
             c_comment(a, diag_where(e->p->diag, a, statement_loc(op))));
}

static bool is_moved(const Op *op, int i)
{
    return op->kind != OP_all_gather || !value_in_place(op->out[i]);
}

static int moved_parts(const Op *op)
{
    int n = 0;
    for (int i = 0; i < op->nargs; i++)
        n += is_moved(op, i);
    return n;
}

void emit_collective(Emitter *e, const Op *op)
{
    const CollectiveInfo *c = &e->collective[e->collective_of[op->id]];
    const char *axes = axes_expression(e, c->axes);
    collective_comment(e, op, c);
    if (c->in_place)
        return;
    if (op_is_hand_over(op->kind)) {
        emit_hand_over(e, op);
        return;
    }
    const char *reduce = "";
    if (op->kind == OP_all_reduce) {
        bool max = false;
        for (int a = 0; a < e->p->mesh.n; a++)
            max |= c->axes & 1u << a &&
                   op->arg[0]->type.place.ax[a].kind == AX_PMAX;
        reduce = max ? "PARC_MAX, " : "PARC_SUM, ";
    }
    int n = moved_parts(op);
    out_line(e->o, "parc_%s(rt, %d, %s, %s%d, (ParcPart[]){", c->kind, c->id,
             axes, reduce, n);
    for (int i = 0; i < op->nargs; i++) {
        if (!is_moved(op, i))
            continue;
        e->o->indent += OUT_INDENT;
        out_code(e->o, "%s,",
                 part_text(e, op->arg[i], op->out[i], move_block(e->p, op, i)));
        e->o->indent -= OUT_INDENT;
    }
    out_line(e->o, "});");
}

static void local_slice(Emitter *e, const Op *op)
{
    const Type *from = &op->arg[0]->type, *to = &op->out[0]->type;
    if (type_cut(from) != type_cut(to)) {
        emit_stage_layers(e, op);
        return;
    }
    MoveBlock b = move_block_of(e->p, to, from, attr_axes(op));
    out_code(e->o, "parc_local_slice(rt, %s, &(ParcPart)%s);",
             axes_expression(e, attr_axes(op)),
             part_text(e, op->arg[0], op->out[0], b));
}

/* Of the axes along which each rank has a part of its own, every rank keeps what
 * it has; along the others the rank that has the tensor, or the first one. */
static void mask_to_partial(Emitter *e, const Op *op)
{
    const Type *from = &op->arg[0]->type;
    MoveBlock b = {.outer = 1, .inner = type_local_elements(from, &e->p->mesh)};
    uint32_t axes = 0;
    int64_t keeps = 0;
    for (int a = 0; a < e->p->mesh.n; a++) {
        AxisPlace at = from->place.ax[a];
        if (!(attr_axes(op) >> a & 1) || at.kind == AX_HERE)
            continue;
        axes |= 1u << a;
        keeps = keeps * e->p->mesh.size[a] +
                (at.kind == AX_AT ? stage_coordinate(&e->p->mesh, a, at.dim) : 0);
    }
    out_code(e->o, "parc_mask_to_partial(rt, %s, %lld, &(ParcPart)%s);",
             axes_expression(e, axes), (long long)keeps,
             part_text(e, op->arg[0], op->out[0], b));
}

void emit_local_part(Emitter *e, const Op *op)
{
    const char *why = op->why.text ? op->why.text : "";
    out_line(e->o, "/* %s%s%s */", op_info(op->kind)->name, *why ? ": " : "",
             c_comment(e->p->arena, why));
    if (op->kind == OP_local_slice)
        local_slice(e, op);
    else
        mask_to_partial(e, op);
}

/* The call has offsets, not pointers: host memory comes after the arena. */
void emit_transfer(Emitter *e, const Op *op)
{
    Arena *a = e->p->arena;
    const Statement *w = &e->statement[e->statement_of[op->id]];
    Value *to = op->out[0], *from = op->arg[0];
    out_line(e->o, "/* %s %s", w->id, c_comment(a, w->detail));
    out_line(e->o, " * %s, %s */", bytes_text(a, w->bytes),
             c_comment(a, diag_where(e->p->diag, a, op->loc)));
    out_code(e->o, "parc_%s(rt, %s, %s, %lld);", op_info(op->kind)->name,
             value_offset(e, to), value_offset(e, from), (long long)w->bytes);
}

/* ---- within a rank ------------------------------------------------------- */

static void strided_copy(Emitter *e, const Op *op, int ndim,
                         const int64_t *dim, const int64_t *stride)
{
    enum { HANG = 11 }; /* columns: of the second line of the call */
    Out *o = e->o;
    out(o, "%*sparc_copy(rt, %s, %s, %s, %d, (const int64_t[]){", o->indent, "",
        c_parc_type(op->out[0]->type.dtype), value_variable(e, op->out[0]),
        value_variable(e, op->arg[0]), ndim);
    for (int d = 0; d < ndim; d++)
        out(o, "%s%lld", d ? ", " : "", (long long)dim[d]);
    out(o, "},\n%*s(const int64_t[]){", o->indent + HANG, "");
    for (int d = 0; d < ndim; d++)
        out(o, "%s%lld", d ? ", " : "", (long long)stride[d]);
    out(o, "});\n");
}

static void strides_of(const Emitter *e, const Type *t,
                       int64_t stride[MAX_DIMS])
{
    int64_t n = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        stride[d] = n;
        n *= type_local_dim(t, &e->p->mesh, d);
    }
}

static void emit_transpose(Emitter *e, const Op *op)
{
    const Type *from = &op->arg[0]->type, *to = &op->out[0]->type;
    int64_t stride[MAX_DIMS], dim[MAX_DIMS], moved[MAX_DIMS];
    strides_of(e, from, stride);
    for (int d = 0; d < to->ndim; d++) {
        dim[d] = type_local_dim(to, &e->p->mesh, d);
        moved[d] = stride[attr_perm(op)->v[d]];
    }
    strided_copy(e, op, to->ndim, dim, moved);
}

/* Emits a copy of rows of `inner` elements between tensors with longer rows: an
 * operand of a concat, a slice, or the interior of a pad. */
static void emit_rows(Emitter *e, Value *to, int64_t to_row, int64_t to_at,
                      Value *from, int64_t from_row, int64_t from_at,
                      int64_t outer, int64_t inner)
{
    out_code(e->o, "parc_copy_rows(rt, %s, %s + %lld, %lld, %s + %lld, %lld, "
             "%lld, %lld);", c_parc_type(to->type.dtype),
             value_variable(e, to), (long long)to_at, (long long)to_row,
             value_variable(e, from), (long long)from_at, (long long)from_row,
             (long long)outer, (long long)inner);
}

static int64_t row_size(const Emitter *e, const Type *t, int d)
{
    return move_product(e->p, t, d, t->ndim);
}

static void emit_slice(Emitter *e, const Op *op)
{
    const Type *from = &op->arg[0]->type, *to = &op->out[0]->type;
    int d = attr_dim(op);
    int64_t below = row_size(e, from, d + 1);
    emit_rows(e, op->out[0], row_size(e, to, d), 0, op->arg[0],
              row_size(e, from, d), attr_start(op) * below,
              move_product(e->p, from, 0, d), row_size(e, to, d));
}

static void emit_pad(Emitter *e, const Op *op)
{
    const Type *from = &op->arg[0]->type, *to = &op->out[0]->type;
    int d = attr_dim(op);
    out_line(e->o, "parc_zero(rt, %s, %lld);", value_variable(e, op->out[0]),
             (long long)type_local_bytes(to, &e->p->mesh));
    emit_rows(e, op->out[0], row_size(e, to, d),
              attr_before(op) * row_size(e, from, d + 1), op->arg[0],
              row_size(e, from, d), 0, move_product(e->p, from, 0, d),
              row_size(e, from, d));
}

static void emit_concat(Emitter *e, const Op *op)
{
    const Type *to = &op->out[0]->type;
    int d = attr_dim(op);
    int64_t at = 0;
    for (int i = 0; i < op->nargs; i++) {
        const Type *from = &op->arg[i]->type;
        emit_rows(e, op->out[0], row_size(e, to, d), at, op->arg[i],
                  row_size(e, from, d), 0, move_product(e->p, to, 0, d),
                  row_size(e, from, d));
        at += row_size(e, from, d);
    }
}

/* The distance in elements between consecutive layers of a stack. */
static int64_t layer_step(const Emitter *e, Value *v)
{
    int64_t row = value_address(v)->row;
    return row ? row / dtype_size(v->type.dtype)
               : type_flat_run(&v->type, &e->p->mesh);
}

static void emit_copy(Emitter *e, const Op *op)
{
    Value *to = op->out[0], *from = op->arg[0];
    int64_t layers = type_local_layers(&to->type, &e->p->mesh);
    if (layers > 1 && layer_step(e, to) != layer_step(e, from))
        emit_rows(e, to, layer_step(e, to), 0, from, layer_step(e, from), 0,
                  layers, type_flat_run(&to->type, &e->p->mesh));
    else
        out_code(e->o, "parc_move(rt, %s, %s, %lld);", value_variable(e, to),
                 value_variable(e, from),
                 (long long)type_local_bytes(&to->type, &e->p->mesh));
}

void emit_copy_op(Emitter *e, const Op *op)
{
    switch ((int)op->kind) {
    case OP_transpose: emit_transpose(e, op); return;
    case OP_slice: emit_slice(e, op); return;
    case OP_pad: emit_pad(e, op); return;
    case OP_concat: emit_concat(e, op); return;
    case OP_copy: emit_copy(e, op); return;
    }
    bug("emit: no copy for %s", op_info(op->kind)->name);
}
