/* schedule_streams.c: assigns the streams of ops.
 *
 *   compute   kernels, matmuls, attention
 *   tensor    collectives over tensor axes (mesh axes that `parallelize` names), and the
 *             exchanges of sequences over the axis of a context and of tokens over the axes
 *             of experts: compute waits for them, and on the stream `data` they would wait
 *             for the prefetched gathers of units
 *   data      collectives over the other axes, and in loops over layers kernels that only
 *             convert or accumulate what these have reduced: on the stream `compute` such a
 *             kernel would wait for its reduction, and the next layer for both
 *   host      copies from and to host memory
 *
 * before   %g = reduce_scatter{axes={dp}, unit="layers.*"} %dw … backward stream=2
 *          %sum = fused{name="add_grad"} %g, %sums … backward
 * after    %sum = fused{name="add_grad"} %g, %sums … backward stream=2
 */
#include "ir/analysis/alias.h"
#include "ir/units.h"
#include "passes/schedule/issue.h"

/* Whether op exchanges activations over the axis of a context or the axes of experts;
 * gathers and gradients of units and of other parameters may have these axes too. */
static bool exchanges_activations(const Program *p, const Op *op)
{
    uint32_t axes = p->plan.context.axes | p->plan.experts.axes;
    bool may = op->kind == OP_all_gather || op->kind == OP_reduce_scatter;
    const char *unit = may ? attr_unit(op) : NULL;
    return (may || op->kind == OP_all_to_all || op->kind == OP_shift) && !(unit && *unit) &&
           (attr_axes(op) & ~axes) == 0;
}

static bool is_pointwise(const Op *op)
{
    if (op->kind != OP_fused)
        return false;
    for (const Op *inner = op->body->first; inner; inner = inner->next)
        if (!op_is_elementwise(inner->kind) && !op_is_view(inner->kind))
            return false;
    return true;
}

/* Whether v holds gradients that the stream `data` has reduced, or what a kernel on it has made
 * of them: not where the plan has overlap=false for their unit. A reduction may have several
 * parts (split_collectives, hybrid_shard), of which only the first names the unit. */
static bool is_reduced(const Program *p, Value *v)
{
    v = value_root(v);
    const Op *def = v->def;
    if (!def || def->stream != STREAM_DATA)
        return false;
    if (def->kind == OP_fused)
        return true;
    if (def->why.origin != ORIGIN_GRADIENT)
        return false;
    const char *unit = def->kind == OP_reduce_scatter ? attr_unit(def) : NULL;
    if (unit && *unit)
        return unit_overlaps(p, unit);
    Value *of = def->arg[v->index];
    const Op *first = value_root(of)->def;
    return !first || first->stream != STREAM_DATA || is_reduced(p, of);
}

/* Only loops over layers: in one over microbatches, the gradients of units outside of such
 * loops would keep their memory for all of it. */
static bool is_in_layers(const Op *op)
{
    const Op *loop = op->region->owner;
    return loop && loop->kind == OP_loop &&
           (loop->phase == PH_BACKWARD || loop->phase == PH_WEIGHTS);
}

/* Whether a kernel reads gradients that an iteration over layers has reduced, and no other
 * value of the iteration. The streams of earlier ops are known. */
static bool follows_reduction(const Program *p, const Op *op)
{
    bool follows = false;
    if (!is_in_layers(op) || !is_pointwise(op))
        return false;
    for (int i = 0; i < op->nargs; i++) {
        Value *v = value_root(op->arg[i]);
        if (!v->def || v->def->region != op->region || v->def->phase == PH_INIT ||
            v->def->kind == OP_param || v->def->kind == OP_scalar)
            continue;
        if (!is_reduced(p, v))
            return false;
        follows = true;
    }
    return follows;
}

static int stream_of(const Program *p, const Op *op)
{
    if (op->kind == OP_fetch || op->kind == OP_store)
        return STREAM_HOST;
    if (op_is_collective(op->kind) && !op_is_hand_over(op->kind))
        return attr_axes(op) & p->plan.tensor_axes || exchanges_activations(p, op)
                   ? STREAM_TENSOR : STREAM_DATA;
    return follows_reduction(p, op) ? STREAM_DATA : STREAM_COMPUTE;
}

void schedule_streams(Program *p)
{
    for_ops(op, p->step)
        op->stream = stream_of(p, op);
}
