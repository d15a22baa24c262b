/* plan_advice.c: suggests plan lines that avoid a collective which no style
 * requires, or that split a computation which ranks repeat.
 *
 * A table of known cases is tried in order. Each case looks at the op that
 * needs another placement, at the producer of the operand, and at the styles of
 * the surrounding modules, and returns lines of a plan, or NULL if it does not
 * apply. A Linear is any module with one 2-D parameter that it contracts.
 *
 *   attention   q, k or v is not split by heads
 *               -> ColwiseParallel on the Linears that make them
 *   unsummed    a Linear without a style multiplies a split input
 *               -> RowwiseParallel on it
 *   lookup      an Embedding reads its ids or its table in another placement
 *               -> RowwiseParallel(input=Replicate) on it
 *   linear      a Linear without a style has one operand split
 *               -> RowwiseParallel or ColwiseParallel on it
 *   input       the gradient of a ColwiseParallel's input is not split as its
 *               `input=` says
 *               -> input= on it
 *   rows        an elementwise op needs a tensor in another placement, whose
 *               last dim is split and contracted by a Linear without a style
 *               -> RowwiseParallel on that Linear
 *   features    an op sums over the last dim (a norm, say), which is split
 *               -> output=Replicate on the producer of the operand
 *   residual    two branches have different layouts
 *               -> output= on the producer of one of them
 */
#include "ir/plan/roles.h"
#include "passes/sharding/collective_origin.h"

#include "ir/analysis/producer.h"
#include "passes/sharding/layouts.h"

#include <string.h>

/* Whether the op belongs to a module that ColwiseParallel and RowwiseParallel
 * can split: it declares one 2-D parameter, as Linear and Embedding do.
 * weight_roles knows more, but only while boundaries exist. */
static bool has_weight(const Program *p, const Op *op)
{
    int n = 0;
    for (int i = 0; i < p->param.n && n < 2; i++)
        n += p->param.at[i].state_of < 0 && p->param.at[i].type.ndim == 2 &&
             module_declares(p, op->path, i);
    return n == 1;
}

/* "Shard(1)"; NULL: not a layout that a style can name. */
static const char *layout_text(Arena *a, AxisPlace at)
{
    if (at.kind == AX_R)
        return "Replicate";
    return at.kind == AX_S ? arena_printf(a, "Shard(%d)", at.dim) : NULL;
}

static AxisPlace place_of(const Value *v, int axis)
{
    return v->type.place.ax[axis];
}

static const char *line(const Program *p, const char *path, const char *style)
{
    return arena_printf(p->arena, "%s: %s", *path ? path : "model", style);
}

/* "Shard(-1)"; "" for the layout that the style has by default. */
static const char *own_input(const Program *p, const Style *s, bool embedding)
{
    Layout in = s->in_from[0];
    bool split = s->kind == STYLE_ROWWISE && !embedding;
    if (in.kind == LAYOUT_REPLICATE)
        return split ? "Replicate" : "";
    if (in.kind != LAYOUT_SHARD || (split && in.dim == -1))
        return "";
    return arena_printf(p->arena, "Shard(%d)", in.dim);
}

static bool has_output(const Style *s, AxisPlace at, int ndim)
{
    Layout l = s->out_to[0];
    return l.kind == LAYOUT_REPLICATE
               ? at.kind == AX_R
               : l.kind == LAYOUT_SHARD && at.kind == AX_S &&
                     at.dim == (l.dim < 0 ? l.dim + ndim : l.dim);
}

/* A line that gives the output of v's producer the layout `to`; NULL if it has
 * that layout. */
static const char *output_line(const Implied *x, const Value *v, AxisPlace to)
{
    const Op *op = producer_of(v);
    const char *layout = layout_text(x->p->arena, to);
    const Style *s = op ? style_of_path(x->p, op->path, x->axis) : NULL;
    if (!s || !layout || op->phase != PH_FORWARD ||
        (s->kind != STYLE_COLWISE && s->kind != STYLE_ROWWISE) ||
        has_output(s, to, op->out[0]->type.ndim))
        return NULL;
    const char *in = own_input(x->p, s, op->kind == OP_embedding);
    return line(x->p, op->path,
                arena_printf(x->p->arena, "%s(%s%s%soutput=%s)",
                             style_name(s->kind), *in ? "input=" : "", in,
                             *in ? ", " : "", layout));
}

/* ---- the cases ----------------------------------------------------------- */

/* Whether the axis divides the query heads of an attention. */
static bool divides_heads(const Program *p, const Op *op, int axis)
{
    uint32_t axes = mesh_user_axis(&p->mesh, axis);
    return op->arg[0]->type.dim[2] % mesh_group(&p->mesh, axes) == 0;
}

