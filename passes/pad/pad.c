/* pad.c: pads sizes that the mesh does not divide, and rows of matmuls that the
 * target wants aligned.
 *
 * requires: STAGE_GLOBAL, with gradients; Program.plan as the frontend resolved
 *           it
 * ensures:  every size that a style splits is a multiple of the number of its
 *           parts, or an error names a size that cannot be padded. Param.pad
 *           says how much of a dim is padding. Padding does not affect the
 *           results: where the elements of a padded dim are reduced it is
 *           masked; in gradients and parameters it is zero
 *
 * before   mesh tp=2
 *            style ColwiseParallel "head" axis=tp …
 *          param "head.weight" : f32[257, 64] …
 *          %w = param{param="head.weight"} : f32[257, 64] forward
 *          %z = einsum{spec="bk,fk->bf", …} %h, %w : f32[8, 257] forward
 *          %e = exp %z : f32[8, 257] forward
 *          %s = sum{dims=[1], keep=false} %e : f32[8] forward
 * after    param "head.weight" : f32[258, 64] … pad=[1, 0]
 *          %w = param{param="head.weight"} : f32[258, 64] forward
 *          %z = einsum{spec="bk,fk->bf", …} %h, %w : f32[8, 258] forward
 *          %e = exp %z : f32[8, 258] forward
 *          %e.2 = mul %e, %valid : f32[8, 258] forward
 *          %s = sum{dims=[1], keep=false} %e.2 : f32[8] forward
 *
 * On CUDA, cuBLASLt's fast kernels for 16 bits load tiles with TMA, which needs
 * rows of a multiple of 16 bytes: GPT-2's 50257 scores become 50304. Where the
 * last dim of such an operand or result is not a multiple of 8 elements on a
 * rank, it is padded: from 256 elements on to a multiple of 8, from 4096 on to
 * a multiple of 64.
 *
 * Padding applies to a class of dims that must have the same size
 * (pad_classes.c). If one of them cannot be padded (attention heads, the batch,
 * the sequence) none is.
 */
#include "passes/pad/pad.h"

#include "ir/analysis/conv.h"
#include "ir/units.h"
#include "passes/pass.h"
#include "passes/sharding/layouts.h"
#include "passes/side_program.h"

/* A size that cannot be split is reported where the plan first requires it. The
 * same size at further styles and ports is not reported, nor for other parts of
 * an axis that the pass split_kv_axis has split. */
typedef struct Refusal {
    int axis;
    int64_t size;
} Refusal;

typedef struct Pad {
    Program *p;
    PadClasses *c;
    uint32_t *axes; /* by parameter and dim: axes that split it so far */
    bool any;       /* some size is padded */
    VEC(Refusal) refused;
} Pad;

static bool first_refusal(Pad *g, int axis, int64_t size)
{
    uint32_t same = mesh_user_axis(&g->p->mesh, axis);
    for (int i = 0; i < g->refused.n; i++)
        if (same >> g->refused.at[i].axis & 1 && g->refused.at[i].size == size)
            return false;
    Refusal r = {axis, size};
    vec_push(g->p->arena, &g->refused, r);
    return true;
}

/* ---- required splits ----------------------------------------------------- */

/* Adds `parts` to the class's required parts; false if it cannot be divided. */
static bool ask(Pad *g, PadClass *k, int64_t parts)
{
    if (k->size % parts && k->block.why)
        return false;
    k->parts *= parts / common_divisor(k->parts, parts);
    int64_t rest = k->size % k->parts;
    if (rest && k->block.why)
        return true; /* each axis alone divides it */
    k->padded = rest ? k->size + k->parts - rest : k->size;
    g->any = g->any || rest;
    return true;
}

/* Asks for the parts of the style's axis too, besides those of `axes`. True: the
 * class cannot be divided, and this is to be reported. */
static bool is_refused(Pad *g, PadClass *k, const Style *s, uint32_t *axes)
{
    *axes |= 1u << s->axis;
    return !ask(g, k, mesh_group(&g->p->mesh, *axes)) &&
           first_refusal(g, s->axis, k->size);
}

/* Explains why the class keeps its size and what to change. */
static void explain_padding(Pad *g, const PadClass *k, int64_t parts)
{
    diag_note(g->p->diag, k->block.loc, "it cannot be padded: %s",
              k->block.why);
    diag_help(g->p->diag, "choose a size that is a multiple of %lld, or "
                          "another mesh", (long long)parts);
}

static void ask_param(Pad *g, const Style *s, int param, int dim)
{
    Program *p = g->p;
    const Mesh *m = &p->mesh;
    const Param *q = &p->param.at[param];
    uint32_t *axes = &g->axes[param * MAX_DIMS + dim];
    PadClass *k = pad_param_class(g->c, param, dim);
    if (!is_refused(g, k, s, axes))
        return;
    uint32_t user = mesh_user_axis(m, s->axis);
    diag_error(p->diag, s->loc,
               "axis '%s' of size %lld does not divide dim %d of '%s' (%lld)",
               mesh_user_name(p->arena, m, s->axis),
               (long long)mesh_group(m, user), dim, q->name,
               (long long)k->size);
    diag_note(p->diag, q->loc, "'%s' is %s", q->name,
              type_text(p->arena, &q->type, m));
    explain_padding(g, k, mesh_group(m, *axes | user));
}

static void ask_for_params(Pad *g)
{
    Program *p = g->p;
    for (int i = 0; i < p->param.n; i++)
        for (int k = 0; k < p->param.at[i].split.n; k++) {
            StyleSplit by = p->param.at[i].split.at[k];
            ask_param(g, &p->plan.style[by.style], i, by.dim);
        }
}

static void ask_layout(Pad *g, const Op *op, const Style *s, Layout l,
                       uint32_t axes[MAX_DIMS])
{
    Program *p = g->p;
    const Mesh *m = &p->mesh;
    const Type *t = &op->out[0]->type;
    int dim = l.dim < 0 ? l.dim + t->ndim : l.dim;
    if (l.kind != LAYOUT_SHARD || dim < 0 || dim >= t->ndim)
        return;
    PadClass *k = pad_class(g->c, op->out[0], dim);
    if (!is_refused(g, k, s, &axes[dim]))
        return;
    uint32_t user = mesh_user_axis(m, s->axis);
    diag_error(p->diag, s->loc,
               "axis '%s' of size %lld does not divide dim %d (%lld) that %s "
               "splits", mesh_user_name(p->arena, m, s->axis),
               (long long)mesh_group(m, user), dim, (long long)k->size,
               style_text(p->arena, s));
    diag_note(p->diag, op->loc, "%s of '%s' is %s", port_text(p->arena, op),
              attr_path(op), type_text(p->arena, t, m));
    explain_padding(g, k, mesh_group(m, axes[dim] | user));
}

static void ask_for_boundary(Pad *g, Op *op)
{
    uint32_t from_axes[MAX_DIMS] = {0}, to_axes[MAX_DIMS] = {0};
    if (op->kind != OP_boundary || attr_grad(op))
        return;
    for (int a = 0; a < g->p->mesh.n; a++) {
        const Style *s = style_of_boundary(g->p, op, a);
        if (!s)
            continue;
        Layout from, to;
        style_port(s, attr_port(op), &from, &to);
        ask_layout(g, op, s, to, to_axes);
        ask_layout(g, op, s, from, from_axes);
    }
}

/* ---- aligned rows -------------------------------------------------------- */

/* The multiple that a row of n elements is padded to; 1: it stays as it is. */
static int64_t wanted_multiple(int64_t n)
{
    enum { FAST = 8, BEST = 64, SMALL = 256, LARGE = 4096 };
    if (n % FAST == 0 || n < SMALL)
        return 1;
    return n < LARGE ? FAST : BEST;
}