static const char *attention(const Implied *x)
{
    const char *text = NULL;
    if (!x->op || !op_is_attention(x->op->kind) ||
        !divides_heads(x->p, x->op, x->axis))
        return NULL;
    for (int i = 0; i < 3; i++) {
        const Op *op = producer_of(x->op->arg[i]);
        if (!op || !op_is_einsum(op->kind) || !has_weight(x->p, op) ||
            style_of_path(x->p, op->path, x->axis))
            continue;
        const char *more = line(x->p, op->path, "ColwiseParallel");
        if (!text || !strstr(text, more))
            text = text ? arena_printf(x->p->arena, "%s\n%s", text, more)
                        : more;
    }
    return text;
}

static const char *unsummed(const Implied *x)
{
    const Op *op = x->source;
    if (!op || !op_is_einsum(op->kind) || !has_weight(x->p, op) ||
        style_of_path(x->p, op->path, x->axis) || op->phase != PH_FORWARD)
        return NULL;
    AxisPlace to = x->to->ax[x->axis];
    return line(x->p, op->path,
                to.kind == AX_S
                    ? arena_printf(x->p->arena, "RowwiseParallel(output=%s)",
                                   layout_text(x->p->arena, to))
                    : "RowwiseParallel");
}

static const char *lookup(const Implied *x)
{
    if (!x->op || x->op->kind != OP_embedding ||
        !has_weight(x->p, x->op))
        return NULL;
    const char *out = layout_text(x->p->arena,
                                  place_of(x->op->out[0], x->axis));
    bool split = out && place_of(x->op->out[0], x->axis).kind == AX_S;
    return line(x->p, x->op->path,
                split ? arena_printf(x->p->arena, "RowwiseParallel("
                                     "input=Replicate, output=%s)", out)
                      : "RowwiseParallel(input=Replicate)");
}

/* The einsum of a Linear without a style on the axis, for any einsum of its
 * forward or backward pass; else NULL. */
static const Op *free_linear(const Program *p, const Op *op, int axis)
{
    if (!op || !op_is_einsum(op->kind) || !has_weight(p, op) ||
        style_of_path(p, op->path, axis))
        return NULL;
    if (op->phase == PH_FORWARD)
        return op;
    for_ops(forward, p->step)
        if (forward->phase == PH_FORWARD && op_is_einsum(forward->kind) &&
            strcmp(forward->path, op->path) == 0)
            return forward;
    return NULL;
}

static const char *linear(const Implied *x)
{
    Arena *a = x->p->arena;
    const Op *op = free_linear(x->p, x->op, x->axis);
    if (!op)
        return NULL;
    AxisPlace in = place_of(op->arg[0], x->axis);
    AxisPlace out = place_of(op->out[0], x->axis);
    const char *as = layout_text(a, in), *becomes = layout_text(a, out);
    bool features = in.kind == AX_S && in.dim + 1 == op->arg[0]->type.ndim;
    const char *style = features ? "RowwiseParallel" : "ColwiseParallel";
    if (features && out.kind == AX_S && becomes)
        style = arena_printf(a, "RowwiseParallel(output=%s)", becomes);
    else if (!features && in.kind == AX_S && as)
        style = arena_printf(a, "ColwiseParallel(input=%s)", as);
    return line(x->p, op->path, style);
}

static const char *input(const Implied *x)
{
    const Op *op = x->op;
    const Style *s = op ? style_of_path(x->p, op->path, x->axis) : NULL;
    if (!s || s->kind != STYLE_COLWISE || op->phase != PH_BACKWARD ||
        !op_is_einsum(op->kind) || s->in_from[0].kind != LAYOUT_REPLICATE)
        return NULL;
    AxisPlace out = place_of(op->out[0], x->axis);
    if (out.kind != AX_S)
        return NULL;
    return line(x->p, op->path,
                arena_printf(x->p->arena, "ColwiseParallel(input=%s)",
                             layout_text(x->p->arena, out)));
}

/* Whether an op ends a search. */
typedef bool Wanted(const Implied *x, const Op *op);

/* The first op that `wanted` accepts among the readers of v and of the
 * boundaries and elementwise ops of v; or NULL. `budget` bounds the number of
 * readers. */
static const Op *reader_after(const Implied *x, const Value *v, Wanted *wanted,
                              int *budget)
{
    int n;
    Op *const *reader = uses_readers(x->uses, v, &n);
    for (int i = 0; i < n && (*budget)-- > 0; i++) {
        const Op *op = reader[i];
        if (wanted(x, op))
            return op;
        bool passes = op->kind == OP_boundary || op_is_elementwise(op->kind);
        const Op *found = passes && op->nouts == 1
                              ? reader_after(x, op->out[0], wanted, budget)
                              : NULL;
        if (found)
            return found;
    }
    return NULL;
}

enum { BUDGET = 32 }; /* readers that a search visits */

static bool is_linear(const Implied *x, const Op *op)
{
    return op->phase == PH_FORWARD && op_is_einsum(op->kind) &&
           has_weight(x->p, op);
}