static void align_row(Pad *g, const Value *v)
{
    int last = v->type.ndim - 1;
    PadClass *k = last >= 0 ? pad_class(g->c, v, last) : NULL;
    if (!k || k->block.why || dtype_size(v->type.dtype) != 2)
        return;
    /* Each part is a rank's row. */
    int64_t align = wanted_multiple((k->size + k->parts - 1) / k->parts);
    if (align <= k->align)
        return;
    int64_t multiple = k->parts * align;
    k->align = align;
    k->padded = (k->size + multiple - 1) / multiple * multiple;
    g->any = true;
}

static void align_operands(Pad *g, Op *op)
{
    if (!op_is_einsum(op->kind))
        return;
    for (int i = 0; i < 2; i++)
        align_row(g, op->arg[i]);
    align_row(g, op->out[0]);
}

/* ---- new sizes ----------------------------------------------------------- */

static void resize_value(const Pad *g, Value *v)
{
    for (int d = 0; d < v->type.ndim; d++)
        v->type.dim[d] = pad_class(g->c, v, d)->padded;
}

/* Updates attributes that hold the size of a result's dim. */
static void resize_attributes(Op *op)
{
    const Type *t = op->nouts ? &op->out[0]->type : NULL;
    AttrList dims;
    switch ((int)op->kind) {
    case OP_full:
    case OP_reshape:
    case OP_broadcast:
    case OP_random: /* `global` keeps the size without padding */
        dims = *attr_dims(op);
        for (int d = 0; d < t->ndim; d++)
            dims.v[d] = t->dim[d];
        set_attr_dims(op, dims);
        break;
    case OP_iota:
    case OP_embedding_grad:
        set_attr_n(op, t->dim[0]);
        break;
    case OP_onehot:
        set_attr_n(op, t->dim[t->ndim - 1]);
        break;
    case OP_conv:
    case OP_conv_grad_x:
    case OP_conv_grad_weight: { /* each channel may be a group */
        ConvTensors c = conv_tensors(op);
        set_attr_groups(op, c.x->type.dim[1] / c.weight->type.dim[1]);
        break;
    }
    }
}

static void resize_op(const Pad *g, Op *op)
{
    for (int i = 0; i < op->nouts; i++)
        resize_value(g, op->out[i]);
    for (int i = 0; op->body && i < op->body->nargs; i++)
        resize_value(g, op->body->arg[i]);
    resize_attributes(op);
}

static void resize_params(const Pad *g)
{
    for (int i = 0; i < g->p->param.n; i++) {
        Param *q = &g->p->param.at[i];
        for (int d = 0; d < q->type.ndim; d++) {
            const PadClass *k = pad_param_class(g->c, i, d);
            q->pad[d] = k->padded - k->size;
            q->type.dim[d] = k->padded;
        }
    }
}

/* Pads parameters in a side program as in the training step, where more ops may have
 * dims of a class. */
static void follow_training(Pad *g)
{
    Program *p = g->p;
    for (int i = 0; i < p->param.n; i++) {
        const Param *of = side_param(p, &p->param.at[i]);
        for (int d = 0; of && d < of->type.ndim; d++) {
            PadClass *k = pad_param_class(g->c, i, d);
            k->padded = of->type.dim[d];
            g->any = g->any || of->pad[d];
        }
    }
}

void pass_pad(Program *p, const TargetInfo *t)
{
    Pad g = {.p = p, .c = pad_classes(p)};
    g.axes = NEW_ARRAY(p->arena, uint32_t, p->param.n * MAX_DIMS + 1);
    ask_for_params(&g);
    for_ops(op, p->step)
        ask_for_boundary(&g, op);
    if (t->aligns_rows)
        for_ops(op, p->step)
            align_operands(&g, op);
    if (diag_error_count(p->diag) > 0)
        return;
    follow_training(&g);
    if (!g.any)
        return;
    for_ops(op, p->step)
        resize_op(&g, op);
    resize_params(&g);
    pad_mask(g.c);
}