static const char *rowwise(const Implied *x)
{
    int budget = BUDGET;
    AxisPlace at = place_of(x->from, x->axis);
    if (!x->op || !op_is_elementwise(x->op->kind) || at.kind != AX_S ||
        at.dim + 1 != x->from->type.ndim || x->op->phase != PH_FORWARD)
        return NULL;
    const Op *op = reader_after(x, x->op->out[0], is_linear, &budget);
    if (!op || style_of_path(x->p, op->path, x->axis))
        return NULL;
    AxisPlace out = place_of(op->out[0], x->axis);
    return line(x->p, op->path,
                out.kind == AX_S && out.dim + 1 != op->out[0]->type.ndim
                    ? arena_printf(x->p->arena, "RowwiseParallel(output=%s)",
                                   layout_text(x->p->arena, out))
                    : "RowwiseParallel");
}

/* Whether the Partial was summed over the last dim, the features. */
static const char *features(const Implied *x)
{
    if (!x->source || x->source->nargs == 0)
        return NULL;
    const Value *v = x->source->arg[0];
    AxisPlace at = place_of(v, x->axis);
    if (at.kind != AX_S || at.dim + 1 != v->type.ndim || v->type.ndim < 2)
        return NULL;
    return output_line(x, v, (AxisPlace){AX_R, 0, 0});
}

/* Whether the op is the gradient of a RowwiseParallel's output. */
static bool is_reduced(const Implied *x, const Op *op)
{
    const Style *s = op->kind == OP_boundary && attr_grad(op)
                         ? style_of_path(x->p, attr_path(op), x->axis)
                         : NULL;
    return s && s->kind == STYLE_ROWWISE;
}

static const char *residual(const Implied *x)
{
    int budget = BUDGET;
    Arena *a = x->p->arena;
    AxisPlace is = place_of(x->from, x->axis);
    const char *text = output_line(x, x->from, x->to->ax[x->axis]);
    if (!text && x->op && op_is_elementwise(x->op->kind) &&
        x->op->nargs == 2)
        text = output_line(x, x->op->arg[1 - x->operand], is);
    if (text || !x->carry || is.kind != AX_S)
        return text;
    const Op *op = reader_after(x, x->carry, is_reduced, &budget);
    const Style *s = op ? style_of_path(x->p, attr_path(op), x->axis)
                        : NULL;
    if (!s || s->out_to[0].kind != LAYOUT_REPLICATE)
        return NULL;
    return line(x->p, s->path,
                arena_printf(a, "RowwiseParallel(output=%s)",
                             layout_text(a, is)));
}

typedef const char *Case(const Implied *x);
static Case *const cases[] = {attention, unsummed, lookup,   linear,
                              input,     rowwise,  features, residual};

/* Whether both paths have the same parent module. */
static bool same_parent(const char *a, const char *b)
{
    const char *x = strrchr(a, '.'), *y = strrchr(b, '.');
    size_t n = x ? (size_t)(x - a) : 0;
    return n == (y ? (size_t)(y - b) : 0) && strncmp(a, b, n) == 0;
}

/* RowwiseParallel for a Linear whose input comes from another Linear in the
 * same module, or from that module's attention; ColwiseParallel for others. */
static const char *style_of_linear(const Program *p, const Op *op)
{
    const Op *before = producer_of(op->arg[0]);
    const char *dot = strrchr(op->path, '.');
    if (!before)
        return "ColwiseParallel";
    if (op_is_attention(before->kind))
        return dot && strlen(before->path) == (size_t)(dot - op->path) &&
                       strncmp(op->path, before->path,
                               strlen(before->path)) == 0
                   ? "RowwiseParallel"
                   : "ColwiseParallel";
    return op_is_einsum(before->kind) && has_weight(p, before) &&
                   same_parent(before->path, op->path)
               ? "RowwiseParallel"
               : "ColwiseParallel";
}

/* Whether an attention reads the Linear's result, and has heads that the axis
 * does not divide. */
static bool makes_odd_heads(const Program *p, const Op *linear, int axis)
{
    for (const Op *op = linear->next; op; op = op->next)
        for (int i = 0; op_is_attention(op->kind) && i < 3; i++)
            if (producer_of(op->arg[i]) == linear &&
                !divides_heads(p, op, axis))
                return true;
    return false;
}

const char *plan_split_advice(const Program *p, const Op *op, int axis)
{
    const Op *linear = free_linear(p, op, axis);
    if (linear)
        return makes_odd_heads(p, linear, axis)
                   ? NULL
                   : line(p, op->path, style_of_linear(p, linear));
    Implied x = {.p = p, .op = op, .axis = axis};
    return style_of_path(p, op->path, axis) ? NULL : attention(&x);
}

const char *plan_advice(const Implied *x)
{
    if (!(x->p->plan.tensor_axes >> x->axis & 1))
        return NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i](x);
        if (text)
            return text;
    }
    return NULL;
}
